package main

import (
	"log/slog"
	"os"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/handlers"
	"fencepost/core/service/late"
	"fencepost/core/service/tracing"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// config is what a process is told. A setting that is an option of a package goes into
// that package's options; check completes them.
type config struct {
	scheduler scheduler.Config // with the engine and the database
	api       api.Options
	late      late.Options
	http      handlers.HTTP
	traces    tracing.Options

	web struct {
		host, tokenFile, pprof string
		port, peerPort         int
	}
	jobs struct {
		queues        []string
		buckets       int
		base, longest time.Duration // of the waits between attempts
	}
	log struct {
		name         string
		level        slog.Level
		otlpProtocol string
	}
	login struct {
		passwordFile, ca, cert, key, serverName string
		tls, insecure                           bool
	}
}

// otlpProtocol is OpenTelemetry's name of the only way in which traces are sent.
const otlpProtocol = "http/protobuf"

// define defines all settings, one row each: flag, variable, where it goes with its default
// and rules, help. Rules that compare settings are in check.
func (c *config) define(s *settings) {
	hostname, _ := os.Hostname()
	eng, db := &c.scheduler.Engine, &c.scheduler.Database

	add := s.group("Process and API")
	add("name", "WORKER_NAME", text(&c.scheduler.Name, hostname),
		"stable, unique process name; default: the host's name and the HTTP port")
	add("http-host", "WORKER_HTTP_HOST", text(&c.web.host, ""), "listen address of the API; empty: all addresses")
	add("http-port", "WORKER_HTTP_PORT", number(&c.web.port, 8080, portFrom(1)), "port of the API, metrics and probes")
	add("api-token-file", "WORKER_API_TOKEN_FILE", text(&c.web.tokenFile, ""), "file with the token that API requests must carry")
	add("", "WORKER_API_TOKEN", text(&c.api.Token, ""), "the token itself; empty and no file: no authentication")
	add("rate-limit", "WORKER_RATE_LIMIT", number(&c.api.Rate, 0, atLeast(0.)), "API requests per second; 0: no limit")
	add("rate-burst", "WORKER_RATE_BURST", number(&c.api.Burst, 100, atLeast(1)), "burst size of the rate limit, in requests")
	add("max-body-bytes", "WORKER_MAX_BODY_BYTES",
		number(&c.api.MaxBody, api.DefaultMaxBody, atLeast[int64](1), atMost[int64](store.MaxBytes, ", what a row can hold")), "maximum size of a request body, in bytes")
	add("peer-port", "WORKER_PEER_PORT", number(&c.web.peerPort, 8081, portFrom(0)),
		"port for forwarding between schedulers; 0: they use inboxes, and commands must go to a shard's owner")
	add("advertise", "WORKER_ADVERTISE", text(&c.scheduler.Advertise, "", hostPort),
		"host:port at which other schedulers reach this one; empty: the address from which this machine reaches Cassandra")

	add = s.group("Queues and jobs")
	add("queues", "WORKER_QUEUES", list(&c.jobs.queues, []string{"default"}),
		"queues, as name or name=shards; the first is the default queue")
	add("buckets", "WORKER_BUCKETS", number(&c.jobs.buckets, 8, atLeast(1)), "default number of shards per queue; fixed when a queue is created")
	add("max-in-progress", "WORKER_MAX_IN_PROGRESS", number(&c.scheduler.Slots, 100, atLeast(1)), "maximum number of handlers running at once")
	add("max-attempts", "WORKER_MAX_ATTEMPTS", number(&c.api.MaxAttempts, job.DefaultMaxAttempts, atLeast(1), atMost(job.MaxAttemptsLimit, "")),
		"default maximum attempts per job")
	add("backoff-base-ms", "WORKER_BACKOFF_BASE_MS", number(&c.jobs.base, 0),
		"default wait after the first failed attempt; doubles with each further one; 0: 5 s, 15 s, 1 min, 5 min, 30 min")
	add("backoff-max-ms", "WORKER_BACKOFF_MAX_MS", number(&c.jobs.longest, 0), "maximum wait between attempts; 0: 30 min")
	add("poll-interval-ms", "WORKER_POLL_INTERVAL_MS", number(&eng.InboxPoll, 5*time.Second, atLeast(time.Millisecond)),
		"inbox polling interval (jobs already in a shard need no polling)")
	add("max-wait-ms", "WORKER_MAX_WAIT_MS", number(&eng.MaxWait, engine.DefaultMaxWait, atLeast(time.Millisecond)),
		"refuse an enqueue that would wait longer than this to be acknowledged")
	add("max-overdue-ms", "WORKER_MAX_OVERDUE_MS", number(&eng.MaxOverdue, engine.DefaultMaxOverdue, atLeast(time.Millisecond)),
		"refuse enqueues while a job of the shard has been due and not claimed for longer than this")
	add("lease-ttl-ms", "WORKER_LEASE_TTL_MS", number(&eng.TTL, engine.DefaultTTL, atLeast(time.Second)),
		"lease TTL: how long a dead owner's shard stays unowned; must be equal on all processes")
	add("drain-ms", "WORKER_DRAIN_MS", number(&eng.DrainTimeout, engine.DefaultDrainTimeout, atLeast(time.Millisecond)),
		"how long handlers may continue after SIGTERM")
	add("dedupe-window-ms", "WORKER_DEDUPE_WINDOW_MS", number(&eng.DedupeWindow, engine.DefaultDedupeWindow, atLeast(time.Minute)),
		"how long a job's id is remembered after its end")

	add = s.group("Lateness")
	add("late-after-ms", "WORKER_LATE_AFTER_MS", number(&eng.LateAfter, engine.DefaultLateAfter, atLeast(time.Millisecond)),
		"report jobs and occurrences of schedules later than this, in log, metrics and webhook")
	add("late-webhook", "WORKER_LATE_WEBHOOK", text(&c.late.Webhook, "", secretURL), "URL that gets a request for each late job or occurrence; empty: none")
	add("late-webhook-timeout-ms", "WORKER_LATE_WEBHOOK_TIMEOUT_MS", number(&c.late.Timeout, late.DefaultTimeout, atLeast(time.Millisecond)),
		"timeout of a webhook request")

	add = s.group("Jobs of kind http")
	add("http-target", "WORKER_HTTP_TARGET", text(&c.http.Target, "", aURL), "default URL for jobs of kind http")
	add("http-hosts", "WORKER_HTTP_HOSTS", list(&c.http.Hosts, nil, host),
		"hosts that jobs of kind http may name, as host or host:port; * for all")

	add = s.group("Logs, profiles and traces")
	add("log-level", "WORKER_LOG_LEVEL", text(&c.log.name, "info"), "debug, info, warn or error")
	add("pprof-addr", "WORKER_PPROF_ADDR", text(&c.web.pprof, ""), "host:port of profiles (net/http/pprof); empty: off")
	add("otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", text(&c.traces.Endpoint, ""),
		"base URL of a trace collector, such as http://localhost:4318; empty: no traces")
	add("otlp-protocol", "OTEL_EXPORTER_OTLP_PROTOCOL", text(&c.log.otlpProtocol, otlpProtocol), "protocol for traces; the only one supported")

	add = s.group("Cassandra")
	add("cassandra-contact-point", "CASSANDRA_CONTACT_POINT", list(&db.ContactPoints, []string{"127.0.0.1"}),
		"nodes, as IP addresses or names; one reachable node is enough")
	add("cassandra-port", "CASSANDRA_PORT", number(&db.Port, cassandra.DefaultPort, portFrom(1)), "CQL port of all nodes")
	add("cassandra-keyspace", "CASSANDRA_KEYSPACE", text(&db.Keyspace, "scheduler"), "keyspace, created if it does not exist")
	add("local-dc", "CASS_LOCAL_DC", text(&db.LocalDC, ""),
		"the data centre with all replicas and schedulers: LOCAL_ consistencies, NetworkTopologyStrategy; empty: SERIAL and QUORUM over all")
	add("replication-factor", "CASSANDRA_REPLICATION_FACTOR", number(&c.scheduler.Replicas, 3, atLeast(1)),
		"replicas in the local data centre, or in each; used when the keyspace is created")
	add("cassandra-any-release", "CASSANDRA_ANY_RELEASE", toggle(&db.AnyRelease),
		"use releases of Cassandra too on which a shard can have two owners (CASSANDRA-12126, before 3.0.24, 3.11.10 and 4.0); only for trials")
	add("cassandra-username", "CASSANDRA_USERNAME", text(&db.Username, ""), "user name; empty: no login")
	add("", "CASSANDRA_PASSWORD", text(&db.Password, ""), "password")
	add("cassandra-password-file", "CASSANDRA_PASSWORD_FILE", text(&c.login.passwordFile, ""), "file with the password")
	add("cassandra-tls", "CASSANDRA_TLS", toggle(&c.login.tls), "use TLS to Cassandra")
	add("cassandra-tls-ca", "CASSANDRA_TLS_CA", text(&c.login.ca, ""), "file with the authorities' certificates (PEM); empty: the system's")
	add("cassandra-tls-cert", "CASSANDRA_TLS_CERT", text(&c.login.cert, ""), "file with this client's certificate (PEM)")
	add("cassandra-tls-key", "CASSANDRA_TLS_KEY", text(&c.login.key, ""), "file with the client's key (PEM)")
	add("cassandra-tls-server-name", "CASSANDRA_TLS_SERVER_NAME", text(&c.login.serverName, ""),
		"name in every node's certificate; empty: the contact point's name, or the node's IP")
	add("cassandra-tls-insecure", "CASSANDRA_TLS_INSECURE", toggle(&c.login.insecure), "do not verify certificates; only for trials")
}
