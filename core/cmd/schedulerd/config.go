package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/api"
	"fencepost/core/service/handlers"
	"fencepost/core/service/late"
	"fencepost/core/service/tracing"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// config is what a process is told, as it was given.
type config struct {
	name                             string
	httpHost                         string
	httpPort, peerPort               int
	advertise                        string
	tokenFile, token                 string
	rate                             float64
	burst                            int
	maxBody                          int64
	pprofAddr, logLevel              string
	otlpEndpoint, otlpProtocol       string
	queues                           []string
	buckets, maxInProgress           int
	maxAttempts                      int
	backoffBase, backoffMax          int64 // ms
	poll, ttl, drain, dedupe         int64 // ms
	lateAfter, lateTimeout           int64 // ms
	lateWebhook                      string
	target                           string
	hosts                            []string
	contact                          []string
	port                             int
	keyspace, localDC                string
	replicas                         int
	username, password, passwordFile string
	tls, insecure                    bool
	ca, cert, key, serverName        string
}

// otlpProtocol is OpenTelemetry's name of the only way in which traces are sent.
const otlpProtocol = "http/protobuf"

// define defines all settings.
func (c *config) define(s *settings) {
	hostname, _ := os.Hostname()
	s.text(&c.name, "name", "WORKER_NAME", hostname, "this process's name, the same after a restart, unlike all others'; with the HTTP port behind it if it is not given")
	s.text(&c.httpHost, "http-host", "WORKER_HTTP_HOST", "", "address to serve the API at; empty: all")
	s.int(&c.httpPort, "http-port", "WORKER_HTTP_PORT", 8080, "port of the API, metrics and probes")
	s.text(&c.tokenFile, "api-token-file", "WORKER_API_TOKEN_FILE", "", "file with the token that requests must show")
	s.secret(&c.token, "WORKER_API_TOKEN", "the token itself; empty and no file: none is asked for")
	s.float(&c.rate, "rate-limit", "WORKER_RATE_LIMIT", 0, "requests to the API a second; 0: no limit")
	s.int(&c.burst, "rate-burst", "WORKER_RATE_BURST", 100, "how many of them may come at once")
	s.int64(&c.maxBody, "max-body-bytes", "WORKER_MAX_BODY_BYTES", api.DefaultMaxBody, "largest body of a request")
	s.int(&c.peerPort, "peer-port", "WORKER_PEER_PORT", 8081, "port at which other schedulers hand jobs on; 0: they use the inboxes, and commands must come to a shard's owner")
	s.text(&c.advertise, "advertise", "WORKER_ADVERTISE", "", "host:port at which others reach it; empty: the address by which this machine reaches Cassandra")
	s.list(&c.queues, "queues", "WORKER_QUEUES", []string{"default"}, "queues, as name or name=shards; the first is that of requests that name none")
	s.int(&c.buckets, "buckets", "WORKER_BUCKETS", 8, "shards of queues that do not say; fixed when a queue is created")
	s.int(&c.maxInProgress, "max-in-progress", "WORKER_MAX_IN_PROGRESS", 100, "handlers at work at once")
	s.int(&c.maxAttempts, "max-attempts", "WORKER_MAX_ATTEMPTS", job.DefaultMaxAttempts, "attempts of jobs that do not say")
	s.int64(&c.backoffBase, "backoff-base-ms", "WORKER_BACKOFF_BASE_MS", 0, "wait after the first failed attempt, doubling from then on, of jobs that do not say; 0: 5 s, 15 s, 1 min, 5 min, 30 min")
	s.int64(&c.backoffMax, "backoff-max-ms", "WORKER_BACKOFF_MAX_MS", 0, "the longest such wait; 0: 30 min")
	s.int64(&c.poll, "poll-interval-ms", "WORKER_POLL_INTERVAL_MS", 5000, "how often inboxes are read; jobs in shards are not polled for")
	s.int64(&c.ttl, "lease-ttl-ms", "WORKER_LEASE_TTL_MS", engine.DefaultTTL.Milliseconds(), "for how long a shard stands still after its owner died; the same for all processes")
	s.int64(&c.drain, "drain-ms", "WORKER_DRAIN_MS", engine.DefaultDrainTimeout.Milliseconds(), "for how long handlers may go on after SIGTERM")
	s.int64(&c.dedupe, "dedupe-window-ms", "WORKER_DEDUPE_WINDOW_MS", engine.DefaultDedupeWindow.Milliseconds(), "for how long a job's id is remembered after its end")
	s.int64(&c.lateAfter, "late-after-ms", "WORKER_LATE_AFTER_MS", engine.DefaultLateAfter.Milliseconds(), "how late a job or an occurrence of a schedule is told of, in the log, the metrics and by the webhook")
	s.text(&c.lateWebhook, "late-webhook", "WORKER_LATE_WEBHOOK", "", "URL that is told of what is late; empty: none")
	s.int64(&c.lateTimeout, "late-webhook-timeout-ms", "WORKER_LATE_WEBHOOK_TIMEOUT_MS", late.DefaultTimeout.Milliseconds(), "for how long its answer is waited for")
	s.text(&c.target, "http-target", "WORKER_HTTP_TARGET", "", "URL of jobs of kind http that name none")
	s.list(&c.hosts, "http-hosts", "WORKER_HTTP_HOSTS", nil, "hosts that jobs of kind http may name, as host or host:port; * for all")
	s.text(&c.logLevel, "log-level", "WORKER_LOG_LEVEL", "info", "debug, info, warn or error")
	s.text(&c.pprofAddr, "pprof-addr", "WORKER_PPROF_ADDR", "", "host:port of profiles (net/http/pprof); empty: off")
	s.text(&c.otlpEndpoint, "otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "", "base URL of a collector of traces, such as http://localhost:4318; empty: none are made")
	s.text(&c.otlpProtocol, "otlp-protocol", "OTEL_EXPORTER_OTLP_PROTOCOL", otlpProtocol, "how traces are sent; no other way is known")
	s.list(&c.contact, "cassandra-contact-point", "CASSANDRA_CONTACT_POINT", []string{"127.0.0.1"}, "nodes, as IP addresses or names; one that answers is enough")
	s.int(&c.port, "cassandra-port", "CASSANDRA_PORT", cassandra.DefaultPort, "CQL port of all nodes")
	s.text(&c.keyspace, "cassandra-keyspace", "CASSANDRA_KEYSPACE", "scheduler", "keyspace, created if it does not exist")
	s.text(&c.localDC, "local-dc", "CASS_LOCAL_DC", "", "the data centre with all replicas and schedulers: LOCAL_ consistencies, NetworkTopologyStrategy; empty: SERIAL and QUORUM over all")
	s.int(&c.replicas, "replication-factor", "CASSANDRA_REPLICATION_FACTOR", 3, "replicas in the local data centre, or in each; of a keyspace that is created")
	s.text(&c.username, "cassandra-username", "CASSANDRA_USERNAME", "", "login; empty: none")
	s.secret(&c.password, "CASSANDRA_PASSWORD", "its password")
	s.text(&c.passwordFile, "cassandra-password-file", "CASSANDRA_PASSWORD_FILE", "", "file with its password")
	s.bool(&c.tls, "cassandra-tls", "CASSANDRA_TLS", "speak TLS to Cassandra")
	s.text(&c.ca, "cassandra-tls-ca", "CASSANDRA_TLS_CA", "", "file with the authorities' certificates (PEM); empty: the system's")
	s.text(&c.cert, "cassandra-tls-cert", "CASSANDRA_TLS_CERT", "", "file with this client's certificate (PEM)")
	s.text(&c.key, "cassandra-tls-key", "CASSANDRA_TLS_KEY", "", "file with its key (PEM)")
	s.text(&c.serverName, "cassandra-tls-server-name", "CASSANDRA_TLS_SERVER_NAME", "", "name in every node's certificate; empty: the contact point's name, or the node's IP")
	s.bool(&c.insecure, "cassandra-tls-insecure", "CASSANDRA_TLS_INSECURE", "verify nothing: for trying out only")
}

// checked is a configuration that can be used.
type checked struct {
	config
	queueList []engine.Queue
	level     slog.Level
	tlsConfig *tls.Config
	retry     job.RetryPolicy
}

// check reports everything that is wrong, at once.
func (c config) check(named bool) (checked, error) {
	out := checked{config: c}
	var errs []error
	bad := func(flag, format string, args ...any) { errs = append(errs, fmt.Errorf("--"+flag+" "+format, args...)) }
	port := func(flag string, n, least int) {
		if n < least || n > 65535 {
			bad(flag, "is %d: want %d to 65535", n, least)
		}
	}
	atLeast := func(flag string, n, least int64) {
		if n < least {
			bad(flag, "is %d: want at least %d", n, least)
		}
	}
	port("http-port", c.httpPort, 1)
	port("peer-port", c.peerPort, 0)
	port("cassandra-port", c.port, 1)
	if c.peerPort == c.httpPort {
		bad("peer-port", "is the same as --http-port: use two")
	}
	atLeast("buckets", int64(c.buckets), 1)
	atLeast("max-in-progress", int64(c.maxInProgress), 1)
	atLeast("max-attempts", int64(c.maxAttempts), 1)
	atLeast("rate-burst", int64(c.burst), 1)
	atLeast("replication-factor", int64(c.replicas), 1)
	atLeast("poll-interval-ms", c.poll, 1)
	atLeast("drain-ms", c.drain, 1)
	atLeast("max-body-bytes", c.maxBody, 1)
	atLeast("lease-ttl-ms", c.ttl, 1000)
	atLeast("dedupe-window-ms", c.dedupe, 60000)
	atLeast("late-after-ms", c.lateAfter, 1)
	atLeast("late-webhook-timeout-ms", c.lateTimeout, 1)
	if c.maxAttempts > job.MaxAttemptsLimit {
		bad("max-attempts", "is %d: want at most %d", c.maxAttempts, job.MaxAttemptsLimit)
	}
	if c.maxBody > store.MaxBytes {
		bad("max-body-bytes", "is %d: want at most %d, what a row can hold", c.maxBody, store.MaxBytes)
	}
	if !(c.rate >= 0) {
		bad("rate-limit", "is %v: want at least 0", c.rate)
	}
	switch {
	case c.backoffBase < 0 || c.backoffMax < 0:
		bad("backoff-base-ms", "and --backoff-max-ms are %d and %d: want at least 0", c.backoffBase, c.backoffMax)
	case c.backoffBase == 0 && c.backoffMax > 0:
		bad("backoff-max-ms", "needs --backoff-base-ms")
	case c.backoffBase > 0:
		if c.backoffMax == 0 {
			c.backoffMax = (30 * time.Minute).Milliseconds()
		}
		if c.backoffMax < c.backoffBase {
			bad("backoff-max-ms", "is less than --backoff-base-ms")
		}
		out.retry = job.Exponential(ms(c.backoffBase), 2, ms(c.backoffMax))
	}
	out.queueList = c.parseQueues(bad)
	if c.name == "" {
		bad("name", "is empty, and this machine has no name either")
	}
	if !named {
		out.name = c.name + "-" + strconv.Itoa(c.httpPort)
	}
	if c.advertise != "" {
		if host, _, err := net.SplitHostPort(c.advertise); err != nil || host == "" {
			bad("advertise", "is %q: want host:port", c.advertise)
		}
	}
	if c.target != "" && !isURL(c.target) {
		bad("http-target", "is %q: want http(s)://host/path", c.target)
	}
	if c.lateWebhook != "" && !isURL(c.lateWebhook) {
		bad("late-webhook", "is no URL: want http(s)://host/path") // it may be a secret
	}
	for n, h := range c.hosts {
		if h != handlers.AnyHost && strings.ContainsAny(h, "/*@ ") {
			bad("http-hosts", "has %q: want host, host:port, or * alone", h)
		}
		out.hosts[n] = strings.ToLower(h)
	}
	if err := out.level.UnmarshalText([]byte(c.logLevel)); err != nil {
		bad("log-level", "is %q: want debug, info, warn or error", c.logLevel)
	}
	if c.otlpEndpoint != "" {
		if err := tracing.CheckEndpoint(c.otlpEndpoint); err != nil {
			bad("otlp-endpoint", "%v", err)
		}
		if c.otlpProtocol != otlpProtocol {
			bad("otlp-protocol", "is %q: want %s, at a port of the collector that takes it (4318 as a rule)", c.otlpProtocol, otlpProtocol)
		}
	}
	out.token = secret(bad, "api-token-file", c.tokenFile, c.token)
	out.password = secret(bad, "cassandra-password-file", c.passwordFile, c.password)
	if out.username == "" && out.password != "" {
		bad("cassandra-username", "is missing: there is a password")
	}
	out.tlsConfig = c.readTLS(bad)
	return out, errors.Join(errs...)
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func (c config) parseQueues(bad func(string, string, ...any)) (out []engine.Queue) {
	seen := map[string]bool{}
	for _, q := range c.queues {
		name, number, given := strings.Cut(q, "=")
		n := c.buckets
		if given {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 1 {
				bad("queues", "has %q: want name or name=shards", q)
				continue
			}
		}
		if name == "" || seen[name] {
			bad("queues", "has %q, which is empty or there twice", q)
		}
		seen[name] = true
		out = append(out, engine.Queue{Name: name, Shards: n})
	}
	if len(c.queues) == 0 {
		bad("queues", "is empty")
	}
	return out
}

// secret is the text of a file, or the value itself.
func secret(bad func(string, string, ...any), flag, file, value string) string {
	if file == "" {
		return value
	}
	if value != "" {
		bad(flag, "and the secret itself are both given: use one of them")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		bad(flag, "cannot be read: %v", err)
		return ""
	}
	got := strings.TrimRight(string(text), "\r\n")
	if got == "" {
		bad(flag, "names %s, which is empty", file)
	}
	return got
}

// readTLS makes the configuration of TLS, nil without.
func (c config) readTLS(bad func(string, string, ...any)) *tls.Config {
	if !c.tls {
		if c.ca != "" || c.cert != "" || c.key != "" || c.serverName != "" || c.insecure {
			bad("cassandra-tls", "is missing, and there are other settings of TLS")
		}
		return nil
	}
	out := &tls.Config{ServerName: c.serverName, InsecureSkipVerify: c.insecure, MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		out.RootCAs = x509.NewCertPool()
		if err != nil {
			bad("cassandra-tls-ca", "cannot be read: %v", err)
		} else if !out.RootCAs.AppendCertsFromPEM(text) {
			bad("cassandra-tls-ca", "names %s, which has no certificate (PEM)", c.ca)
		}
	}
	if c.cert != "" || c.key != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			bad("cassandra-tls-cert", "and --cassandra-tls-key: %v", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
