package system

import (
	"path/filepath"
	"slices"
	"time"
)

// stored are locks and job schedulers on other stores (the module in systems).
var stored = []System{
	onStore("redis-set", "redis", "SET NX PX on one Redis server, scripts that compare before they delete; no token"),
	onStore("redis-replica-set", "redis-replica", "the same on whichever of two servers says that it is the primary"),
	onStore("redislock", "redis", "bsm/redislock on one Redis server; no token"),
	without("resend", onStore("redlock", "redis-5", "Redlock by redsync: a key on most of five Redis servers; no token")), // it asks all servers once
	onStore("etcd-lease", "etcd", "a key of etcd that lives as long as its lease; the sink checks no token"),
	onStore("etcd-lease-fenced", "etcd", "the same, and the revision that created the key is its token"),
	onStore("etcd-mutex", "etcd", "the Mutex of etcd's client library (package concurrency) on a session that it keeps alive; the sink checks no token"),
	onStore("etcd-mutex-fenced", "etcd", "the same, and the revision that created the session's key is its token"),
	onStore("nats-kv", "nats", "a key of a JetStream bucket whose entries live for one lease; the sink checks no token"),
	onStore("nats-kv-fenced", "nats", "the same, and the revision that created the key is its token"),
	onStore("pg-advisory", "postgres", "an advisory lock of a PostgreSQL session, which is held as long as the session lives; no lease, no token"),
	onStore("postgres-lease", "postgres", "a row of PostgreSQL with an expiry by the server's clock; the sink checks no token"),
	onStore("postgres-lease-fenced", "postgres", "the same, and a counter in the row is its token"),
	onStore("postgres-standby-lease", "postgres-standby", "a row with an expiry on whichever of two PostgreSQL servers takes writes; its standby hears of a commit after the client"),
	onStore("postgres-sync-lease", "postgres-sync", "the same, and a commit waits for the standby"),
	onStore("zookeeper-node", "zookeeper", "an ephemeral node of ZooKeeper; the sink checks no token"),
	onStore("zookeeper-node-fenced", "zookeeper", "the same, and the transaction that created the node is its token"),
	inJava("curator", onStore("zk-curator", "zookeeper", "the InterProcessMutex of Apache Curator (Java) on a session of each client; the sink checks no token")),
	inJava("curator", onStore("zk-curator-fenced", "zookeeper", "the same, and the transaction that created the node of the holder is its token")),
	queue("asynq", "redis", asynqRecovery, "asynq, a task queue in Redis; the sink checks neither token nor key"),
	queue("asynq-fenced", "redis", asynqRecovery, "the same; a task's number with its count of retries is the token"),
	queue("gocron", "redis", 0, "gocron, recurring jobs with a lock in Redis by the job's name; no token, the sink checks no key"),
	queue("gocron-by-time", "redis", 0, "the same, and a lock of each occurrence by its nominal time, which is kept"),
	queue("bullmq", "redis", halfTTL, "BullMQ, a job queue of Node.js on Redis; the sink checks neither token nor key"),
	queue("bullmq-fenced", "redis", halfTTL, "the same; a job's number with how often it was started is the token"),
	queue("celery", "redis", halfTTL, "Celery of Python with Redis as its broker; the sink checks neither token nor key"),
	queue("river", "postgres", riverRescue, "River, a job queue in PostgreSQL; the sink checks neither token nor key"),
	queue("river-fenced", "postgres", riverRescue, "the same; a job's id with its attempt is the token"),
	inJava("db-scheduler", queue("db-scheduler", "postgres", dbSchedulerRevival, "db-scheduler (Java), a job scheduler in a table of PostgreSQL; the sink checks neither token nor key")),
	inJava("db-scheduler", queue("db-scheduler-fenced", "postgres", dbSchedulerRevival, "the same; a job's number with the version of its row is the token")),
	queue("layers", "postgres", 0, "a lease, a table of what is done, a unique key at the target, and acknowledgement after the run, in PostgreSQL"),
	queue("layers-no-lock", "postgres", 0, "the same without the lease"),
	queue("layers-no-key", "postgres", 0, "the same without the table of what is done"),
	queue("layers-no-constraint", "postgres", 0, "the same, and the target checks no key"),
	queue("layers-no-ack", "postgres", 0, "the same, and a job is acknowledged when it is taken"),
	queue("controller", "redis-postgres", controllerReaper, "a controller assigns ranges of jobs to workers, by keys in Redis that they keep alive; a lease of each job in PostgreSQL; the sink checks neither token nor key"),
	queue("controller-fenced", "redis-postgres", controllerReaper, "the same; a job's number with how often it was taken is the token"),
	queue("controller-reclaims", "redis-postgres", controllerReaper, "the same without a token, and a worker is given again what it took and did not hear of"),
	// What was not answered is not sent again: the message comes again.
	without("resend", queue("watcher", "nats", 0, "a JetStream queue with a visibility timeout, and a table of what is done that is looked at before a run; the sink checks neither token nor key")),
	without("resend", queue("watcher-fenced", "nats", 0, "the same; a message's sequence with its delivery is the token")),
	optIn(queue("temporal", "temporal", temporalRetries, "Temporal, whose workflow runs an activity for each job of a chain; the sink checks neither token nor key")),
	optIn(queue("temporal-fenced", "temporal", temporalRetries, "the same; a job's number with the attempt of its activity is the token")),
}

