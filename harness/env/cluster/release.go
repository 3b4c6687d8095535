package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"fencepost/scripts"
)

// DefaultRelease is the release of Cassandra that runs use unless they name another.
const DefaultRelease = scripts.CassandraVersion

// withAccord ends the name of a release whose nodes have Accord switched on, for tables that ask for
// it: 6.0-alpha2+accord. Conditional writes of all other tables are Paxos's there too.
const withAccord = "+accord"

// withPeriodic ends the name of a release whose nodes sync their commit log periodically, as is the
// database's own default: 5.0.9+periodic. It goes with any release.
const withPeriodic = "+periodic"

// Releases are those of Cassandra that the local backend can start.
func Releases() (out []string) {
	for _, release := range scripts.CassandraReleases() {
		out = append(out, release)
		if slices.ContainsFunc(lines, func(l line) bool { return l.accord && l.has(release) }) {
			out = append(out, release+withAccord)
		}
	}
	return out
}

// line is releases that are started and configured alike.
type line struct {
	// name is that of one release, or what all their names begin with: 3.11 has 3.11.9.
	name string
	// older releases have units in the names of settings, not in values, lack some settings,
	// and know no paxos_variant: what they do is v1.
	older bool
	// thrift: it serves the protocol before CQL's too, and CQL only if that is said; and in batch
	// mode it wants to know for how long a write waits for others to be synced with.
	thrift bool
	// accord: Accord can be switched on.
	accord bool
	// noJMX: setting up JMX ends the JVM, as it needs a class that Java 17 does not have.
	noJMX bool
}

// lines are all there are; the first that has a release is its own.
var lines = []line{
	{name: "3.11.1", older: true, thrift: true, noJMX: true},
	{name: "3.11", older: true, thrift: true},
	{name: "4.0", older: true},
	{name: "4.1"},
	{name: "5.0"},
	{name: "6.0", accord: true},
}

func (l line) has(release string) bool {
	rest, ok := strings.CutPrefix(release, l.name)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '-')
}

// lineOf is the line of a release.
func lineOf(release string) (line, error) {
	at := slices.IndexFunc(lines, func(l line) bool { return l.has(release) })
	switch {
	case !slices.Contains(Releases(), release):
		return line{}, fmt.Errorf("unknown release %q, want one of %s, with +periodic behind it for a commit log that is synced so; scripts/fetch-cassandra --add RELEASE and make build add another",
			release, strings.Join(Releases(), ", "))
	case at < 0:
		return line{}, fmt.Errorf("release %s is of no line that is known here: %s", release, strings.Join(lineNames(), ", "))
	}
	return lines[at], nil
}

// CheckRelease says what is wrong with a release, or with a Paxos variant of it; "" is the
// default of each.
func CheckRelease(release, variant string) error {
	_, err := LocalConfig{CacheDir: "/", Release: release, PaxosVariant: variant}.WithDefaults()
	return err
}

func lineNames() (out []string) {
	for _, l := range lines {
		out = append(out, l.name)
	}
	return out
}

// variants are the Paxos variants that the line's releases have, the default first.
func (l line) variants() []string {
	if l.older {
		return []string{PaxosV1}
	}
	return append([]string{PaxosV2}, slices.DeleteFunc(PaxosVariants(), func(v string) bool { return v == PaxosV2 })...)
}

var (
	// withUnit is a setting whose value has a unit, notYet those that older releases do not know.
	withUnit = regexp.MustCompile(`(?m)^(\w+): (\d+)(MiB|ms)$`)
	// batchMode is in a file whose commit log is synced so.
	batchMode = regexp.MustCompile(`(?m)^commitlog_sync: batch$`)
	notYet    = regexp.MustCompile(`(?m)^(paxos_variant|paxos_state_purging|networking_cache_size): .*\n`)
)

// dialect is a cassandra.yaml as the line's releases read it.
func (l line) dialect(yaml string) string {
	if l.older {
		yaml = notYet.ReplaceAllString(yaml, "")
		yaml = withUnit.ReplaceAllStringFunc(yaml, func(s string) string {
			m := withUnit.FindStringSubmatch(s)
			return m[1] + map[string]string{"MiB": "_in_mb: ", "ms": "_in_ms: "}[m[3]] + m[2]
		})
	}
	if l.thrift {
		yaml += "start_native_transport: true\nstart_rpc: false\n"
		yaml = batchMode.ReplaceAllString(yaml, "$0\ncommitlog_sync_batch_window_in_ms: 2")
	}
	return yaml
}
