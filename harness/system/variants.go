package system

import "fencepost/checker"

const broken = "broken/"

// variants are the known-broken ones; docs/known-broken.md tells where real
// systems have them.
var variants = []System{
	{
		Name: broken + "sink-no-token-check", About: "the sink accepts an effect whatever its fencing token",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P3", "P4"}, Mechanism: "sink-checks-no-token"},
	},
	// Tokens.
	{
		Name: broken + "hilo-tokens", About: "fencing tokens come from Hi/Lo id blocks of each process, not from the lock's row",
		Red: &Red{Scenario: "kill-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P1"}, Mechanism: "tokens-from-blocks"},
	},
	{
		Name: broken + "wall-tokens", About: "fencing tokens are the wall clock's milliseconds",
		Red: &Red{Scenario: "clock-skew", Contention: "high", Verdict: checker.Fail, Properties: []string{"P1"}, Mechanism: "tokens-from-wall-clock"},
	},
	{
		Name: broken + "token-reset", About: "a release leaves the row as new: its token counter starts again",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P1"}, Mechanism: "release-resets-counter"},
	},
	{
		Name: broken + "row-ttl", About: "lock rows are written USING TTL: an expired row takes its token counter with it",
		Red: &Red{Scenario: "kill-worker", Contention: "low", Verdict: checker.Fail, Properties: []string{"P1"}, Mechanism: "rows-expire"},
	},
	// Taking over, renewing, releasing.
	{
		Name: broken + "takeover-plain-write", About: "a takeover reads the row and then writes it without a condition",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P1", "P2", "P13"}, Mechanism: "unconditional-takeover"},
	},
	{
		Name: broken + "takeover-ignores-beat", About: "a takeover does not look whether the lease was renewed",
		Red: &Red{Scenario: "slow-job", Contention: "high", Verdict: checker.Fail, Properties: []string{"P8"}, Mechanism: "takeover-ignores-renewals"},
	},
	{
		Name: broken + "takeover-never", About: "nobody takes over the lock of a dead holder",
		Red: &Red{Scenario: "kill-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P11"}, Mechanism: "no-takeover"},
	},
	{
		Name: broken + "wall-expiry", About: "a contender judges by its own wall clock whether a lease has expired",
		Red: &Red{Scenario: "clock-skew", Contention: "high", Verdict: checker.Fail, Properties: []string{"P8"}, Mechanism: "expiry-by-wall-clock"},
	},
	{
		Name: broken + "renew-unconditioned", About: "a renewal writes the row without asking whose it is",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P9"}, Mechanism: "unconditional-renewal"},
	},
	{
		Name: broken + "release-anyone", About: "a release frees the row whoever holds it",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P9"}, Mechanism: "release-without-owner"},
	},
	{
		Name: broken + "release-plain-write", About: "a release is a plain UPDATE of columns that lightweight transactions write",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P9", "P13"}, Mechanism: "unconditional-release"},
	},
	// What the holder believes.
	{
		Name: broken + "renew-failure-ignored", About: "a holder whose renewals fail goes on as if it still held the lock",
		Red: &Red{Scenario: "partition-client", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7"}, Mechanism: "loss-ignored"},
	},
	{
		Name: broken + "heartbeat-dies", About: "renewing ends silently with the first renewal that is not answered; the holder goes on",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7"}, Mechanism: "keep-alive-died"},
	},
	{
		Name: broken + "trust-from-answer", About: "a holder counts its lease from the answer of the last resend instead of the first send",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7", "P8"}, Mechanism: "lease-counted-from-answer"},
	},
	{
		Name: broken + "wall-deadline", About: "leases are measured by the wall clock, which can be set",
		Red: &Red{Scenario: "clock-jump", Contention: "high", Verdict: checker.Fail, Properties: []string{"P7", "P8"}, Mechanism: "lease-by-wall-clock"},
	},
	{
		Name: broken + "awake-deadline", About: "leases are measured by a clock that stands still while the machine sleeps",
		Red: &Red{Scenario: "suspend", Contention: "high", Verdict: checker.Fail, Properties: []string{"P7", "P8"}, Mechanism: "lease-by-awake-clock"},
	},
	{
		Name: broken + "early-release", About: "the lock is released when the work has begun, not when it is done",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7"}, Mechanism: "released-before-done"},
	},
	// Answers and their absence.
	{
		Name: broken + "unknown-acquire-ok", About: "an acquire without an answer counts as granted",
		Red: &Red{Scenario: "partition-client", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P6"}, Mechanism: "unknown-granted"},
	},
	{
		Name: broken + "unknown-acquire-fails", About: "an acquire without an answer counts as refused; what it was granted is left behind",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "unknown-refused"},
	},
	{
		Name: broken + "driver-reexecutes", About: "the driver executes a request again when its answer is late and returns the second answer",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "request-executed-again"},
	},
	{
		Name: broken + "applied-ignored", About: "the answer [applied]=false of an acquire is not looked at",
		Red: &Red{Scenario: "steady", Contention: "high", Verdict: checker.Fail, Properties: []string{"P2", "P6"}, Mechanism: "refusal-granted"},
	},
	// Statements.
	{
		Name: broken + "read-at-one", About: "lock rows are read through one replica (consistency ONE)",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P13"}, Mechanism: "weak-read"},
	},
	{
		Name: broken + "local-serial", About: "releases are LOCAL_SERIAL while everything else is SERIAL",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P13"}, Mechanism: "mixed-serial"},
	},
	{
		Name: broken + "remote-coordinator", About: "requests go to the other data centre's node when one of their own has not answered, and by turns",
		Red: &Red{Scenario: "two-datacenters", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P13"}, Mechanism: "remote-coordinator"},
	},
	{
		Name: broken + "read-at-one-unsaid", About: "lock rows are read through one replica, and the worker says that it reads them at QUORUM",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P13"}, Mechanism: "statement-misstated"},
	},
	// Progress.
	{
		Name: broken + "pins-coordinator", About: "all requests about locks go to one node, and wait for it",
		Red: &Red{Scenario: "partition", Contention: "high", Verdict: checker.Fail, Properties: []string{"P11"}, Mechanism: "waits-for-one-node"},
	},
	{
		Name: broken + "stops-when-node-away", About: "nobody asks for a lock while a node does not answer, though a quorum does",
		Red: &Red{Scenario: "pause-node", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P11"}, Mechanism: "work-stops-in-fault"},
	},
	{
		Name: broken + "jobs-no-claims-in-fault", About: "schedulers claim no job while batches go unanswered",
		Red: &Red{Scenario: "jobs-partition", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P11"}, Mechanism: "claims-stop"},
	},
	// The sink.
	{
		Name: broken + "sink-refuses-equal", About: "the sink demands a token above the highest seen, so a holder is refused its own write",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P10"}, Mechanism: "sink-refuses-equal"},
	},
	{
		Name: broken + "sink-check-then-write", About: "the sink compares the token with what the holder read before, and then writes without a condition",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P3", "P4"}, Mechanism: "sink-checks-what-was-read"},
	},
	{
		Name: broken + "sink-token-in-memory", About: "each process remembers the sink's highest token in its own memory",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P3"}, Mechanism: "sink-remembers-per-process"},
	},
	{
		Name: broken + "effect-key-per-send", About: "the idempotency key contains the number of the send: a resend is another effect",
		Red: &Red{Scenario: "sink-lost-replies", Contention: "high", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "resend-is-another-effect"},
	},
	{
		Name: broken + "sink-forges-ledger", BrokenSink: "forges-ledger", About: "the sink's service takes effects whatever their token, and writes the highest that it has seen into its ledger",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "ledger-forged"},
	},
	{
		Name: broken + "no-raise", About: "a holder does not raise its token before it reads what it acts on",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "raise-not-done"},
	},
	// Batches of shards.
	{
		Name: broken + "jobs-tick-blind", About: "a tick's condition names the fence and not the tick: a late copy of a batch is done again",
		Red: &Red{Scenario: "jobs-lost-replies", Contention: "low", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "late-copy-done-again"},
	},
	{
		Name: broken + "jobs-unknown-means-no", About: "a batch without an answer counts as not done; another is built from the same stamp",
		Red: &Red{Scenario: "jobs-lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2", "P5"}, Mechanism: "batch-taken-for-lost"},
	},
	{
		Name: broken + "jobs-plain-header", About: "a tick is a plain write to the shard's header and rows",
		Red: &Red{Scenario: "jobs-late-batch", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2", "P13"}, Mechanism: "unconditional-tick"},
	},
	{
		Name: broken + "jobs-complete-outside", About: "handlers write down that their job is completed, outside of a tick",
		Red: &Red{Scenario: "jobs-late-finish", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2", "P13"}, Mechanism: "write-beside-the-tick"},
	},
	{
		Name: broken + "jobs-early-hand-over", About: "a shard is handed over while its runs are at work",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P8"}, Mechanism: "given-away-with-runs"},
	},
	{
		Name: broken + "jobs-silent-is-dead", About: "shards are taken from an owner whose heartbeats are not seen, though its ticks are",
		Red: &Red{Scenario: "jobs-heartbeat-loss", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P8"}, Mechanism: "silent-owner-is-dead"},
	},
	// Rows of jobs.
	{
		Name: broken + "jobs-rescue-dead-only", About: "a takeover rescues only the runs of processes that are dead for sure",
		Red: &Red{Scenario: "jobs-pause-worker", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P5"}, Mechanism: "rescue-left-out"},
	},
	{
		Name: broken + "jobs-dlq-lost", About: "a job that moves to the dead letter queue leaves its old place and never comes to the new one",
		Red: &Red{Scenario: "jobs-poison", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "dlq-move-lost"},
	},
	{
		Name: broken + "jobs-retries-in-memory", About: "attempts are counted in the owner's memory: the next owner begins at 0",
		Red: &Red{Scenario: "jobs-poison", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "attempts-in-memory"},
	},
	{
		Name: broken + "jobs-format-unsaid", About: "jobs are written in a new form that the version before cannot read, and nothing says so",
		Red: &Red{Scenario: "jobs-mixed-versions", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P5"}, Mechanism: "row-not-read"},
	},
	{
		Name: broken + "jobs-claimed-twice", About: "a claim leaves the job's pending row, to be claimed again",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "claim-leaves-row"},
	},
	{
		Name: broken + "jobs-behind-the-mark", About: "jobs are inserted behind the mark from which the next owner reads on",
		Red: &Red{Scenario: "jobs-due-later", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P5"}, Mechanism: "row-behind-the-mark"},
	},
	{
		Name: broken + "jobs-swept-early", About: "job rows are swept as soon as their jobs have ended: an enqueue that comes again runs the job again",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P5"}, Mechanism: "forgotten-too-early"},
	},
	{
		Name: broken + "jobs-early-bird", About: "jobs fire by a clock that runs ahead of their worker's own",
		Red: &Red{Scenario: "jobs-due-later", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P12"}, Mechanism: "fires-by-a-fast-clock"},
	},
	// Schedules.
	{
		Name: broken + "jobs-mark-first", About: "a schedule is marked as fired with one tick, and its job is enqueued with the next",
		Red: &Red{Scenario: "jobs-leader-crash", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P12"}, Mechanism: "schedule-ahead-of-job"},
	},
	{
		Name: broken + "jobs-counts-from-start", About: "each owner counts the times of its schedules from its own start: what came while nobody was there is forgotten",
		Red: &Red{Scenario: "jobs-outage", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P12"}, Mechanism: "schedule-counted-anew"},
	},
	{
		Name: broken + "jobs-clock-read-once", About: "a scheduler reads the wall clock at its start and counts on: it does not see that the clock is set",
		Red: &Red{Scenario: "jobs-clock-jump", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P12"}, Mechanism: "fires-by-a-fast-clock"},
	},
	{
		Name: broken + "jobs-awake-deadline", About: "shards are trusted by a clock that stands still while the machine sleeps",
		Red: &Red{Scenario: "jobs-suspend", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7"}, Mechanism: "lease-by-awake-clock"},
	},
	{
		Name: broken + "jobs-follow-later", About: "a job of a sequence ends with one tick, and the one that follows it is enqueued with the next",
		Red: &Red{Scenario: "jobs-sequence", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P5"}, Mechanism: "end-ahead-of-next"},
	},
	// Effects of jobs.
	{
		Name: broken + "jobs-ack-before-effect", About: "effects are done in the background: a job is completed before them",
		Red: &Red{Scenario: "jobs-kill-worker", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "acknowledged-before-done"},
	},
	{
		Name: broken + "jobs-effect-no-key", About: "effects carry no idempotency key",
		Red: &Red{Scenario: "jobs-late-finish", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "effects-without-key"},
	},
	{
		Name: broken + "jobs-key-with-attempt", About: "the idempotency key contains the attempt: what an earlier one did is done again",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "key-of-the-attempt"},
	},
	{
		Name: broken + "jobs-wrong-issuer", About: "effects carry the highest run id of their process, of whatever shard",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P6"}, Mechanism: "one-token-for-all-shards"},
	},
	{
		Name: broken + "jobs-one-issuer", About: "effects name one shard as the issuer of their tokens, whatever shard their job is in",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P6"}, Mechanism: "issuer-of-another-shard"},
	},
	// Orders.
	{
		Name: broken + "orders-pay-before-fence", About: "an order is paid in a transaction of its own, by its key, before the fence is asked",
		Red: &Red{Scenario: "orders-pause-worker", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P16"}, Mechanism: "paid-before-the-fence"},
	},
	{
		Name: broken + "orders-pay-by-run", About: "the idempotency key of a payment contains the run: what an earlier one has paid is paid again",
		Red: &Red{Scenario: "orders-kill-worker", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P16"}, Mechanism: "paid-by-run"},
	},
	{
		Name: broken + "orders-stock-unversioned", About: "stock is written as computed from what was read, whatever its version is by then",
		Red: &Red{Scenario: "orders-steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P17"}, Mechanism: "stock-overwritten"},
	},
	// Processes.
	{
		Name: broken + "dies-steady", About: "a worker panics while it works: a table has room for 40 grants",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P18"}, Mechanism: "process-panics"},
	},
	{
		Name: broken + "dies-draining", About: "workers panic while they end: a background task is told twice to end",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P18"}, Mechanism: "process-panics-ending"},
	},
	{
		Name: broken + "exits-1", About: "a worker exits with code 1 because of an error that passes",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P18"}, Mechanism: "process-exits"},
	},
	{
		Name: broken + "never-ends", About: "workers do not end after SIGTERM: they wait for a background task that nobody tells to end",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P18"}, Mechanism: "process-never-ends"},
	},
	// The harness itself.
	{
		Name: broken + "harness-links-inert", Inert: "links", About: "the harness says that it cut links but never does",
		Red: &Red{Scenario: "partition", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-pause-inert", Inert: "pause", About: "the harness says that it stopped workers but sends no signal",
		Red: &Red{Scenario: "pause-worker", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-kill-inert", Inert: "kill", About: "the harness says that it killed workers but sends no signal",
		Red: &Red{Scenario: "kill-worker", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-suspend-inert", Inert: "suspend", About: "the harness says that it put machines to sleep but leaves their timers and processes alone",
		Red: &Red{Scenario: "suspend", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-clock-inert", Inert: "clock", About: "the harness says that it set clocks wrong but leaves them right",
		Red: &Red{Scenario: "clock-skew", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-slow-job-inert", Inert: "slow-job", About: "the harness says that it told a client to stay in its critical section but lets it go on",
		Red: &Red{Scenario: "slow-job", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-latency-inert", Inert: "latency", About: "the harness says that it delayed links but never does",
		Red: &Red{Scenario: "latency", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-replies-inert", Inert: "replies", About: "the harness says that it dropped answers but lets them through",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-node-inert", Inert: "node", About: "the harness says that it stopped nodes but sends no signal",
		Red: &Red{Scenario: "pause-node", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-sink-inert", Inert: "sink", About: "the harness says that it killed the sink's process but sends no signal",
		Red: &Red{Scenario: "kill-sink", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-worker-missing", MissingWorkers: 1, About: "the harness starts one worker fewer than the scenario says",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "worker-missing"},
	},
	{
		Name: broken + "harness-ledger-reset", About: "a resource of the sink is emptied, ledger and all, in the middle of the run",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P4"}, Mechanism: "ledger-emptied"},
	},
	{
		Name: broken + "recorder-drops", About: "the recorder loses every 50th operation",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "calls-missing"},
	},
	{
		Name: broken + "recorder-late-calls", About: "the recorder dates calls of lock operations when their answers are there",
		Red: &Red{Scenario: "steady", Contention: "low", Verdict: checker.Invalid, Properties: []string{"P14"}, Mechanism: "calls-dated-late"},
	},
	{
		Name: broken + "recorder-unknown-fail", About: "the recorder writes down an unknown outcome as a failure",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P2"}, Mechanism: "unknown-recorded-as-failed"},
	},
}
