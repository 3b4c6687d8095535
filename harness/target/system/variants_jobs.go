package system

// jobVariants are mistakes of schedulers and what their jobs do.
var jobVariants = []System{
	// Batches of shards.
	{
		Name: "jobs-shard-read-at-one", Chapter: inJobs,
		About: "one replica is asked whether a shard's header has changed",
		Seen:  "polling at LOCAL_ONE, as it is only polling",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "weak-read"},
	},
	{
		Name: "jobs-inbox-read-at-one", Chapter: inJobs,
		About: "inboxes are read through one replica: an acknowledged job may be missed",
		Seen:  "a queue table that is written at QUORUM and polled at ONE",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "weak-read"},
	},
	{
		Name: "jobs-heartbeats-at-one", Chapter: inJobs,
		About: "heartbeats are written to one replica: who reads others takes their writer for dead",
		Seen:  "writes at ONE for what \"comes again in a second anyway\"",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P13"}, Mechanism: "writes-and-reads-apart"},
	},
	{
		Name: "jobs-tick-blind", Chapter: inJobs,
		About: "a tick's condition names the fence and not the tick: a late copy of a batch is done again",
		Note:  "a copy without an answer stays on its way for ttl/2",
		Seen:  "`IF owner = me`: enough against others, not against one's own late requests",
		Red:   &Red{Scenario: "jobs-lost-replies", Contention: "low", Properties: []string{"P2"}, Mechanism: "late-copy-done-again"},
	},
	{
		Name: "jobs-unknown-means-no", Chapter: inJobs,
		About: "a batch without an answer counts as not done; another is built from the same stamp",
		Seen:  "a timeout is an exception, and an exception means retry",
		Red:   &Red{Scenario: "jobs-lost-replies", Contention: "medium", Properties: []string{"P2", "P5"}, Mechanism: "batch-taken-for-lost"},
	},
	{
		Name: "jobs-plain-header", Chapter: inJobs,
		About: "a tick is a plain write to the shard's header and rows",
		Seen:  "\"only the owner writes here\"",
		Red:   &Red{Scenario: "jobs-late-batch", Contention: "medium", Properties: []string{"P2", "P13"}, Mechanism: "unconditional-tick"},
	},
	{
		Name: "jobs-complete-outside", Chapter: inJobs,
		About: "handlers write down that their job is completed, outside of a tick",
		Seen:  "`UPDATE jobs SET state = 'done' WHERE id = ?` at the end of the handler",
		Red: &Red{Scenario: "jobs-late-finish", Contention: "medium",
			Properties: []string{"P2", "P13"}, Mechanism: "write-beside-the-tick"},
	},
	{
		Name: "jobs-early-hand-over", Chapter: inJobs,
		About: "a shard is handed over while its runs are at work",
		Note:  "each process does so once, with its 20th claim",
		Seen:  "shutdown releases first and waits for what is in flight afterwards",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P8"}, Mechanism: "given-away-with-runs"},
	},
	{
		Name: "jobs-silent-is-dead", Chapter: inJobs,
		About: "shards are taken from an owner whose heartbeats are not seen, though its ticks are",
		Note:  "they have stood still for a ttl",
		Seen: "a controller that reassigns by its own view of who is alive; live processes were taken for dead: " +
			"sidekiq/sidekiq #4441, #4611",
		Red: &Red{Scenario: "jobs-heartbeat-loss", Contention: "medium", Properties: []string{"P8"}, Mechanism: "silent-owner-is-dead"},
	},
	// Rows of jobs.
	{
		Name: "jobs-rescue-dead-only", Chapter: inJobs,
		About: "a takeover rescues only the runs of processes that are dead for sure",
		Note:  "one is dead when its next life is seen",
		Seen:  "reapers that look at a table of live workers",
		Red:   &Red{Scenario: "jobs-pause-worker", Contention: "medium", Properties: []string{"P5"}, Mechanism: "rescue-left-out"},
	},
	{
		Name: "jobs-dlq-lost", Chapter: inJobs,
		About: "a job that moves to the dead letter queue leaves its old place and never comes to the new one",
		Seen:  "delete here, insert there, and a crash between them",
		Red:   &Red{Scenario: "jobs-poison", Contention: "medium", Properties: []string{"P2"}, Mechanism: "dlq-move-lost"},
	},
	{
		Name: "jobs-retries-in-memory", Chapter: inJobs,
		About: "attempts are counted in the owner's memory: the next owner begins at 0",
		Seen:  "retry counters in the worker: a poison job that kills its process is tried for ever",
		Red:   &Red{Scenario: "jobs-poison", Contention: "medium", Properties: []string{"P2"}, Mechanism: "attempts-in-memory"},
	},
	{
		Name: "jobs-retry-at-once", Chapter: inJobs,
		About: "retries ignore the backoff that their job asks for: it is tried again as soon as its run has failed",
		Seen:  "`nack(requeue=True)`: a message that failed is the next one to be delivered",
		Red:   &Red{Scenario: "jobs-poison", Contention: "medium", Properties: []string{"P12"}, Mechanism: "backoff-ignored"},
	},
	{
		Name: "jobs-interrupted-is-done", Chapter: inJobs,
		About: "a run that a clean stop interrupts returns no error, and its job is completed",
		Seen:  "`if errors.Is(err, context.Canceled) { return nil }` in a handler: what ended because it was asked to is no failure",
		Red:   &Red{Scenario: "jobs-long-drain", Contention: "medium", Properties: []string{"P4"}, Mechanism: "step-left-out"},
	},
	{
		Name: "jobs-format-unsaid", Chapter: inJobs,
		About: "jobs are written in a new form that the version before cannot read, and nothing says so",
		Seen:  "a release whose rows the one that it replaces cannot read, seen half-way through a rolling upgrade",
		Red:   &Red{Scenario: "jobs-mixed-versions", Contention: "medium", Properties: []string{"P5"}, Mechanism: "row-not-read"},
	},
	{
		Name: "jobs-claimed-twice", Chapter: inJobs,
		About: "a claim leaves the job's pending row, to be claimed again",
		Seen:  "visibility flags that are set and not waited for",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P2"}, Mechanism: "claim-leaves-row"},
	},
	{
		Name: "jobs-behind-the-mark", Chapter: inJobs,
		About: "jobs are inserted behind the mark from which the next owner reads on",
		Seen:  "cursors over timestamps: `WHERE due > last_seen`",
		Red:   &Red{Scenario: "jobs-due-later", Contention: "medium", Properties: []string{"P5"}, Mechanism: "row-behind-the-mark"},
	},
	{
		Name: "jobs-swept-early", Chapter: inJobs,
		About: "job rows are swept as soon as their jobs have ended: an enqueue that comes again runs the job again",
		Note:  "the keys of the job's effects hide it",
		Seen:  "unique-job locks that end with the job; sidekiq-unique-jobs #531, #734",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P5"}, Mechanism: "forgotten-too-early"},
	},
	{
		Name: "jobs-early-bird", Chapter: inJobs,
		About: "jobs fire by a clock that runs ahead of their worker's own",
		Note:  "by ttl/3",
		Seen:  "the database's clock is compared with the client's",
		Red:   &Red{Scenario: "jobs-due-later", Contention: "medium", Properties: []string{"P12"}, Mechanism: "fires-by-a-fast-clock"},
	},
	{
		Name: "jobs-start-without-look", Chapter: inJobs,
		About: "a claimed run is started whatever the clock shows, however long ago it was claimed",
		Seen:  "a worker that begins what it has fetched after a long pause; the visibility timeout has passed meanwhile",
		Red:   &Red{Scenario: "jobs-pause-claim", Contention: "medium", Properties: []string{"P7"}, Mechanism: "started-without-look"},
	},
	// Schedules.
	{
		Name: "jobs-mark-first", Chapter: inJobs,
		About: "a schedule is marked as fired with one tick, and its job is enqueued with the next",
		Note:  "who is killed in between fires nothing, and nobody after it does",
		Seen:  "`UPDATE schedules SET last_run = now()`, then the job is enqueued",
		Red:   &Red{Scenario: "jobs-leader-crash", Contention: "medium", Properties: []string{"P12"}, Mechanism: "schedule-ahead-of-job"},
	},
	{
		Name: "jobs-counts-from-start", Chapter: inJobs,
		About: "each owner counts the times of its schedules from its own start: what came while nobody was there is forgotten",
		Seen:  "cron in memory: a restart begins at the next time; times are missed after an election: dkron-io/dkron #998, #1210",
		Red:   &Red{Scenario: "jobs-outage", Contention: "medium", Properties: []string{"P12"}, Mechanism: "schedule-counted-anew"},
	},
	{
		Name: "jobs-clock-read-once", Chapter: inJobs,
		About: "a scheduler reads the wall clock at its start and counts on: it does not see that the clock is set",
		Seen:  "timers for a time of day that are armed as durations",
		Red:   &Red{Scenario: "jobs-clock-jump", Contention: "medium", Properties: []string{"P12"}, Mechanism: "fires-by-a-fast-clock"},
	},
	{
		Name: "jobs-cron-by-clock", Chapter: inJobs,
		About: "an owner counts the next time of its schedules from what its clock shows, not from the last time that was fired",
		Note:  "as it takes their shard over",
		Seen:  "`next = cron.Next(time.Now())`: a clock that is set back fires again, one that is set ahead leaves times out",
		Red:   &Red{Scenario: "jobs-clock-jump", Contention: "medium", Properties: []string{"P12"}, Mechanism: "schedule-set-back"},
	},
	{
		Name: "jobs-removed-returns", Chapter: inJobs,
		About: "a schedule is removed from its owner's memory and not from the shard: it comes back with the next owner",
		Seen:  "a job that is deleted from the running scheduler and reloaded from its store at the next start",
		Red:   &Red{Scenario: "jobs-recurring", Contention: "medium", Properties: []string{"P12"}, Mechanism: "removal-in-memory"},
	},
	{
		Name: "jobs-overlap-in-memory", Chapter: inJobs,
		About: "which occurrence of a schedule has not ended is known to its owner only: after a takeover the next one begins beside it",
		Seen:  "`ConcurrencyPolicy: Forbid` by a flag in the process; a restart runs two at once",
		Red:   &Red{Scenario: "jobs-recurring", Contention: "medium", Properties: []string{"P12"}, Mechanism: "overlap-not-kept"},
	},
	{
		Name: "jobs-awake-deadline", Chapter: inJobs,
		About: "shards are trusted by a clock that stands still while the machine sleeps",
		Seen:  "`time.Since` for leases: CLOCK_MONOTONIC stops in suspend",
		Red:   &Red{Scenario: "jobs-suspend", Contention: "medium", Properties: []string{"P7"}, Mechanism: "lease-by-awake-clock"},
	},
	{
		Name: "jobs-follow-later", Chapter: inJobs,
		About: "a job of a sequence ends with one tick, and the one that follows it is enqueued with the next",
		Note:  "who is killed in between leaves the sequence where it is",
		Seen:  "\"done\" is committed, then the next step is sent",
		Red:   &Red{Scenario: "jobs-sequence", Contention: "medium", Properties: []string{"P5"}, Mechanism: "end-ahead-of-next"},
	},
	// Commands.
	{
		Name: "jobs-cancel-told", Chapter: inJobs,
		About: "a cancel is answered as done when it is asked for, and carried out later, or never",
		Note:  "nobody is told what becomes of it",
		Seen:  "202 Accepted shown as \"cancelled\"; a flag that workers look at between jobs",
		Red: &Red{Scenario: "jobs-kill-worker", Contention: "medium", Workload: "jobs-commands",
			Properties: []string{"P5"}, Mechanism: "command-not-carried-out"},
	},
	// Effects of jobs.
	{
		Name: "jobs-ack-before-effect", Chapter: inJobs,
		About: "effects are done in the background: a job is completed before them",
		Note:  "ttl/3 later",
		Seen:  "asynchronous producers without a flush; acknowledge first, work then",
		Red:   &Red{Scenario: "jobs-kill-worker", Contention: "medium", Properties: []string{"P4"}, Mechanism: "acknowledged-before-done"},
	},
	{
		Name: "jobs-effect-no-key", Chapter: inJobs,
		About: "effects carry no idempotency key",
		Seen:  "\"at least once\" and nothing else",
		Red:   &Red{Scenario: "jobs-late-finish", Contention: "medium", Properties: []string{"P4"}, Mechanism: "effects-without-key"},
	},
	{
		Name: "jobs-key-with-attempt", Chapter: inJobs,
		About: "the idempotency key contains the attempt: what an earlier one did is done again",
		Seen:  "`key = job id + attempt`: it guards resends, not reruns",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P4"}, Mechanism: "key-of-the-attempt"},
	},
	{
		Name: "jobs-wrong-issuer", Chapter: inJobs,
		About: "effects carry the highest run id of their process, of whatever shard",
		Seen:  "one epoch for the process instead of one for each lease",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P6"}, Mechanism: "one-token-for-all-shards"},
	},
	{
		Name: "jobs-one-issuer", Chapter: inJobs,
		About: "effects name one shard as the issuer of their tokens, whatever shard their job is in",
		Note:  "the sink binds the resource to it, and refuses the shard's own tokens for good",
		Seen:  "a constant where the owner's name belongs; the first writer of a row decides whose it is",
		Red:   &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P6"}, Mechanism: "issuer-of-another-shard"},
	},
}
