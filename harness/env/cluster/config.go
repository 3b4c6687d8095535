package cluster

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"fencepost/harness/env/login"
)

// Paxos variants of Cassandra 5.0 (org.apache.cassandra.config.Config). Those
// named "without" give up a guarantee: a checker must find what they do.
const (
	PaxosV1                   = "v1"
	PaxosV1UnsafeReadsRejects = "v1_without_linearizable_reads_or_rejected_writes"
	PaxosV2                   = "v2"
	PaxosV2UnsafeReads        = "v2_without_linearizable_reads"
	PaxosV2UnsafeReadsRejects = "v2_without_linearizable_reads_or_rejected_writes"
)

// PaxosVariants are the values that LocalConfig.PaxosVariant takes.
func PaxosVariants() []string {
	return []string{PaxosV1, PaxosV1UnsafeReadsRejects, PaxosV2, PaxosV2UnsafeReads, PaxosV2UnsafeReadsRejects}
}

// InternodePort is where nodes reach each other.
const InternodePort = 7000

const (
	cqlPort = 9042
	jmxPort = 7199

	minHeapMiB = 256
	// beyondHeapMiB is what a node takes beside its heap: code cache, metaspace,
	// threads, buffers (measured: 0.3 to 0.4 GB).
	beyondHeapMiB = 400 + commitLogMiB
)

// LocalConfig says what StartLocal starts. The zero value is three nodes of
// Cassandra 5.0.6 with Paxos v2.
type LocalConfig struct {
	// Release is one of Releases; default DefaultRelease.
	Release string
	// Layout is how many nodes there are in which data centre, 9 at most; default Plain().
	Layout Layout
	// PaxosVariant is one of PaxosVariants; default v2 (the database's own default is v1).
	// Releases before 4.1 have v1 alone.
	PaxosVariant string
	// CommitLog is one of CommitLogs; default batch (the database's own default is periodic).
	CommitLog string
	// Auth: clients log in and need permissions; Superuser is there from the start.
	Auth bool
	// ClientTLS: clients must speak TLS and show a certificate; nil: they do neither.
	ClientTLS *ClientTLS
	// HeapMiB is each node's heap; default 512, at least 256.
	HeapMiB int
	// CacheDir overrides CacheDir().
	CacheDir string
	// LogDir receives n1.log … (appended to); default: a new directory in the
	// cache's logs/, of which the newest ten are kept.
	LogDir string
	// Seed seeds the links' random numbers.
	Seed uint64
	// StartTimeout bounds the start until the cluster is healthy, and separately
	// the bootstrap of the template; default 5 minutes (idle, both take well under one).
	StartTimeout time.Duration
	// Progress is told, in words for a person, what is going on; nil: nobody is.
	Progress func(string)
	// Logger receives what goes wrong later, e.g. a crash; default slog.Default().
	Logger *slog.Logger

	line   line // of Release
	accord bool // Release says so; Release is then that without it
}

// name is the release as it was asked for.
func (c LocalConfig) name() string {
	name := c.Release
	if c.accord {
		name += withAccord
	}
	if c.CommitLog == CommitLogPeriodic {
		name += withPeriodic
	}
	return name
}

// Superuser is the name, and the password, of the role that a cluster with Auth has
// from the start.
const Superuser = "cassandra"

// ClientTLS is the material of clients' connections, in PEM files.
type ClientTLS struct {
	// Keystore has the nodes' key (PKCS #8) and certificate, Truststore the authority
	// of clients' certificates.
	Keystore, Truststore string
	// Own is what the harness's own probes show.
	Own login.TLS
}

// login is what clients have to show.
func (c LocalConfig) login() login.Login {
	var l login.Login
	if c.Auth {
		l.Username, l.Password = Superuser, Superuser
	}
	if c.ClientTLS != nil {
		l.TLS = &c.ClientTLS.Own
	}
	return l
}

// neutral is the configuration by which a template is made and named: what takes
// effect at run time and has no part in an empty ring has its default.
func (c LocalConfig) neutral() LocalConfig {
	c.PaxosVariant, c.CommitLog, c.Auth, c.ClientTLS, c.accord = c.line.variants()[0], CommitLogBatch, false, nil, false
	return c
}

