package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain doubles as a process that must not write much.
func TestMain(m *testing.M) {
	if file := os.Getenv(limitedEnv); file != "" {
		os.Exit(recordLimited(file))
	}
	goleak.VerifyTestMain(m)
}

// everyEvent has a worker's events of each operation, end and note, with all fields set
// that belong to it, in the order in which they are recorded.
func everyEvent(proc string) []Event {
	v := func(fence, beat int64, holder string) *Version {
		return &Version{Fence: fence, Beat: beat, Attempt: "0d9a6c1e-5f6b-4a39-8a3f-4d0a2f3c7b11", Holder: holder, TTLMS: 6000}
	}
	n, zero := int64(7), int64(0)
	absent := &Version{Absent: true}
	client := proc + "/c1"
	return []Event{
		{Proc: proc, Type: Note, Op: NoteStatement, Details: &Details{Statement: &Statement{CQL: "UPDATE …", Consistency: "QUORUM", SerialConsistency: "SERIAL"}}},
		{Proc: client, ID: 1, Type: Invoke, Op: OpLock, Key: "l"},
		{Proc: client, ID: 2, Type: Invoke, Op: OpAcquire, Key: "l", From: absent, To: v(1, 0, client), Takeover: true},
		{Proc: client, ID: 2, Type: OK, Op: OpAcquire, Key: "l", Sends: []int64{5, 6}},
		{Proc: client, ID: 1, Type: OK, Op: OpLock, Key: "l", Token: 1},
		{Proc: client, ID: 3, Type: Invoke, Op: OpRaise, Key: "r", Issuer: "l", Token: 1},
		{Proc: client, ID: 3, Type: OK, Op: OpRaise, Key: "r", Issuer: "l", Token: 1, Result: "applied", Seen: 1, Seq: 1},
		{Proc: client, ID: 4, Type: Invoke, Op: OpGet, Key: "r"},
		{Proc: client, ID: 4, Type: OK, Op: OpGet, Key: "r", Value: &zero, Seen: 1, Seq: 1},
		{Proc: client, Type: Note, Op: NoteStart, Key: "l", Token: 1, DecidedAt: 9},
		{Proc: client, Type: Note, Op: NotePoint, Details: &Details{Point: "holding"}, Key: "l", Token: 1},
		{Proc: client, ID: 5, Type: Invoke, Op: OpRenew, Key: "l", From: v(1, 0, client), To: v(1, 1, client)},
		{Proc: client, ID: 5, Type: Unknown, Op: OpRenew, Key: "l", Sends: []int64{5}, Error: "timeout", ServerTimeout: true},
		{Proc: client, ID: 6, Type: Invoke, Op: OpRead, Key: "l"},
		{Proc: client, ID: 6, Type: OK, Op: OpRead, Key: "l", Row: v(1, 1, client), Sends: []int64{5}},
		{Proc: client, ID: 7, Type: Invoke, Op: OpEffect, Key: "r", Issuer: "l", Token: 1, EffectKey: "k", Value: &n, DecidedAt: 9},
		{Proc: client, ID: 7, Type: Fail, Op: OpEffect, Key: "r", Issuer: "l", Token: 1, EffectKey: "k", Result: "stale", Seen: 2},
		{Proc: client, Type: Note, Op: NoteFinish, Key: "l", Token: 1},
		{Proc: client, Type: Note, Op: NoteLeaseLost, Key: "l", Token: 1, Error: "deadline"},
		{Proc: client, ID: 8, Type: Invoke, Op: OpRelease, Key: "l", From: v(1, 1, client), To: v(1, 2, "")},
		{Proc: client, ID: 8, Type: Fail, Op: OpRelease, Key: "l", Row: v(2, 0, "w2.1/c1"), Sends: []int64{5}},
		{Proc: proc + "/q:0", ID: 9, Type: Invoke, Op: OpTake, Key: "shard/q/0", From: &Version{Attempt: "n0"}, To: &Version{Fence: 1, Beat: 1, Attempt: "n1"}, Details: &Details{TTLMS: 6000}},
		{Proc: proc + "/q:0", ID: 9, Type: OK, Op: OpTake, Key: "shard/q/0", Sends: []int64{5}},
		{Proc: proc + "/e1", ID: 10, Type: Invoke, Op: OpEnqueue, Key: "0-ab", Details: &Details{Job: &Job{
			Queue: "q", Shard: "shard/q/0", Kind: "effects", Resource: "job/q/0-ab", Steps: []string{"s1"}, DueMS: 1000, MaxAttempts: 5, AtMostOnce: true,
			Then: []Job{{Queue: "q", Shard: "shard/q/0", Kind: "effects", MaxAttempts: 5, GoOn: true}},
		}}},
		{Proc: proc + "/q:0", ID: 11, Type: Invoke, Op: OpTick, Key: "shard/q/0", From: &Version{Fence: 1, Beat: 1, Attempt: "n1"}, To: &Version{Fence: 1, Beat: 2, Attempt: "n2"}, Details: &Details{Changes: []Change{
			{Job: "0-ab", Do: DoEnqueue, DueMS: 1000}, {Job: "0-cd", Do: DoClaim, Run: 1<<32 | 1, Attempt: 1}, {Job: "0-ef", Do: DoSweep}, {Job: "0-fa", Do: DoRedrive, DueMS: 2000},
		}}},
		{Proc: proc + "/q:0", ID: 11, Type: Fail, Op: OpTick, Key: "shard/q/0", Row: &Version{Fence: 2, Beat: 2, Attempt: "n3"}, Sends: []int64{5}},
		{Proc: proc + "/e1", ID: 10, Type: OK, Op: OpEnqueue, Key: "0-ab", Result: "inbox"},
		{Proc: proc + "/r1", Type: Note, Op: NoteStart, Key: "0-cd", Issuer: "shard/q/0", Token: 1<<32 | 1, Details: &Details{Attempt: 1, DueMS: 900, WallMS: 901}, DecidedAt: 9},
		{Proc: proc + "/r1", Type: Note, Op: NoteFinish, Key: "0-cd", Issuer: "shard/q/0", Token: 1<<32 | 1, Error: "it failed"},
		{Proc: proc + "/q:0", ID: 12, Type: Invoke, Op: OpHandOver, Key: "shard/q/0", From: &Version{Fence: 1, Beat: 2, Attempt: "n2"}, To: &Version{Fence: 1, Beat: 3, Attempt: "n4"}},
		{Proc: proc + "/r2", ID: 13, Type: Invoke, Op: OpUpdate, Key: "lock/q/0-ab", Details: &Details{Changes: []Change{{Job: "0-ab", Do: DoComplete, Run: 7, Attempt: 1}}}},
		{Proc: proc + "/r2", ID: 13, Type: OK, Op: OpUpdate, Key: "lock/q/0-ab"},
		{Proc: proc + "/s1", ID: 14, Type: Invoke, Op: OpSchedule, Key: "every", Details: &Details{Schedule: &Schedule{
			Queue: "q", Shard: "shard/q/0", Do: DoPut, EveryMS: 1000, WindowMS: 60_000, Job: &Job{Queue: "q", Shard: "shard/q/0", Kind: "effects", MaxAttempts: 5},
		}}},
		{Proc: proc + "/q:0", ID: 15, Type: Invoke, Op: OpTick, Key: "shard/q/0", From: &Version{Fence: 1, Beat: 3, Attempt: "n4"}, To: &Version{Fence: 1, Beat: 4, Attempt: "n5"}, Details: &Details{WallMS: 5000, Changes: []Change{
			{Do: DoPut, Schedule: "every", LastMS: 999}, {Job: "0-ab", Do: DoEnqueue, DueMS: 1000, Schedule: "every", NominalMS: 1000}, {Job: "0-cd", Do: DoEnqueue, DueMS: 1000, After: "0-ab"}, {Do: DoFire, Schedule: "other", LastMS: 4000, Missed: 2}, {Do: DoDisable, Schedule: "third", LastMS: 7}, {Do: DoPause},
		}}},
		{Proc: proc + "/s1", ID: 14, Type: OK, Op: OpSchedule, Key: "every", Result: "applied"},
		{Proc: proc + "/e1", ID: 16, Type: Invoke, Op: OpEnqueue, Key: "0-ac", Details: &Details{Job: &Job{
			Queue: "q", Shard: "shard/q/0", Kind: OrderReserve, Steps: []string{"reserve o"}, May: []string{"reject o"}, MaxAttempts: 5, Order: &Order{ID: "o", Item: "tea", Quantity: 2, Cents: 500},
		}}},
		{Proc: proc, Type: Note, Op: NoteExit, Error: "none"},
	}
}