// reported are uses of libraries in which a bug that was reported shows, and those beside them in which it
// must not (docs/bugs.md). They are compared with nothing else.
var reported = []System{
	onStore("etcd-mutex-one-session", "etcd", "the Mutex of etcd's client library on one session, whatever was not answered; an unlock without an answer is sent again with the next renewal"),
	onStore("etcd-mutex-new-session", "etcd", "the same, and a request without an answer ends its session"),
	onStore("redlock-extend", "redis-5", "redlock, with holders that go by redsync's answer to Extend"),
	onStore("redlock-nx-extend", "redis-5", "the same with WithSetNXOnExtend: Extend takes an expired lock again"),
	queue("river-tx", "postgres", riverRescue, "River, and a job is completed by a transaction around its run; the sink checks neither token nor key"),
	release("river-tx-0-47", "river-0.47.0", queue("river-tx", "postgres", riverRescue, "the same with River 0.47.0, whose rescue takes a job by its id, whatever has become of it")),
	release("river-tx-0-48", "river-0.48.0", queue("river-tx", "postgres", riverRescue, "the same with River 0.48.0, which has the fix")),
}

// release is a system built with an older release of its library (systems/releases).
func release(name, module string, s System) System {
	s.Name, s.Binary = name, s.Binary+"-"+module
	return s
}

// unkept is what some of them cannot keep, by design.
var unkept = red(slices.Concat(paused("redis-set", "redis-replica-set", "redislock", "redlock", "etcd-lease", "etcd-mutex", "nats-kv", "postgres-lease",
	"postgres-standby-lease", "postgres-sync-lease", "zookeeper-node", "zk-curator", "gocron", "gocron-by-time"), redelivered("asynq", "bullmq", "celery", "db-scheduler", "river", "temporal", "watcher", "layers-no-constraint", "controller", "controller-reclaims"), []System{
	{Name: "celery", Case: "slow-run", About: "a message is delivered again after its visibility timeout, which nobody renews, and the sink checks neither token nor key",
		Red: &Red{Scenario: "slow-job", Contention: "medium", Properties: []string{"P4"}}},
	{Name: "redis-set", Case: "clock-jump", About: "keys expire by the server's wall clock, and the sink checks no token",
		Red: &Red{Scenario: "server-clock-jump", Contention: "medium", Properties: []string{"P4", "P8"}}},
	{Name: "redis-set", Case: "data-lost", About: "the lock is on one server, and the sink checks no token",
		Red: &Red{Scenario: "node-loses-data", Contention: "medium", Properties: []string{"P4", "P8"}}},
	{Name: "redis-replica-set", Case: "failed-over", About: "a primary answers before its replica knows, and the sink checks no token",
		Red: &Red{Scenario: "primary-fails-over", Contention: "medium", Properties: []string{"P4", "P8"}}},
	{Name: "postgres-standby-lease", Case: "failed-over", About: "a primary answers before its standby knows, and the sink checks no token",
		Red: &Red{Scenario: "primary-fails-over", Contention: "medium", Properties: []string{"P4", "P8"}}},
	{Name: "postgres-lease", Case: "clock-jump", About: "leases end by the server's wall clock, and the sink checks no token",
		Red: &Red{Scenario: "server-clock-jump", Contention: "medium", Properties: []string{"P4", "P8"}}},
	{Name: "layers-no-ack", Case: "job-lost", About: "a job that is acknowledged before its run is lost with its worker",
		Red: &Red{Scenario: "kill-worker", Contention: "medium", Properties: []string{"P15"}}},
	{Name: "controller", Case: "job-kept", About: "a job whose taking was not answered is its worker's as long as that lives, and it does not know",
		Red: &Red{Scenario: "lost-take", Contention: "medium", Properties: []string{"P15"}}},
	{Name: "gocron", Case: "late", About: "a process that is late by more than a run lasts finds the lock free, and runs an occurrence again",
		Red: &Red{Scenario: "latency", Contention: "medium", Properties: []string{"P4"}}},
	{Name: "pg-advisory", Case: "connection-closed", About: "a connection that closes frees its lock, and its client learns of that with its next request",
		Red: &Red{Scenario: "flaky-links", Contention: "medium", Properties: []string{"P4"}}},
	{Name: "river-tx-0-47", Case: "rescued", About: "a job that is completed while the rescuer looks at it is run again",
		Red: &Red{Scenario: "long-job", Contention: "medium", Properties: []string{"P4"}}},
	{Name: "etcd-mutex-one-session", Case: "late-unlock", About: "an unlock that is sent again deletes the key of its session's next grant",
		Red: &Red{Scenario: "late-unlock", Contention: "medium", Properties: []string{"P4"}}},
	{Name: "redlock-nx-extend", Case: "late-renewal", About: "a lock that expired, and that another has had since, is extended as if it had never been lost",
		Red: &Red{Scenario: "late-renewal", Contention: "medium", Properties: []string{"P4"}}},
}))