// WithDefaults fills in what is not given, and says what is wrong.
func (c LocalConfig) WithDefaults() (LocalConfig, error) {
	if c.Layout == nil {
		c.Layout = Plain()
	}
	if c.HeapMiB == 0 {
		c.HeapMiB = 512
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 5 * time.Minute
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if err := c.Layout.Check(); err != nil {
		return c, &ConfigError{"Layout", err}
	}
	var err error
	c.Release = cmp.Or(c.Release, DefaultRelease)
	if release, periodic := strings.CutSuffix(c.Release, withPeriodic); periodic {
		c.Release, c.CommitLog = release, CommitLogPeriodic
	}
	c.CommitLog = cmp.Or(c.CommitLog, CommitLogBatch)
	if c.line, err = lineOf(c.Release); err != nil {
		return c, &ConfigError{"Release", err}
	}
	if release, accord := strings.CutSuffix(c.Release, withAccord); accord {
		c.Release, c.accord = release, true
	}
	has := c.line.variants()
	c.PaxosVariant = cmp.Or(c.PaxosVariant, has[0])
	switch {
	case !slices.Contains(PaxosVariants(), c.PaxosVariant):
		return c, &ConfigError{"PaxosVariant", fmt.Errorf("unknown variant %q, want one of %s", c.PaxosVariant, strings.Join(PaxosVariants(), ", "))}
	case !slices.Contains(has, c.PaxosVariant):
		return c, &ConfigError{"PaxosVariant", fmt.Errorf("release %s has no variant %s, only %s", c.Release, c.PaxosVariant, strings.Join(has, ", "))}
	}
	if !slices.Contains(CommitLogs(), c.CommitLog) {
		return c, &ConfigError{"CommitLog", fmt.Errorf("unknown mode %q, want one of %s", c.CommitLog, strings.Join(CommitLogs(), ", "))}
	}
	if c.HeapMiB < minHeapMiB {
		return c, &ConfigError{"HeapMiB", fmt.Errorf("%d, want at least %d", c.HeapMiB, minHeapMiB)}
	}
	if c.CacheDir == "" {
		dir, err := CacheDir()
		if err != nil {
			return c, err
		}
		c.CacheDir = dir
	}
	if !plainPath.MatchString(c.CacheDir) {
		return c, &ConfigError{"CacheDir", fmt.Errorf("%q: Java's options and Cassandra's configuration cannot hold such a path: set %s to an absolute one of letters, digits and . _ - + @ ~", c.CacheDir, CacheEnv)}
	}
	return c, nil
}

var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/@~+-]*$`)

// NodeName and NodeIP are those of the i-th node in the sandbox, from 0.
func NodeName(i int) string { return "n" + strconv.Itoa(i+1) }
func NodeIP(i int) string   { return "10.77.0." + strconv.Itoa(11+i) }

// vnodes is the number of tokens a node.
const vnodes = 8

// tokens are node i's of n: the ring is cut evenly, and its ranges are dealt out in
// turn. Fixed tokens let all nodes of a new cluster start at once, and make every
// cluster's ring the same.
func tokens(i, n int) string {
	total := big.NewInt(int64(n * vnodes))
	span := new(big.Int).Lsh(big.NewInt(1), 64)
	low := new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 63))
	out := make([]string, vnodes)
	for k := range vnodes {
		t := new(big.Int).Mul(span, big.NewInt(int64(k*n+i)))
		t.Div(t, total)
		// The lowest value is reserved for the ring's minimum token.
		out[k] = t.Add(t, low).Add(t, big.NewInt(1)).String()
	}
	return strings.Join(out, ",")
}

// How nodes sync their commit log. Periodic answers before a write can be replayed:
// a replay ends at the last marker in the log, which is written every 100 ms, so a
// node that is killed forgets what it acknowledged since, though all of it is in the
// page cache (measured: up to 13 of 600 writes in a second). With one node down and
// another killed, an acknowledged conditional write, or a promise, is then at one
// node only. Batch syncs before it answers.
const (
	CommitLogBatch    = "batch"
	CommitLogPeriodic = "periodic"
)

// CommitLogs are the values that LocalConfig.CommitLog takes.
func CommitLogs() []string { return []string{CommitLogBatch, CommitLogPeriodic} }

// The commit log is in memory (tmpfs), where it outlives its process as a file
// does and syncing it costs nothing: this harness kills processes, not machines.
// Its file system is twice as large as the log is allowed to be, which Cassandra
// exceeds while it flushes.
const (
	commitLogMiB       = 128
	commitLogMemoryMiB = 2 * commitLogMiB
)

// commitLogDir is the directory of the commit log below a node's data directory.
func commitLogDir(data string) string { return filepath.Join(data, "commitlog") }

// cassandraYAML differs from the shipped one where a small node for tests should
// (small caches and segments, no snapshots), and in commitlog_sync: see CommitLogs. Hints
// are flushed every second, not every ten, so that those that wait can be seen.
//
// Accord's defaults are for a ring that is up: a node waits 100 times for others' topology before
// it serves, and quarter of an hour, after SIGTERM, for transactions that need them.
//
// commit_failure_policy: with the shipped "stop" a node leaves the cluster for good when
// its commit log is reclaimed in the instant in which a table is dropped (seen on 5.0.6:
// "Unknown CF" in flushDataFrom); with "ignore" it tries again. Nothing is acknowledged
// that its log did not take, as a write waits for the log's sync.
var cassandraYAML = template.Must(template.New("cassandra.yaml").Parse(`cluster_name: fencepost
num_tokens: {{.VNodes}}
initial_token: {{.Tokens}}
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{{.Seeds}}"
listen_address: {{.IP}}
rpc_address: {{.IP}}
storage_port: 7000
native_transport_port: 9042
endpoint_snitch: {{if .RackDC}}GossipingPropertyFileSnitch{{else}}SimpleSnitch{{end}}
data_file_directories: [{{.Data}}/data]
commitlog_directory: {{.CommitLogDir}}
commitlog_total_space: {{.CommitLogMiB}}MiB
saved_caches_directory: {{.Data}}/saved_caches
hints_directory: {{.Data}}/hints
cdc_raw_directory: {{.Data}}/cdc_raw
commitlog_sync: {{.CommitLog}}
{{- if eq .CommitLog "periodic"}}
commitlog_sync_period: 10000ms
{{- end}}
commitlog_segment_size: 8MiB
commit_failure_policy: ignore
paxos_variant: {{.Paxos}}
paxos_state_purging: repaired
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
file_cache_size: 32MiB
key_cache_size: 8MiB
networking_cache_size: 16MiB
concurrent_reads: 16
concurrent_writes: 16
auto_snapshot: false
hinted_handoff_enabled: true
hints_flush_period: 1000ms
authenticator: {{if .Auth}}PasswordAuthenticator{{else}}AllowAllAuthenticator{{end}}
authorizer: {{if .Auth}}CassandraAuthorizer{{else}}AllowAllAuthorizer{{end}}
{{- with .TLS}}
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  keystore: {{.Keystore}}
  truststore: {{.Truststore}}
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
{{- end}}
{{- if .Accord}}
accord:
  enabled: true
  journal_directory: {{.Data}}/accord_journal
  journal: {flush_mode: {{if eq .CommitLog "batch"}}BATCH{{else}}PERIODIC{{end}}}
  shutdown_grace_period: 1s
  retry_fetch_topology: "200ms...1s*attempt <= 1s,retries=3"
{{- end}}
`))

// Logback is a node's logback.xml. It prints to standard output only; the tool keeps
// that in the node's log.
const Logback = `<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{"yyyy-MM-dd'T'HH:mm:ss,SSS", UTC} [%thread] %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
`

// yamlFor returns node i's cassandra.yaml with its data in dataDir.
func (c LocalConfig) yamlFor(i int, dataDir string) (string, error) {
	ips := make([]string, c.Layout.Nodes())
	for k := range ips {
		ips[k] = NodeIP(k)
	}
	return NodeYAML{
		IPs: ips, Index: i, Data: dataDir, Paxos: c.PaxosVariant, CommitLog: c.CommitLog, Auth: c.Auth, ClientTLS: c.ClientTLS,
		RackDC: c.Layout.rackdc(i) != "", Accord: c.accord, line: c.line,
	}.Text()
}

// NodeYAML is what a node's cassandra.yaml depends on, whatever the node runs in.
type NodeYAML struct {
	IPs       []string // of all nodes
	Index     int      // which of them this is, from 0
	Data      string   // directory; the commit log is in its commitlog
	Paxos     string   // one of PaxosVariants
	CommitLog string   // one of CommitLogs
	Auth      bool     // clients log in
	ClientTLS *ClientTLS
	RackDC    bool // its data centre is in a cassandra-rackdc.properties
	Accord    bool // it is switched on

	line line // of its release; the zero value has what DefaultRelease reads
}

// Text returns the file.
func (n NodeYAML) Text() (string, error) {
	var b bytes.Buffer
	err := cassandraYAML.Execute(&b, map[string]any{
		"VNodes": vnodes, "Tokens": tokens(n.Index, len(n.IPs)), "Seeds": strings.Join(n.IPs, ","),
		"IP": n.IPs[n.Index], "Data": n.Data, "Paxos": n.Paxos, "CommitLog": n.CommitLog,
		"CommitLogDir": commitLogDir(n.Data), "CommitLogMiB": commitLogMiB, "Auth": n.Auth, "TLS": n.ClientTLS,
		"RackDC": n.RackDC, "Accord": n.Accord,
	})
	if err != nil {
		return "", fmt.Errorf("cluster: cassandra.yaml: %w", err)
	}
	return n.line.dialect(b.String()), nil
}
