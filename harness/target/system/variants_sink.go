package system

import "fencepost/harness/record/verdict"

// sinkVariants are mistakes of the sink.
var sinkVariants = []System{
	// The sink.
	{
		Name: broken + "sink-refuses-equal", Chapter: inSinks,
		About: "the sink demands a token above the highest seen, so a holder is refused its own write",
		Seen:  "`>` where `>=` is right",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P10"}, Mechanism: "sink-refuses-equal"},
	},
	{
		Name: broken + "sink-check-then-write", Chapter: inSinks,
		About: "the sink compares the token with what the holder read before, and then writes without a condition",
		Seen:  "SELECT, compare, UPDATE",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: verdict.Fail,
			Properties: []string{"P3", "P4"}, Mechanism: "sink-checks-what-was-read"},
	},
	{
		Name: broken + "sink-token-in-memory", Chapter: inSinks,
		About: "each process remembers the sink's highest token in its own memory",
		Seen:  "a cache in front of the store; lost on restart",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: verdict.Fail,
			Properties: []string{"P3"}, Mechanism: "sink-remembers-per-process"},
	},
	{
		Name: broken + "effect-key-per-send", Chapter: inSinks,
		About: "the idempotency key contains the number of the send: a resend is another effect",
		Seen:  "key of the attempt instead of the operation",
		Red: &Red{Scenario: "sink-lost-replies", Contention: "high", Verdict: verdict.Fail,
			Properties: []string{"P4"}, Mechanism: "resend-is-another-effect"},
	},
	{
		Name: broken + "sink-forges-ledger", Chapter: inSinks, BrokenSink: "forges-ledger",
		About: "the sink's service takes effects whatever their token, and writes the highest that it has seen into its ledger",
		Note:  "`SINK=http`",
		Seen:  "the audit log is written from the state, not from the request",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: verdict.Fail,
			Properties: []string{"P4"}, Mechanism: "ledger-forged"},
	},
	{
		Name: broken + "no-raise", Chapter: inSinks,
		About: "a holder does not raise its token before it reads what it acts on",
		Note:  "a client that took a lease over is slow, 7/8 ttl",
		Seen:  "the fence is only compared on write",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: verdict.Fail,
			Properties: []string{"P4"}, Mechanism: "raise-not-done"},
	},
}
