package system

import "fencepost/harness/record/verdict"

// shopVariants are mistakes of the shop, and of how processes end.
var shopVariants = []System{
	// Orders.
	{
		Name: broken + "orders-pay-before-fence", Chapter: inOrders,
		About: "an order is paid in a transaction of its own, by its key, before the fence is asked",
		Seen: "a payment provider's API, called before the result is written down; a key is not a fence: the order was " +
			"cancelled meanwhile",
		Red: &Red{Scenario: "orders-pause-worker", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P16"}, Mechanism: "paid-before-the-fence"},
	},
	{
		Name: broken + "orders-pay-by-run", Chapter: inOrders,
		About: "the idempotency key of a payment contains the run: what an earlier one has paid is paid again",
		Note:  "P4 fails too",
		Seen:  "a fresh UUID for each request to the provider",
		Red: &Red{Scenario: "orders-kill-worker", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P16"}, Mechanism: "paid-by-run"},
	},
	{
		Name: broken + "orders-stock-unversioned", Chapter: inOrders,
		About: "stock is written as computed from what was read, whatever its version is by then",
		Note:  "window: ttl/40",
		Seen:  "SELECT, subtract, UPDATE … WHERE id = ?",
		Red: &Red{Scenario: "orders-steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P17"}, Mechanism: "stock-overwritten"},
	},
	// Processes.
	{
		Name: broken + "dies-steady", Chapter: inProcesses,
		About: "a worker panics while it works: a table has room for 40 grants",
		Seen:  "an unchecked index, a nil map, an unhandled promise",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P18"}, Mechanism: "process-panics"},
	},
	{
		Name: broken + "dies-draining", Chapter: inProcesses,
		About: "workers panic while they end: a background task is told twice to end",
		Seen:  "\"close of closed channel\" in shutdown hooks, where no test looks",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P18"}, Mechanism: "process-panics-ending"},
	},
	{
		Name: broken + "exits-1", Chapter: inProcesses,
		About: "a worker exits with code 1 because of an error that passes",
		Seen:  "`log.Fatal` in a library; an exporter whose port is taken",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P18"}, Mechanism: "process-exits"},
	},
	{
		Name: broken + "never-ends", Chapter: inProcesses,
		About: "workers do not end after SIGTERM: they wait for a background task that nobody tells to end",
		Seen:  "pods that are killed after the grace period with every deployment",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P18"}, Mechanism: "process-never-ends"},
	},
}