// harnessEvent has those of the harness.
func harnessEvent() []Event {
	n := int64(7)
	return []Event{
		{Proc: Harness, Type: Note, Op: NoteExpect, Details: &Details{Expect: &Expect{
			MinCycles: map[string]int{"before": 3}, Faults: []string{"f1"}, Must: []string{"takeover"}, Sometimes: []string{"duplicate"}, Exempt: map[string]string{"P11": "nothing dies"}, RowsEnd: true, Workers: 2, RecoveryBoundMS: 4000, DrainBoundMS: 30_000,
			Thresholds: []Threshold{{Latency: "lock", Quantile: "p99", Phase: "fault", TimesBefore: 2.5}, {Recovery: "slowest", MaxMS: 900}, {Lateness: "p99", MaxMS: 1}},
			Progress:   []Progress{{Fault: "partition", Group: GroupOthers, MinCycles: 4, LongestGapMS: 13_500}, {Fault: AnyFault, LongestGapMS: 1}}, Nodes: 3,
			Success: []Success{{Phase: "fault", Workers: []string{"w1"}, Want: None}, {Fault: "partition", Group: GroupOthers, Want: Some}, {Phase: "heal", Want: Some}},
		}}},
		{Proc: Harness, Type: Note, Op: NotePhase, Details: &Details{Phase: "warmup"}},
		{Proc: Harness, Type: Note, Op: NoteFault, Details: &Details{Fault: &Fault{ID: "f1", Name: "partition", Action: ActionInject, Targets: []string{"n1"}, Trigger: "holding", DelayMS: 450}}},
		{Proc: Harness, Type: Note, Op: NoteFault, Details: &Details{Fault: &Fault{ID: "f1", Name: "partition", Action: ActionEvidence, Proven: true, Text: "3 requests held"}}},
		{Proc: Harness, Type: Note, Op: NoteFault, Details: &Details{Fault: &Fault{ID: "f1", Name: "partition", Action: ActionHeal}}},
		{Proc: "w1.1", Type: Note, Op: NoteClock, Details: &Details{Clock: &Clock{OffsetMS: -5000, RatePPM: -10_000, Suspended: true}}},
		{Proc: Harness, Type: Note, Op: NoteHost, Details: &Details{Host: &Host{Phase: "warmup", LagP50MS: 0.1, LagP99MS: 12.5, LagMaxMS: 40, Steal: 0.02, Cold: true}}},
		{Proc: "w1.1", Type: Note, Op: NoteCrash, Error: "SIGKILL by f1"},
		{Proc: Harness, ID: 1, Type: Invoke, Op: OpSeal, Key: "l", From: &Version{Fence: 2, Attempt: "a", Holder: "w2.1/c1"}, To: &Version{Fence: 3, Attempt: "b"}},
		{Proc: Harness, ID: 1, Type: OK, Op: OpSeal, Key: "l", Sends: []int64{5}},
		{Proc: Harness, Type: Note, Op: NoteLedger, Key: "r", Details: &Details{Ledger: &LedgerEntry{Seq: 1, Kind: LedgerRaise, Issuer: "l", Token: 1}}},
		{Proc: Harness, Type: Note, Op: NoteLedger, Key: "r", Details: &Details{Ledger: &LedgerEntry{Seq: 2, Kind: LedgerAccept, Issuer: "l", Token: 1, EffectKey: "k", Value: &n, At: 7}}},
		{Proc: Harness, Type: Note, Op: NoteAnswer, Key: "r", Issuer: "l", Token: 1, EffectKey: "k", Value: &n, Result: "stale", Seen: 2, Seq: 2, Details: &Details{Asked: &Asked{Op: OpEffect, Worker: "w1", Sent: 5}}},
		{Proc: Harness, Type: Note, Op: NoteAnswer, Key: "r", Error: "no answer", Details: &Details{Asked: &Asked{Op: OpGet, Worker: "w1", Sent: 5}}},
		{Proc: Harness, Type: Note, Op: NoteHit, Key: "l", Details: &Details{Point: "effect-sent", Hit: &Hit{Proc: "w1.1/c1", ID: 7, Go: 9, Sent: 10}}},
		{Proc: Harness, Type: Note, Op: NoteWitness, Key: WitnessStatements, Error: "w1->n1: it is compressed"},
		{Proc: Harness, Type: Note, Op: NoteStatement, Key: "w1", Details: &Details{Statement: &Statement{CQL: "UPDATE …", Consistency: "QUORUM", SerialConsistency: "SERIAL"}}},
		{Proc: Harness, Type: Note, Op: NoteRow, Key: "0-cd", Issuer: "shard/q/0", Details: &Details{JobRow: &JobRow{Kind: RowJob, State: "completed", Attempt: 1, Run: 1<<32 | 1, DueMS: 900, EndedMS: 950}}},
		{Proc: Harness, Type: Note, Op: NoteBook, Details: &Details{Book: &Book{Table: BookMove, Item: "tea", Version: 2, Delta: -2, Quantity: 8, Order: "o"}}},
		{Proc: Harness, Type: Note, Op: NoteBook, Details: &Details{Book: &Book{Table: BookOrder, Order: "o", Item: "tea", Quantity: 2, Cents: 500, State: OrderPaid}}},
		{Proc: Harness, Type: Note, Op: NoteBook, Details: &Details{Book: &Book{Table: BookPayment, Order: "o", Cents: 500, Token: 7}}},
		{Proc: Harness, Type: Note, Op: NoteBook, Details: &Details{Book: &Book{Table: BookEnd}}},
		{Proc: Harness, Type: Note, Op: NoteLife, Details: &Details{Life: &ProcessLife{
			Kind: LifeWorker, Name: "w2.1", PID: 41, Asked: "SIGTERM", By: Runner, Overdue: "did not end within 25s of SIGTERM", Signal: "SIGKILL", TookMS: 25_010, BoundMS: 25_000,
			Log: []string{"SIGQUIT: quit", ""}, LogFile: "w2.1.log", File: "w2.1.jsonl", Bytes: 120, SHA256: strings.Repeat("0f", 32),
		}}},
		{Proc: Harness, Type: Note, Op: NoteLife, Details: &Details{Life: &ProcessLife{Kind: LifeNode, Name: "n1", Running: true}}},
		{Proc: Harness, Type: Note, Op: NoteLife, Details: &Details{Life: &ProcessLife{Kind: LifeProgram, Name: "w3.1", Code: new(int)}}},
		{Proc: Harness, Type: Note, Op: NoteRowsEnd, Issuer: "shard/q/0"},
	}
}

// record writes events with a real Recorder and returns the file.
func record(t testing.TB, header Header, events []Event) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "history.jsonl")
	r, err := NewRecorder(name, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		r.Record(e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}
