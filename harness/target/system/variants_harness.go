package system

import "fencepost/harness/record/verdict"

// harnessVariants are mistakes of the harness and its recorder.
var harnessVariants = []System{
	// The harness itself.
	{
		Name: broken + "harness-links-inert", Chapter: inHarness, Inert: "links",
		About: "the harness says that it cut links but never does",
		Red: &Red{Scenario: "partition", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-pause-inert", Chapter: inHarness, Inert: "pause",
		About: "the harness says that it stopped workers but sends no signal",
		Red: &Red{Scenario: "pause-worker", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-kill-inert", Chapter: inHarness, Inert: "kill",
		About: "the harness says that it killed workers but sends no signal",
		Red: &Red{Scenario: "kill-worker", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-suspend-inert", Chapter: inHarness, Inert: "suspend",
		About: "the harness says that it put machines to sleep but leaves their timers and processes alone",
		Red: &Red{Scenario: "suspend", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "process-undisturbed"},
	},
	{
		Name: broken + "harness-clock-inert", Chapter: inHarness, Inert: "clock",
		About: "the harness says that it set clocks wrong but leaves them right",
		Red: &Red{Scenario: "clock-skew", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-slow-job-inert", Chapter: inHarness, Inert: "slow-job",
		About: "the harness says that it told a client to stay in its critical section but lets it go on",
		Red: &Red{Scenario: "slow-job", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-latency-inert", Chapter: inHarness, Inert: "latency",
		About: "the harness says that it delayed links but never does",
		Red: &Red{Scenario: "latency", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-replies-inert", Chapter: inHarness, Inert: "replies",
		About: "the harness says that it dropped answers but lets them through",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "links-not-cut"},
	},
	{
		Name: broken + "harness-node-inert", Chapter: inHarness, Inert: "node",
		About: "the harness says that it stopped nodes but sends no signal",
		Red: &Red{Scenario: "pause-node", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-sink-inert", Chapter: inHarness, Inert: "sink",
		About: "the harness says that it killed the sink's process but sends no signal",
		Red: &Red{Scenario: "kill-sink", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "fault-did-not-bite"},
	},
	{
		Name: broken + "harness-worker-missing", Chapter: inHarness, MissingWorkers: 1,
		About: "the harness starts one worker fewer than the scenario says",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "worker-missing"},
	},
	{
		Name: broken + "harness-ledger-reset", Chapter: inHarness,
		About: "a resource of the sink is emptied, ledger and all, in the middle of the run",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P4"}, Mechanism: "ledger-emptied"},
	},
	{
		Name: broken + "recorder-drops", Chapter: inHarness,
		About: "the recorder loses every 50th operation",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "calls-missing"},
	},
	{
		Name: broken + "recorder-late-calls", Chapter: inHarness,
		About: "the recorder dates calls of lock operations when their answers are there",
		Red: &Red{Scenario: "steady", Contention: "low", Verdict: verdict.Invalid,
			Properties: []string{"P14"}, Mechanism: "calls-dated-late"},
	},
	{
		Name: broken + "recorder-unknown-fail", Chapter: inHarness,
		About: "the recorder writes down an unknown outcome as a failure",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: verdict.Fail,
			Properties: []string{"P2"}, Mechanism: "unknown-recorded-as-failed"},
	},
}
