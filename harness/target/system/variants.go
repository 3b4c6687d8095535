package system

import (
	"cmp"
	"slices"

	"fencepost/harness/record/verdict"
)

const broken = "broken/"

// variants are the known-broken ones, in the order in which they are listed. What one
// plants is the hook of its name in package broken.
var variants = complete(red(slices.Concat(lockVariants, sinkVariants, jobVariants, apiVariants, shopVariants, harnessVariants)))

// red adds what most rows leave out: FAIL.
func red(rows []System) []System {
	for _, v := range rows {
		v.Red.Verdict = cmp.Or(v.Red.Verdict, verdict.Fail)
	}
	return rows
}

// complete adds what follows from where the mistake is. One that is not the harness's is in
// a worker of its own.
func complete(rows []System) []System {
	for i := range rows {
		v := &rows[i]
		v.Binary = cmp.Or(v.Binary, "worker")
		if v.Inert == "" && v.MissingWorkers == 0 && v.BrokenSink == "" {
			v.Binary, v.Variant = "worker-broken", v.Name
		}
		v.Name = broken + v.Name
	}
	return rows
}

// Chapters of docs/known-broken.md.
const (
	inLocks     = "locks"
	inSinks     = "sinks"
	inJobs      = "jobs"
	inOrders    = "orders"
	inProcesses = "processes"
	inHarness   = "harness"
)

// sinkVariants are mistakes of the sink.
var sinkVariants = []System{
	// The sink.
	{
		Name: "sink-refuses-equal", Chapter: inSinks,
		About: "the sink demands a token above the highest seen, so a holder is refused its own write",
		Seen:  "`>` where `>=` is right",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P10"}, Mechanism: "sink-refuses-equal"},
	},
	{
		Name: "sink-locked-is-done", Chapter: inSinks, Sink: "postgres",
		About: "an effect whose row is locked is taken for done: somebody is writing it",
		Seen:  "SELECT … FOR UPDATE SKIP LOCKED, where no row is read as nothing to do",
		Red:   &Red{Scenario: "sink-row-locks", Contention: "medium", Properties: []string{"P4"}, Mechanism: "acknowledged-before-done"},
	},
	{
		Name: "sink-cancelled-is-done", Chapter: inSinks, Sink: "postgres",
		About: "an effect whose statement the server ended as it took too long (57014) is taken for done: it ran",
		Seen:  "a timeout that is logged and swallowed; a batch that goes on after \"canceling statement\"",
		Red:   &Red{Scenario: "sink-statement-timeout", Contention: "medium", Properties: []string{"P4"}, Mechanism: "acknowledged-before-done"},
	},
	{
		Name: "sink-conflict-is-done", Chapter: inSinks, Sink: "postgres",
		About: "an effect whose row has changed since its transaction began (40001) is taken for done: somebody has written it",
		Seen:  "serialization failures handled like violated unique keys",
		Red:   &Red{Scenario: "sink-isolation", Contention: "medium", Properties: []string{"P4"}, Mechanism: "acknowledged-before-done"},
	},
	{
		Name: "sink-check-then-write", Chapter: inSinks,
		About: "the sink compares the token with what the holder read before, and then writes without a condition",
		Seen:  "SELECT, compare, UPDATE",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P3", "P4"}, Mechanism: "sink-checks-what-was-read"},
	},
	{
		Name: "sink-token-in-memory", Chapter: inSinks,
		About: "each process remembers the sink's highest token in its own memory",
		Seen:  "a cache in front of the store; lost on restart",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P3"}, Mechanism: "sink-remembers-per-process"},
	},
	{
		Name: "effect-key-per-send", Chapter: inSinks,
		About: "the idempotency key contains the number of the send: a resend is another effect",
		Seen:  "key of the attempt instead of the operation",
		Red:   &Red{Scenario: "sink-lost-replies", Contention: "high", Properties: []string{"P4"}, Mechanism: "resend-is-another-effect"},
	},
	{
		Name: "sink-forges-ledger", Chapter: inSinks, BrokenSink: "forges-ledger",
		About: "the sink's service takes effects whatever their token, and writes the highest that it has seen into its ledger",
		Note:  "`SINK=http`",
		Seen:  "the audit log is written from the state, not from the request",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P4"}, Mechanism: "ledger-forged"},
	},
	{
		Name: "sink-keys-in-two-steps", Chapter: inSinks, BrokenSink: "keys-in-two-steps",
		About: "the sink's service looks for a key in one transaction and writes the effect in another",
		Note:  "`SINK=http`; 20 ms lie between",
		Seen:  "SELECT … WHERE idempotency_key = ?, then INSERT, without a unique index",
		Red:   &Red{Scenario: "sink-doubled-uploads", Contention: "medium", Properties: []string{"P4"}, Mechanism: "resend-is-another-effect"},
	},
	{
		Name: "sink-decides-by-headers", Chapter: inSinks, BrokenSink: "decides-by-headers",
		About: "the sink's service decides when the headers of an effect have come, and writes when its body has",
		Note:  "`SINK=http`",
		Seen:  "middleware that checks tokens and keys before the handler reads the body",
		Red:   &Red{Scenario: "sink-slow-uploads", Contention: "medium", Properties: []string{"P3", "P4"}, Mechanism: "resend-is-another-effect"},
	},
	{
		Name: "sink-forgets-all", Chapter: inSinks, BrokenSink: "forgets-all",
		About: "the sink's service forgets keys and drops entries of its ledger whatever their age, when it is told to forget old ones",
		Note:  "`SINK=http`",
		Seen:  "a clean-up job whose `created_at < ?` is lost in a refactoring, or compares seconds with milliseconds",
		Red:   &Red{Scenario: "forget-pause-worker", Contention: "medium", Properties: []string{"P4"}, Mechanism: "forgotten-too-much"},
	},
	{
		Name: "sink-trusts-any-answer", Chapter: inSinks, Sink: "http",
		About: "a client takes any decision that comes for the one that it asked for",
		Seen:  "a cache that leaves the idempotency key out of its key; responses mixed up on a shared connection",
		Red:   &Red{Scenario: "sink-answering-proxy", Contention: "medium", Properties: []string{"P4"}, Mechanism: "answer-made-up"},
	},
	{
		Name: "no-raise", Chapter: inSinks,
		About: "a holder does not raise its token before it reads what it acts on",
		Note:  "a client that took a lease over is slow, 7/8 ttl",
		Seen:  "the fence is only compared on write",
		Red:   &Red{Scenario: "pause-worker", Contention: "high", Properties: []string{"P4"}, Mechanism: "raise-not-done"},
	},
}

