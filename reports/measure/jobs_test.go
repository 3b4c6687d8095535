package measure

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/record/history"
)

// TestJobSpans: the wait for a job's first run counts from its first enqueue, unless it
// is due later; a run counts from its start to its end, and what never ended does not.
func TestJobSpans(t *testing.T) {
	t.Parallel()
	const s0, s1 = "shard/q/0", "shard/q/1"
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	ask := func(at, id int64, key string, due int64) []history.Event {
		e := history.Event{TS: ms(at), Proc: "w1.1/e1", ID: id, Type: history.Invoke, Op: history.OpEnqueue, Key: key,
			Details: &history.Details{Job: &history.Job{Queue: "q", Shard: s0, Kind: "k", MaxAttempts: 3, DueMS: due}}}
		end := e
		end.TS, end.Type, end.Details, end.Result = ms(at+1), history.OK, nil, "applied"
		return []history.Event{e, end}
	}
	note := func(at int64, op history.Op, key, issuer string, token int64, attempt int, failed string) history.Event {
		return history.Event{TS: ms(at), Proc: "w2.1/r1", Type: history.Note, Op: op, Key: key, Issuer: issuer, Token: token,
			Details: &history.Details{Attempt: attempt}, Error: failed}
	}
	h := &history.History{}
	h.Events = append(h.Events, ask(10, 1, "a", 0)...)
	h.Events = append(h.Events, ask(20, 2, "a", 0)...) // again
	h.Events = append(h.Events, ask(30, 3, "later", 99)...)
	h.Events = append(h.Events,
		note(40, history.NoteStart, "a", s0, 7, 1, ""),
		note(41, history.NoteStart, "later", s1, 7, 1, ""), // another shard's run of the same number
		note(50, history.NoteFinish, "a", s0, 7, 0, "it failed"),
		note(61, history.NoteFinish, "later", s1, 7, 0, ""),
		note(70, history.NoteStart, "a", s0, 8, 2, ""), // never ends
		history.Event{TS: ms(80), Proc: "w3.1/c1", Type: history.Note, Op: history.NoteStart, Key: "lock", Token: 1},
	)
	a, err := Analyze(h)
	must(t, err)
	start := a.Latencies.Of(OpStart, AllPhases)
	if start.OK != 1 || start.Count() != 1 || start.P50 < 30*time.Millisecond || start.P50 > 31*time.Millisecond {
		t.Errorf("waits: %+v, want one of 30 ms", start)
	}
	run := a.Latencies.Of(OpRun, AllPhases)
	if run.OK != 1 || run.Fail != 1 || run.Unknown != 0 || run.P50 < 20*time.Millisecond || run.P50 > 21*time.Millisecond {
		t.Errorf("runs: %+v, want one of 20 ms and one that failed", run)
	}
	if enq := a.Latencies.Of(history.OpEnqueue, AllPhases); enq.OK != 3 {
		t.Errorf("enqueues: %+v", enq)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
