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
		"this process's name, the same after a restart, unlike all others'; with the HTTP port behind it if it is not given")
	add("http-host", "WORKER_HTTP_HOST", text(&c.web.host, ""), "address to serve the API at; empty: all")
	add("http-port", "WORKER_HTTP_PORT", number(&c.web.port, 8080, portFrom(1)), "port of the API, metrics and probes")
	add("api-token-file", "WORKER_API_TOKEN_FILE", text(&c.web.tokenFile, ""), "file with the token that requests must show")
	add("", "WORKER_API_TOKEN", text(&c.api.Token, ""), "the token itself; empty and no file: none is asked for")
	add("rate-limit", "WORKER_RATE_LIMIT", number(&c.api.Rate, 0, atLeast(0.)), "requests to the API a second; 0: no limit")
	add("rate-burst", "WORKER_RATE_BURST", number(&c.api.Burst, 100, atLeast(1)), "how many of them may come at once")
	add("max-body-bytes", "WORKER_MAX_BODY_BYTES",
		number(&c.api.MaxBody, api.DefaultMaxBody, atLeast[int64](1), atMost[int64](store.MaxBytes, ", what a row can hold")), "largest body of a request")
	add("peer-port", "WORKER_PEER_PORT", number(&c.web.peerPort, 8081, portFrom(0)),
		"port at which other schedulers hand jobs on; 0: they use the inboxes, and commands must come to a shard's owner")
	add("advertise", "WORKER_ADVERTISE", text(&c.scheduler.Advertise, "", hostPort),
		"host:port at which others reach it; empty: the address by which this machine reaches Cassandra")

	add = s.group("Queues and jobs")
	add("queues", "WORKER_QUEUES", list(&c.jobs.queues, []string{"default"}),
		"queues, as name or name=shards; the first is that of requests that name none")
	add("buckets", "WORKER_BUCKETS", number(&c.jobs.buckets, 8, atLeast(1)), "shards of queues that do not say; fixed when a queue is created")
	add("max-in-progress", "WORKER_MAX_IN_PROGRESS", number(&c.scheduler.Slots, 100, atLeast(1)), "handlers at work at once")
	add("max-attempts", "WORKER_MAX_ATTEMPTS", number(&c.api.MaxAttempts, job.DefaultMaxAttempts, atLeast(1), atMost(job.MaxAttemptsLimit, "")),
		"attempts of jobs that do not say")
	add("backoff-base-ms", "WORKER_BACKOFF_BASE_MS", number(&c.jobs.base, 0),
		"wait after the first failed attempt, doubling from then on, of jobs that do not say; 0: 5 s, 15 s, 1 min, 5 min, 30 min")
	add("backoff-max-ms", "WORKER_BACKOFF_MAX_MS", number(&c.jobs.longest, 0), "the longest such wait; 0: 30 min")
	add("poll-interval-ms", "WORKER_POLL_INTERVAL_MS", number(&eng.InboxPoll, 5*time.Second, atLeast(time.Millisecond)),
		"how often inboxes are read; jobs in shards are not polled for")
	add("lease-ttl-ms", "WORKER_LEASE_TTL_MS", number(&eng.TTL, engine.DefaultTTL, atLeast(time.Second)),
		"for how long a shard stands still after its owner died; the same for all processes")
	add("drain-ms", "WORKER_DRAIN_MS", number(&eng.DrainTimeout, engine.DefaultDrainTimeout, atLeast(time.Millisecond)),
		"for how long handlers may go on after SIGTERM")
	add("dedupe-window-ms", "WORKER_DEDUPE_WINDOW_MS", number(&eng.DedupeWindow, engine.DefaultDedupeWindow, atLeast(time.Minute)),
		"for how long a job's id is remembered after its end")

	add = s.group("What is late")
	add("late-after-ms", "WORKER_LATE_AFTER_MS", number(&eng.LateAfter, engine.DefaultLateAfter, atLeast(time.Millisecond)),
		"how late a job or an occurrence of a schedule is told of, in the log, the metrics and by the webhook")
	add("late-webhook", "WORKER_LATE_WEBHOOK", text(&c.late.Webhook, "", secretURL), "URL that is told of what is late; empty: none")
	add("late-webhook-timeout-ms", "WORKER_LATE_WEBHOOK_TIMEOUT_MS", number(&c.late.Timeout, late.DefaultTimeout, atLeast(time.Millisecond)),
		"for how long its answer is waited for")

	add = s.group("Jobs of kind http")
	add("http-target", "WORKER_HTTP_TARGET", text(&c.http.Target, "", aURL), "URL of jobs of kind http that name none")
	add("http-hosts", "WORKER_HTTP_HOSTS", list(&c.http.Hosts, nil, host),
		"hosts that jobs of kind http may name, as host or host:port; * for all")

	add = s.group("Logs, profiles and traces")
	add("log-level", "WORKER_LOG_LEVEL", text(&c.log.name, "info"), "debug, info, warn or error")
	add("pprof-addr", "WORKER_PPROF_ADDR", text(&c.web.pprof, ""), "host:port of profiles (net/http/pprof); empty: off")
	add("otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", text(&c.traces.Endpoint, ""),
		"base URL of a collector of traces, such as http://localhost:4318; empty: none are made")
	add("otlp-protocol", "OTEL_EXPORTER_OTLP_PROTOCOL", text(&c.log.otlpProtocol, otlpProtocol), "how traces are sent; no other way is known")

	add = s.group("Cassandra")
	add("cassandra-contact-point", "CASSANDRA_CONTACT_POINT", list(&db.ContactPoints, []string{"127.0.0.1"}),
		"nodes, as IP addresses or names; one that answers is enough")
	add("cassandra-port", "CASSANDRA_PORT", number(&db.Port, cassandra.DefaultPort, portFrom(1)), "CQL port of all nodes")
	add("cassandra-keyspace", "CASSANDRA_KEYSPACE", text(&db.Keyspace, "scheduler"), "keyspace, created if it does not exist")
	add("local-dc", "CASS_LOCAL_DC", text(&db.LocalDC, ""),
		"the data centre with all replicas and schedulers: LOCAL_ consistencies, NetworkTopologyStrategy; empty: SERIAL and QUORUM over all")
	add("replication-factor", "CASSANDRA_REPLICATION_FACTOR", number(&c.scheduler.Replicas, 3, atLeast(1)),
		"replicas in the local data centre, or in each; of a keyspace that is created")
	add("cassandra-username", "CASSANDRA_USERNAME", text(&db.Username, ""), "login; empty: none")
	add("", "CASSANDRA_PASSWORD", text(&db.Password, ""), "its password")
	add("cassandra-password-file", "CASSANDRA_PASSWORD_FILE", text(&c.login.passwordFile, ""), "file with its password")
	add("cassandra-tls", "CASSANDRA_TLS", toggle(&c.login.tls), "speak TLS to Cassandra")
	add("cassandra-tls-ca", "CASSANDRA_TLS_CA", text(&c.login.ca, ""), "file with the authorities' certificates (PEM); empty: the system's")
	add("cassandra-tls-cert", "CASSANDRA_TLS_CERT", text(&c.login.cert, ""), "file with this client's certificate (PEM)")
	add("cassandra-tls-key", "CASSANDRA_TLS_KEY", text(&c.login.key, ""), "file with its key (PEM)")
	add("cassandra-tls-server-name", "CASSANDRA_TLS_SERVER_NAME", text(&c.login.serverName, ""),
		"name in every node's certificate; empty: the contact point's name, or the node's IP")
	add("cassandra-tls-insecure", "CASSANDRA_TLS_INSECURE", toggle(&c.login.insecure), "verify nothing: for trying out only")
}
