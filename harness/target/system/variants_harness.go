package system

import "fencepost/harness/record/verdict"

// harnessVariants are mistakes of the harness and its recorder.
var harnessVariants = []System{
	// The harness itself.
	inert("links", "cut links but never does", "partition", "links-not-cut"),
	inert("pause", "stopped workers but sends no signal", "pause-worker", "process-undisturbed"),
	inert("kill", "killed workers but sends no signal", "kill-worker", "process-undisturbed"),
	inert("suspend", "put machines to sleep but leaves their timers and processes alone", "suspend", "process-undisturbed"),
	inert("clock", "set clocks wrong but leaves them right", "clock-skew", "fault-did-not-bite"),
	inert("slow-job", "told a client to stay in its critical section but lets it go on", "slow-job", "fault-did-not-bite"),
	inert("latency", "delayed links but never does", "latency", "links-not-cut"),
	inert("replies", "dropped answers but lets them through", "lost-replies", "links-not-cut"),
	inert("node", "stopped nodes but sends no signal", "pause-node", "fault-did-not-bite"),
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