// shopVariants are mistakes of the shop, and of how processes end.
var shopVariants = []System{
	// Orders.
	{
		Name: "orders-pay-before-fence", Chapter: inOrders,
		About: "an order is paid in a transaction of its own, by its key, before the fence is asked",
		Seen: "a payment provider's API, called before the result is written down; a key is not a fence: the order was " +
			"cancelled meanwhile",
		Red: &Red{Scenario: "orders-pause-worker", Contention: "medium", Properties: []string{"P16"}, Mechanism: "paid-before-the-fence"},
	},
	{
		Name: "orders-pay-by-run", Chapter: inOrders,
		About: "the idempotency key of a payment contains the run: what an earlier one has paid is paid again",
		Note:  "P4 fails too",
		Seen:  "a fresh UUID for each request to the provider",
		Red:   &Red{Scenario: "orders-kill-worker", Contention: "medium", Properties: []string{"P16"}, Mechanism: "paid-by-run"},
	},
	{
		Name: "orders-stock-unversioned", Chapter: inOrders,
		About: "stock is written as computed from what was read, whatever its version is by then",
		Note:  "window: ttl/40",
		Seen:  "SELECT, subtract, UPDATE … WHERE id = ?",
		Red:   &Red{Scenario: "orders-steady", Contention: "medium", Properties: []string{"P17"}, Mechanism: "stock-overwritten"},
	},
	// Processes.
	{
		Name: "dies-steady", Chapter: inProcesses,
		About: "a worker panics while it works: a table has room for 40 grants",
		Seen:  "an unchecked index, a nil map, an unhandled promise",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P18"}, Mechanism: "process-panics"},
	},
	{
		Name: "dies-draining", Chapter: inProcesses,
		About: "workers panic while they end: a background task is told twice to end",
		Seen:  "\"close of closed channel\" in shutdown hooks, where no test looks",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P18"}, Mechanism: "process-panics-ending"},
	},
	{
		Name: "exits-1", Chapter: inProcesses,
		About: "a worker exits with code 1 because of an error that passes",
		Seen:  "`log.Fatal` in a library; an exporter whose port is taken",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P18"}, Mechanism: "process-exits"},
	},
	{
		Name: "never-ends", Chapter: inProcesses,
		About: "workers do not end after SIGTERM: they wait for a background task that nobody tells to end",
		Seen:  "pods that are killed after the grace period with every deployment",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P18"}, Mechanism: "process-never-ends"},
	},
	{
		Name: "leaks", Chapter: inProcesses,
		About: "each fifth grant leaves an open file, a goroutine that waits for it and 200 KB behind",
		Note:  "no promise about locks or jobs is broken, until a limit of the machine is reached",
		Seen:  "a response body that nobody closes; a timer for each request that nobody stops",
		Red:   &Red{Scenario: "flat", Contention: "medium", Properties: []string{"P15"}, Mechanism: "process-grows"},
	},
	{
		Name: "jobs-leaks", Chapter: inProcesses,
		About: "each fifth run of a job leaves the same behind",
		Seen:  "a job that starts a task and returns when it is cancelled, and the task waits",
		Red:   &Red{Scenario: "jobs-flat", Contention: "medium", Properties: []string{"P15"}, Mechanism: "process-grows"},
	},
}