// paused are locks whose holder may stand still until its lease is over.
func paused(names ...string) []System {
	return underPause("a holder that stood still past its lease writes, and the sink checks no token", names)
}

// redelivered are schedulers that give a job to another while its worker stands still.
func redelivered(names ...string) []System {
	return underPause("a job whose worker stood still for too long is run by another too, as is documented, and the sink checks neither token nor key", names)
}

func underPause(about string, names []string) (out []System) {
	for _, name := range names {
		out = append(out, System{Name: name, Case: "paused", About: about,
			Red: &Red{Scenario: "pause-worker", Contention: "medium", Properties: []string{"P4"}}})
	}
	return out
}

// Locks is the executable of the locks on other stores.
const Locks = "locks"

// Fenced ends the name of the twin of a system that differs from it in one thing: the sink checks its token.
const Fenced = "-fenced"

func onStore(name, store, about string) System {
	return System{Name: name, Store: store, About: about, Binary: Locks, Command: []string{name}}
}

// Queues is the executable of the job schedulers on other stores.
const Queues = "schedulers"

// asynqRecovery: a lease is 30 s; processes look every minute for those that ended 30 s ago, and every second
// for tasks to be run again, which wait for one.
const asynqRecovery = 2 * time.Minute

// halfTTL is how often BullMQ and Celery are set to look for abandoned jobs, with the ttl that runs have
// unless they name another.
const halfTTL = 3 * time.Second

// controllerReaper is how often the controller looks for abandoned jobs, a twelfth of the ttl that runs have unless they
// name another; as long again for the ranges to be assigned to others.
const controllerReaper = time.Second

// riverRescue: its leader looks for jobs that run for too long every 30 s, and for those that are to be
// run again every 5 s; the first retry waits for a second.
const riverRescue = 40 * time.Second

// dbSchedulerRevival: of six heartbeats that may be missed in a ttl it looks at every second, and for what
// is due every 100 ms.
const dbSchedulerRevival = 2500 * time.Millisecond

// temporalRetries: an activity is tried again a second after it missed its heartbeat. A process that stands still has
// two requests for activities open, which may be given the second and the third attempt; these end by their ttl, and
// are followed by waits of 2 and 4 s. The rest is for the server's timers.
const temporalRetries = 20 * time.Second

func queue(name, store string, redelivery time.Duration, about string) System {
	return System{Name: name, Store: store, About: about, Binary: Queues, Command: []string{name}, Redelivery: redelivery,
		// A late write has the key of one that was accepted: it is a duplicate. That a lease is over only the scheduler knows.
		Unreached: []string{"stale-refused", "lease-lost"}}
}

// without is a system that need not reach a point.
func without(point string, s System) System {
	s.Unreached = append(s.Unreached, point)
	return s
}

// optIn is a scheduler whose program is of a Go module of its own, in systems.
func optIn(s System) System {
	s.Binary, s.OptIn = s.Binary+"-"+s.Store, true
	return s
}

// inJava is a system through a library in Java (systems/java), in a process beside the workers' clients.
func inJava(library string, s System) System {
	s.Child = filepath.Join(library, "run")
	return s
}
