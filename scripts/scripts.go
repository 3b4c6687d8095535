// Package scripts gives the tool the files beside its shell scripts that both
// must agree on.
package scripts

import _ "embed"

// CassandraVersion is the release that scripts/fetch-cassandra fetches.
const CassandraVersion = "5.0.6"

// PostgresVersion is the release that scripts/fetch-postgres fetches.
const PostgresVersion = "17.6.0"

// CassandraSums is the list of that release's jars, in the format of sha256sum:
// a line a jar, hex digest, two spaces, file name.
//
//go:embed cassandra-5.0.6.sha256
var CassandraSums string

// Digest is the script digest, for bash: the digest of what decides a run's verdict.
//
//go:embed digest
var Digest string