// harnessVariants are mistakes of the harness and its recorder.
var harnessVariants = []System{
	// The harness itself.
	inert("links", "cut links but never does", "partition", "links-not-cut"),
	inert("pause", "stopped workers but sends no signal", "pause-worker", "process-undisturbed"),
	inert("kill", "killed workers but sends no signal", "kill-worker", "process-undisturbed"),
	inert("suspend", "put machines to sleep but leaves their timers and processes alone", "suspend", "process-undisturbed"),
	inert("clock", "set clocks wrong but leaves them right", "clock-skew", "fault-did-not-bite"),
	inertOn("redis", "redis-set", inert("server-clock", "set the clocks of servers wrong but leaves them right", "server-clock-jump", "fault-did-not-bite")),
	inert("slow-job", "told a client to stay in its critical section but lets it go on", "slow-job", "fault-did-not-bite"),
	inert("latency", "delayed links but never does", "latency", "links-not-cut"),
	inert("replies", "dropped answers but lets them through", "lost-replies", "links-not-cut"),
	inert("node", "stopped nodes but sends no signal", "pause-node", "fault-did-not-bite"),
	inert("rows", "locked the rows of the sink but locks none", "sink-row-locks", "fault-did-not-bite"),
	inert("load", "had workers enqueue more than can be done but tells them nothing", "jobs-overload", "fault-did-not-bite"),
	inert("queues", "gave queues more shards but gives them none", "jobs-reshard", "fault-did-not-bite"),
	inert("proxy", "told the proxy before the sink to answer by itself but lets it pass all on", "sink-answering-proxy", "fault-did-not-bite"),
	inert("sink", "killed the sink's process but sends no signal", "kill-sink", "fault-did-not-bite"),
	{
		Name: "harness-worker-missing", Chapter: inHarness, MissingWorkers: 1,
		About: "the harness starts one worker fewer than the scenario says",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "worker-missing"},
	},
	{
		Name: "harness-ledger-reset", Chapter: inHarness,
		About: "a resource of the sink is emptied, ledger and all, in the middle of the run",
		Red:   &Red{Scenario: "steady", Contention: "medium", Properties: []string{"P4"}, Mechanism: "ledger-emptied"},
	},
	{
		Name: "recorder-drops", Chapter: inHarness,
		About: "the recorder loses every 50th operation",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "calls-missing"},
	},
	{
		Name: "recorder-late-calls", Chapter: inHarness,
		About: "the recorder dates calls of lock operations when their answers are there",
		Red: &Red{Scenario: "steady", Contention: "low", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "calls-dated-late"},
	},
	{
		Name: "recorder-unknown-fail", Chapter: inHarness,
		About: "the recorder writes down an unknown outcome as a failure",
		Red:   &Red{Scenario: "lost-replies", Contention: "medium", Properties: []string{"P2"}, Mechanism: "unknown-recorded-as-failed"},
	},
}

// inert is a harness that says that it did something and did not: faults of the family are
// never put in force.
func inert(family, did, scenario, mechanism string) System {
	return System{
		Name: "harness-" + family + "-inert", Chapter: inHarness, Inert: family, About: "the harness says that it " + did,
		Red: &Red{Scenario: scenario, Contention: "medium", Verdict: verdict.Invalid, Properties: []string{"P14"}, Mechanism: mechanism},
	}
}

// inertOn is one whose faults are of a store's servers, with a lock there.
func inertOn(store, lock string, v System) System {
	on := onStore(v.Name, store, v.About)
	v.Store, v.Binary, v.Command, v.Note = on.Store, on.Binary, []string{lock}, "`STORE="+store+"`"
	return v
}
