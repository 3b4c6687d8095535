package system

// lockVariants are mistakes of locks, their holders and statements, and of who asks for them.
var lockVariants = []System{
	{
		Name: "sink-no-token-check", Chapter: inSinks,
		About: "the sink accepts an effect whatever its fencing token",
		Note:  "the canary",
		Seen:  "the token is passed along and never compared",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P3", "P4"}, Mechanism: "sink-checks-no-token"},
	},
	// Tokens.
	{
		Name: "hilo-tokens", Chapter: inLocks,
		About: "fencing tokens come from Hi/Lo id blocks of each process, not from the lock's row",
		Seen:  "a sequence generator is at hand and is \"unique\"",
		Red:   &Red{Scenario: "kill-worker", Contention: "high", Properties: []string{"P1"}, Mechanism: "tokens-from-blocks"},
	},
	{
		Name: "wall-tokens", Chapter: inLocks,
		About: "fencing tokens are the wall clock's milliseconds",
		Seen:  "timestamps as versions; clocks differ and are set back",
		Red:   &Red{Scenario: "clock-skew", Contention: "high", Properties: []string{"P1"}, Mechanism: "tokens-from-wall-clock"},
	},
	{
		Name: "token-reset", Chapter: inLocks,
		About: "a release leaves the row as new: its token counter starts again",
		Seen:  "DELETE on release, INSERT on acquire",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P1"}, Mechanism: "release-resets-counter"},
	},
	{
		Name: "row-ttl", Chapter: inLocks,
		About: "lock rows are written USING TTL: an expired row takes its token counter with it",
		Seen:  "the usual lock recipe for Cassandra; the row expires with its counter",
		Red:   &Red{Scenario: "kill-worker", Contention: "low", Properties: []string{"P1"}, Mechanism: "rows-expire"},
	},
	// Taking over, renewing, releasing.
	{
		Name: "takeover-plain-write", Chapter: inLocks,
		About: "a takeover reads the row and then writes it without a condition",
		Note:  "window: ttl/7",
		Seen:  "\"the lease has expired, so nobody else writes\"",
		Red: &Red{Scenario: "pause-worker", Contention: "high",
			Properties: []string{"P1", "P2", "P13"}, Mechanism: "unconditional-takeover"},
	},
	{
		Name: "takeover-ignores-beat", Chapter: inLocks,
		About: "a takeover does not look whether the lease was renewed",
		Seen:  "CAS on owner and token but not on the expiry; reapers that judge a job by its start",
		Red:   &Red{Scenario: "slow-job", Contention: "high", Properties: []string{"P8"}, Mechanism: "takeover-ignores-renewals"},
	},
	{
		Name: "takeover-never", Chapter: inLocks,
		About: "nobody takes over the lock of a dead holder",
		Seen:  "locks without a lease",
		Red:   &Red{Scenario: "kill-worker", Contention: "high", Properties: []string{"P11"}, Mechanism: "no-takeover"},
	},
	{
		Name: "wall-expiry", Chapter: inLocks,
		About: "a contender judges by its own wall clock whether a lease has expired",
		Seen: "`expires_at < now()` with several machines' clocks; ShedLock took lock_until from its node's clock: lukas-" +
			"krecan/ShedLock #231",
		Red: &Red{Scenario: "clock-skew", Contention: "high", Properties: []string{"P8"}, Mechanism: "expiry-by-wall-clock"},
	},
	{
		Name: "renew-unconditioned", Chapter: inLocks,
		About: "a renewal writes the row without asking whose it is",
		Seen: "UPDATE … WHERE name = ? in a keep-alive thread; a refresh took an expired lock again: swarthy/redis-semaphore " +
			"#175, go-redsync/redsync #72",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P9"}, Mechanism: "unconditional-renewal"},
	},
	{
		Name: "release-anyone", Chapter: inLocks,
		About: "a release frees the row without checking who holds it",
		Seen:  "DEL without comparing the owner; etcd's client mutex is unlocked by key, not by revision: etcd-io/etcd #22082",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P9"}, Mechanism: "release-without-owner"},
	},
	{
		Name: "release-plain-write", Chapter: inLocks,
		About: "a release is a plain UPDATE of columns that lightweight transactions write",
		Seen:  "\"a release needs no consensus\"",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P9", "P13"}, Mechanism: "unconditional-release"},
	},
	{
		Name: "takeover-own-ttl", Chapter: inLocks,
		About: "a contender waits for its own ttl before it takes a lease over, not for the row's",
		Seen:  "the ttl is a setting of each client, and a deployment changes it; locks of one name with another lease time",
		Red: &Red{Scenario: "slow-job", Contention: "medium", Workload: "locks-ranges",
			Properties: []string{"P8"}, Mechanism: "expiry-by-own-ttl"},
	},
	{
		Name: "watch-from-start", Chapter: inLocks,
		About: "a contender counts for how long a lease stands still from when it asked for the row, not from the answer",
		Seen:  "`start := now()` before the call, as timers of requests have it",
		Red:   &Red{Scenario: "late-look", Contention: "medium", Properties: []string{"P8"}, Mechanism: "watch-counted-from-asking"},
	},
	// Who gives up, does not wait, or holds several.
	{
		Name: "cancelled-acquire-leaks", Chapter: inLocks,
		About: "an acquire that its caller gives up goes on, and what it is granted is renewed for ever",
		Seen:  "the call is left in a goroutine or a future; only the wait for it is cancelled",
		Red: &Red{Scenario: "steady", Contention: "medium", Workload: "locks-impatient",
			Properties: []string{"P11"}, Mechanism: "abandoned-lease-renewed"},
	},
	{
		Name: "try-by-memory", Chapter: inLocks,
		About: "a call that does not wait is refused by what its process last saw of the row",
		Seen:  "a cache of locks that are taken, with their ttl, in front of the store",
		Red: &Red{Scenario: "steady", Contention: "medium", Workload: "locks-impatient",
			Properties: []string{"P2"}, Mechanism: "try-answered-from-memory"},
	},
	{
		Name: "renew-throttled", Chapter: inLocks,
		About: "a renewal by hand is confirmed without a request, if another one was less than a third of the ttl ago",
		Seen:  "renewals are throttled to spare the store, and their caller counts a whole ttl from each",
		Red: &Red{Scenario: "steady", Contention: "medium", Workload: "locks-renewing",
			Properties: []string{"P7"}, Mechanism: "renewal-only-told"},
	},
	{
		Name: "close-without-waiting", Chapter: inLocks,
		About: "a lock client says that it is closed when it has begun to end, and its leases go on",
		Seen:  "the shutdown runs in a goroutine or a future that nobody waits for; what follows takes it for done",
		Red: &Red{Scenario: "steady", Contention: "medium", Workload: "locks-reopening",
			Properties: []string{"P11"}, Mechanism: "lease-outlives-client"},
	},
	{
		Name: "one-token-a-client", Chapter: inLocks,
		About: "a client that holds several locks shows the token of the first of them for all",
		Seen:  "the token is kept with the session, not with the lock",
		Red: &Red{Scenario: "steady", Contention: "medium", Workload: "locks-several",
			Properties: []string{"P1", "P6"}, Mechanism: "one-token-for-all-locks"},
	},
	// What the holder believes.
	{
		Name: "renew-failure-ignored", Chapter: inLocks,
		About: "a holder whose renewals fail continues as if it still held the lock",
		Seen:  "the keep-alive only logs",
		Red:   &Red{Scenario: "partition-client", Contention: "medium", Properties: []string{"P7"}, Mechanism: "loss-ignored"},
	},
	{
		Name: "heartbeat-dies", Chapter: inLocks,
		About: "renewing ends silently with the first renewal that is not answered; the holder continues",
		Seen:  "an exception ends the keep-alive thread; Redisson's watchdog fails silently: redisson #775",
		Red:   &Red{Scenario: "lost-replies", Contention: "medium", Properties: []string{"P7"}, Mechanism: "keep-alive-died"},
	},
	{
		Name: "trust-from-answer", Chapter: inLocks,
		About: "a holder counts its lease from the answer of the last resend instead of the first send",
		Seen:  "`expires = now() + ttl` after the call returned",
		Red:   &Red{Scenario: "lost-replies", Contention: "medium", Properties: []string{"P7", "P8"}, Mechanism: "lease-counted-from-answer"},
	},
	{
		Name: "trust-from-told", Chapter: inLocks,
		About: "a holder counts its lease from when it looks at the answer, less what the request took: a pause between the two is not counted",
		Seen:  "Redlock's validity time, `ttl - elapsed`, is taken for what is left whenever the caller looks at it",
		Red:   &Red{Scenario: "pause-answered", Contention: "low", Properties: []string{"P7"}, Mechanism: "lease-counted-from-answer"},
	},
	{
		Name: "wall-deadline", Chapter: inLocks,
		About: "leases are measured by the wall clock, which can be set",
		Seen:  "`System.currentTimeMillis` for deadlines",
		Red:   &Red{Scenario: "clock-jump", Contention: "high", Properties: []string{"P7", "P8"}, Mechanism: "lease-by-wall-clock"},
	},
	{
		Name: "awake-deadline", Chapter: inLocks,
		About: "leases are measured by a clock that stands still while the machine sleeps",
		Seen:  "CLOCK_MONOTONIC; Go's `time.Since`",
		Red:   &Red{Scenario: "suspend", Contention: "high", Properties: []string{"P7", "P8"}, Mechanism: "lease-by-awake-clock"},
	},
	{
		Name: "early-release", Chapter: inLocks,
		About: "the lock is released when the work has begun, not when it is done",
		Seen:  "the job is handed to a pool; shutdown releases before what is in flight is done",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P7"}, Mechanism: "released-before-done"},
	},
	// Answers and their absence.
	{
		Name: "unknown-acquire-ok", Chapter: inLocks,
		About: "an acquire without an answer counts as granted",
		Seen:  "a timeout is treated as success after \"retry\"",
		Red:   &Red{Scenario: "partition-client", Contention: "medium", Properties: []string{"P6"}, Mechanism: "unknown-granted"},
	},
	{
		Name: "unknown-acquire-fails", Chapter: inLocks,
		About: "an acquire without an answer counts as refused; what it was granted is left behind",
		Seen:  "a timeout is treated as failure",
		// At low contention hardly anybody else wins the lock whose acquire is not answered.
		Red: &Red{Scenario: "lost-replies", Contention: "low", Properties: []string{"P2"}, Mechanism: "unknown-refused"},
	},
	{
		Name: "driver-reexecutes", Chapter: inLocks,
		About: "the driver executes a request again when its answer is late and returns the second answer",
		Seen: "retry policies of drivers; gocql before v2 retries conditional writes by any retry policy: apache/cassandra-" +
			"gocql-driver #1803",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Properties: []string{"P2"}, Mechanism: "request-executed-again"},
	},
	{
		Name: "applied-ignored", Chapter: inLocks,
		About: "the answer [applied]=false of an acquire is not looked at",
		Seen:  "no exception was thrown",
		Red:   &Red{Scenario: "steady", Contention: "high", Properties: []string{"P2", "P6"}, Mechanism: "refusal-granted"},
	},
	// Statements.
	{
		Name: "read-at-one", Chapter: inLocks,
		About: "lock rows are read through one replica (consistency ONE)",
		Seen:  "the session's default consistency",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "weak-read"},
	},
	{
		Name: "local-serial", Chapter: inLocks,
		About: "releases are LOCAL_SERIAL while everything else is SERIAL",
		Seen: "one path has other options; harmless in one data centre, so only the lint sees it; both in one system: " +
			"Palantir AtlasDB #7104",
		Red: &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "mixed-serial"},
	},
	{
		Name: "remote-coordinator", Chapter: inLocks,
		About: "requests go to the other data centre's node when one of their own has not answered, and in turn",
		Note:  "every fourth copy goes there",
		Seen: "a DC-aware policy that falls back to remote hosts; a list of contact points over two regions; a load balancer " +
			"that fails over",
		Red: &Red{Scenario: "two-datacenters", Contention: "medium", Properties: []string{"P13"}, Mechanism: "remote-coordinator"},
	},
	{
		Name: "read-at-one-unsaid", Chapter: inLocks,
		About: "lock rows are read through one replica, and the worker says that it reads them at QUORUM",
		Seen:  "the log shows what the code asked for, the driver's profile decides what is sent",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "statement-misstated"},
	},
	{
		Name: "locks-read-at-quorum", Chapter: inLocks,
		About: "before a write is sent again its row is read at QUORUM, which is to settle what became of the copy before",
		Seen: "a read helper without a parameter for the level; a SERIAL read costs as much as a write, so somebody makes it " +
			"cheaper",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Properties: []string{"P13"}, Mechanism: "read-outside-consensus"},
	},
	{
		Name: "ledger-read-at-quorum", Chapter: inSinks, Sink: "cassandra",
		About: "the sink's ledger is read at QUORUM, so a decision that is half-way is not seen",
		Seen:  "SELECT at the session's default level beside INSERT … IF NOT EXISTS",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "read-outside-consensus"},
	},
	{
		Name: "ledger-commit-at-one", Chapter: inSinks, Sink: "cassandra",
		About: "conditional batches on the sink's ledger commit at ONE",
		Seen:  "the serial consistency is set and the consistency of the commit is left at the driver's default",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "weak-condition"},
	},
	// Progress.
	{
		Name: "pins-coordinator", Chapter: inLocks,
		About: "all requests about locks go to one node, and wait for it",
		Seen:  "a session pinned to the nearest node; a driver that resends to the same host",
		Red:   &Red{Scenario: "partition", Contention: "high", Properties: []string{"P11"}, Mechanism: "waits-for-one-node"},
	},
	{
		Name: "stops-when-node-away", Chapter: inLocks,
		About: "nobody asks for a lock while a node does not answer, though a quorum does",
		Seen:  "a health check that takes any dead node for an outage",
		Red:   &Red{Scenario: "pause-node", Contention: "medium", Properties: []string{"P11"}, Mechanism: "work-stops-in-fault"},
	},
	{
		Name: "jobs-no-claims-in-fault", Chapter: inJobs,
		About: "schedulers claim no job while batches go unanswered",
		Seen:  "a circuit breaker around the whole store",
		Red:   &Red{Scenario: "jobs-partition", Contention: "medium", Properties: []string{"P11"}, Mechanism: "claims-stop"},
	},
}
