// Package scripts gives the tool the files beside its shell scripts that both
// must agree on.
package scripts

import (
	"embed"
	"slices"
	"strings"
)

// CassandraVersion is the release of Cassandra that runs use unless they name another.
const CassandraVersion = "5.0.6"

// PostgresVersion is the release that scripts/fetch-postgres fetches.
const PostgresVersion = "17.6.0"

//go:embed cassandra/*.sha256
var cassandra embed.FS

// StoreVersions are the releases of other stores, and of what their faults and locks need, that
// scripts/fetch-store fetches.
var StoreVersions = map[string]string{"curator": "5.9.0", "curator-old": "5.6.0", "db-scheduler": "16.12.0", "etcd": "3.7.3", "libfaketime": "0.9.10", "nats": "2.15.2", "quartz": "2.5.2", "redis": "7.0.15", "shedlock": "7.10.1", "temporal": "1.32.1", "zookeeper": "3.9.3"}

const sums = ".sha256"

// CassandraReleases are those that scripts/fetch-cassandra fetches, sorted as text.
func CassandraReleases() []string {
	entries, err := cassandra.ReadDir("cassandra")
	if err != nil {
		panic(err) // it is built in
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), sums))
	}
	slices.Sort(out)
	return out
}

// CassandraSums is the list of a release's jars, in the format of sha256sum: a line a jar,
// hex digest, two spaces, file name. Of one that CassandraReleases does not have it is "".
func CassandraSums(release string) string {
	text, err := cassandra.ReadFile("cassandra/" + release + sums)
	if err != nil {
		return ""
	}
	return string(text)
}

// Digest is the script digest, for bash: the digest of what decides a run's verdict.
//
//go:embed digest
var Digest string
