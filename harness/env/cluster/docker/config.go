package docker

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
)

const (
	// DefaultImage is the official image of the version that the project is tested with.
	DefaultImage = "cassandra:" + cluster.CassandraVersion
	// ImageEnv names another image.
	ImageEnv = "FENCEPOST_IMAGE"

	nodes   = 3
	cqlPort = 9042
)

// Image is what ImageEnv says, or DefaultImage.
func Image() string {
	if image := os.Getenv(ImageEnv); image != "" {
		return image
	}
	return DefaultImage
}

// Config says what Start starts. The zero value is three nodes of the official image
// with Paxos v2.
type Config struct {
	// Image is the nodes' image; default Image(). It must be made as the official one is:
	// configuration in /etc/cassandra, data in /var/lib/cassandra, CASSANDRA_SEEDS and so on.
	Image string
	// PaxosVariant is one of cluster.PaxosVariants; default v2.
	PaxosVariant string
	// HeapMiB is each node's heap; default 512, at least 256.
	HeapMiB int
	// LogDir receives n1.log …; default: a new directory in the cache's logs/.
	LogDir string
	// Seed seeds the links' random numbers.
	Seed uint64
	// StartTimeout bounds the start, without pulling the image; default 5 minutes.
	StartTimeout time.Duration
	// Progress is told, in words for a person, what is going on; nil: nobody is.
	Progress func(string)
	// Logger receives what goes wrong later, e.g. a crash; default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Image == "" {
		c.Image = Image()
	}
	l, err := c.local().WithDefaults()
	c.PaxosVariant, c.HeapMiB, c.StartTimeout, c.Progress, c.Logger = l.PaxosVariant, l.HeapMiB, l.StartTimeout, l.Progress, l.Logger
	return c, err
}

// local is what it shares with the local backend.
func (c Config) local() cluster.LocalConfig {
	return cluster.LocalConfig{
		PaxosVariant: c.PaxosVariant, HeapMiB: c.HeapMiB, LogDir: c.LogDir, StartTimeout: c.StartTimeout, Progress: c.Progress, Logger: c.Logger,
	}
}

// Where the official image keeps its data and its configuration.
const (
	dataDir   = "/var/lib/cassandra"
	commitLog = dataDir + "/commitlog"
	confDir   = "/etc/cassandra"
)

// environment is a node's: what the official image's entrypoint writes over
// cassandra.yaml, and what Cassandra's own start script reads.
func (c Config) environment(ip string, all []string) map[string]string {
	return map[string]string{
		"CASSANDRA_CLUSTER_NAME":          "fencepost",
		"CASSANDRA_SEEDS":                 strings.Join(all, ","),
		"CASSANDRA_LISTEN_ADDRESS":        ip,
		"CASSANDRA_BROADCAST_ADDRESS":     ip,
		"CASSANDRA_RPC_ADDRESS":           ip,
		"CASSANDRA_BROADCAST_RPC_ADDRESS": ip,
		"CASSANDRA_ENDPOINT_SNITCH":       "SimpleSnitch",
		// In pairs; the second is heeded by CMS alone.
		"MAX_HEAP_SIZE": fmt.Sprintf("%dM", c.HeapMiB),
		"HEAP_NEWSIZE":  fmt.Sprintf("%dM", c.HeapMiB/4),
		// What makes a start take seconds instead of minutes.
		"JVM_EXTRA_OPTS": "-Dcassandra.ring_delay_ms=2000 -Dcassandra.skip_wait_for_gossip_to_settle=0 " +
			"-Dcassandra.memtable.row_overhead_size=180 -Djava.net.preferIPv4Stack=true",
	}
}
