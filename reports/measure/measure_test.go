package measure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

const sec = int64(time.Second)

// script builds a history event by event.
type script struct {
	h   history.History
	ids map[string]int64
	row *history.Version // what the last acquire sets
}

func newScript() *script {
	return &script{h: history.History{Headers: []history.Header{{DriftBound: 0.01, MarginBaseMS: 100}}}, ids: map[string]int64{}}
}

func (s *script) note(ts int64, proc string, e history.Event) {
	e.TS, e.Proc, e.Type = ts, proc, history.Note
	s.h.Events = append(s.h.Events, e)
}

func (s *script) phase(ts int64, name string) {
	s.note(ts, "harness", history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}})
}

// op adds an operation; end 0 leaves it without an end.
func (s *script) op(from, end int64, typ history.Type, e history.Event) {
	life := history.Life(e.Proc)
	s.ids[life]++
	inv := e
	inv.TS, inv.Type, inv.ID, inv.Sends, inv.Row = from, history.Invoke, s.ids[life], nil, nil
	s.h.Events = append(s.h.Events, inv)
	if end == 0 {
		return
	}
	fin := history.Event{TS: end, Type: typ, ID: inv.ID, Proc: e.Proc, Op: e.Op, Key: e.Key, Sends: e.Sends, Row: e.Row, Result: e.Result,
		Token: e.Token}
	s.h.Events = append(s.h.Events, fin)
}

func ver(fence, beat int64, attempt, holder string) *history.Version {
	return &history.Version{Fence: fence, Beat: beat, Attempt: attempt, Holder: holder, TTLMS: 6000}
}

func (s *script) acquire(from, end int64, typ history.Type, proc string, fence int64, takeover bool) {
	was := s.row
	if was == nil || was.Fence != fence-1 {
		was = ver(fence-1, 0, fmt.Sprint("v", fence-1), "x")
	}
	s.row = ver(fence, 0, fmt.Sprint("v", fence), proc)
	s.op(from, end, typ, history.Event{Proc: proc, Op: history.OpAcquire, Key: "a", Takeover: takeover, Sends: []int64{from + 1}, From: was,
		To: s.row})
}

// must ends the test at an error that it is not about.
func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func analyze(t *testing.T, s *script) *Analysis {
	t.Helper()
	h, err := history.Merge(&s.h)
	must(t, err)
	a, err := Analyze(h)
	must(t, err)
	return a
}

// margin of a TTL of 6 s: 2 x 1 % x 6 s + 100 ms.
const margin = 220 * int64(time.Millisecond)

func TestGrantEnds(t *testing.T) {
	t.Parallel()
	deadline := 10*sec + 1 + 6*sec - margin
	for _, tc := range []struct {
		name  string
		more  func(s *script)
		to    int64
		by    string
		until int64 // of the row
	}{
		{"nothing more: the deadline", func(s *script) { s.note(30*sec, "harness", history.Event{Op: history.NotePhase}) }, deadline,
			EndedDeadline, 30 * sec},
		{"released", func(s *script) {
			s.op(12*sec, 13*sec, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpRelease, Key: "a", From: ver(5, 0, "v5", "w1.1/c1"),
				To: ver(5, 1, "r", "")})
		}, 12 * sec, EndedRelease, 13 * sec},
		{"another's release ends nothing", func(s *script) {
			s.op(12*sec, 13*sec, history.Fail, history.Event{Proc: "w1.1/c2", Op: history.OpRelease, Key: "a", From: ver(5, 0, "v5", "w1.1/c1"),
				To: ver(5, 1, "r", "")})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, deadline, EndedDeadline, 30 * sec},
		{"renewed in time", func(s *script) {
			s.op(12*sec, 13*sec, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpRenew, Key: "a", From: ver(5, 0, "v5", "w1.1/c1"),
				To: ver(5, 1, "v5", "w1.1/c1"), Sends: []int64{12*sec + 5, 12*sec + 9}})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, 12*sec + 5 + 6*sec - margin, EndedDeadline, 30 * sec},
		{"a renewal known too late revives nothing", func(s *script) {
			s.op(12*sec, 16*sec, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpRenew, Key: "a", From: ver(5, 0, "v5", "w1.1/c1"),
				To: ver(5, 1, "v5", "w1.1/c1"), Sends: []int64{12 * sec}})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, deadline, EndedDeadline, 30 * sec},
		{"a renewal of unknown outcome extends nothing", func(s *script) {
			s.op(12*sec, 13*sec, history.Unknown, history.Event{Proc: "w1.1/c1", Op: history.OpRenew, Key: "a", From: ver(5, 0, "v5", "w1.1/c1"),
				To: ver(5, 1, "v5", "w1.1/c1"), Sends: []int64{12 * sec}})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, deadline, EndedDeadline, 30 * sec},
		{"lease lost", func(s *script) {
			s.note(11*sec, "w1.1/c1", history.Event{Op: history.NoteLeaseLost, Key: "a", Token: 5})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, 11 * sec, EndedLost, 30 * sec},
		{"killed", func(s *script) {
			s.note(11*sec, "w1.1", history.Event{Op: history.NoteCrash, Error: "SIGKILL"})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, 11 * sec, EndedCrash, 30 * sec},
		{"another life's crash ends nothing", func(s *script) {
			s.note(11*sec, "w1.2", history.Event{Op: history.NoteCrash, Error: "SIGKILL"})
			s.note(30*sec, "harness", history.Event{Op: history.NotePhase})
		}, deadline, EndedDeadline, 30 * sec},
		{"the run ends first", func(s *script) {
			s.op(11*sec, 12*sec, history.OK, history.Event{Proc: "w9.1/c1", Op: history.OpGet, Key: "z"})
		}, 12 * sec, EndedRun, 12 * sec},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			s.acquire(10*sec, 10*sec+1000, history.OK, "w1.1/c1", 5, false)
			tc.more(s)
			h, err := history.Merge(&s.h)
			must(t, err)
			a := Analysis{End: h.Events[len(h.Events)-1].TS}
			a.grants(past.New(h, false))
			gs := a.Grants
			if len(gs) != 1 {
				t.Fatalf("%d grants, want 1", len(gs))
			}
			g := gs[0]
			if g.To != tc.to || g.EndedBy != tc.by {
				t.Errorf("ended at %d by %s, want %d by %s", g.To, g.EndedBy, tc.to, tc.by)
			}
			if g.RowUntil != tc.until {
				t.Errorf("row until %d, want %d", g.RowUntil, tc.until)
			}
		})
	}
}

func TestUnknownAcquireIsAGrantOnlyIfProven(t *testing.T) {
	t.Parallel()
	for _, proven := range []bool{false, true} {
		s := newScript()
		s.acquire(10*sec, 11*sec, history.Unknown, "w1.1/c1", 5, false)
		if proven {
			s.acquire(20*sec, 21*sec, history.OK, "w2.1/c1", 6, true) // names v5 in its condition
		}
		a := analyze(t, s)
		n := 0
		for _, g := range a.Grants {
			if g.Proc == "w1.1/c1" {
				n++
				if g.Held || g.To != g.From {
					t.Errorf("an unknown acquire entitled its client: %+v", g)
				}
			}
		}
		if want := map[bool]int{false: 0, true: 1}[proven]; n != want {
			t.Errorf("proven %v: %d grants, want %d", proven, n, want)
		}
	}
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.acquire(10*sec, 11*sec, history.OK, "w1.1/c1", 5, false)
	s.acquire(18*sec, 19*sec, history.OK, "w2.1/c1", 6, true)
	s.acquire(30*sec, 31*sec, history.OK, "w3.1/c1", 9, true) // replaces a grant that the history lacks
	a := analyze(t, s)
	if len(a.Takeovers) != 2 {
		t.Fatalf("%d takeovers, want 2", len(a.Takeovers))
	}
	first, second := a.Takeovers[0], a.Takeovers[1]
	if first.From == nil || first.From.Proc != "w1.1/c1" || first.Idle != 8*time.Second {
		t.Errorf("first takeover %+v, want from w1.1/c1 after 8 s", first)
	}
	if second.From != nil || second.Idle != 0 {
		t.Errorf("second takeover names a holder that the history does not have: %+v", second.From)
	}
}

func TestLatenciesByPhaseAndOutcome(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.op(1*sec, 1*sec+5e6, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"}) // before any phase
	s.phase(2*sec, history.PhaseBefore)
	for i := range int64(200) {
		s.op(2*sec+i*1e6, 2*sec+i*1e6+(i+1)*1e6, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"})
	}
	s.op(3*sec, 9*sec, history.Unknown, history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"})
	s.op(3*sec, 3*sec+1, history.Fail, history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"})
	s.phase(10*sec, history.PhaseFault)
	s.op(11*sec, 0, "", history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"})
	a := analyze(t, s)
	before := a.Latencies.Of(history.OpGet, history.PhaseBefore)
	if before.OK != 200 || before.Fail != 1 || before.Unknown != 1 || before.Few() {
		t.Errorf("before: %+v", before)
	}
	for _, q := range []struct {
		got  time.Duration
		want time.Duration
	}{{before.P50, 100 * time.Millisecond}, {before.P95, 190 * time.Millisecond}, {before.P99, 198 * time.Millisecond},
		{before.Max, 200 * time.Millisecond}} {
		if d := q.got - q.want; d < -q.want/500 || d > q.want/500 {
			t.Errorf("quantile %s, want %s within 0.2 %%", q.got, q.want)
		}
	}
	if fault := a.Latencies.Of(history.OpGet, history.PhaseFault); fault.Unknown != 1 || fault.OK != 0 || fault.P99 != 0 {
		t.Errorf("fault: %+v", fault)
	}
	if all := a.Latencies.Of(history.OpGet, AllPhases); all.Count() != 204 || all.OK != 201 {
		t.Errorf("all: %+v", all)
	}
	if _, _, ok := a.Latencies.Headline(); ok {
		t.Error("a headline without lock waits or acquires")
	}
}

func TestPhaseOfAnOperation(t *testing.T) {
	t.Parallel()
	a := Analysis{Phases: []history.Span{{Name: history.PhaseBefore, From: 10}, {Name: history.PhaseFault, From: 20},
		{Name: "recover", From: 30}}}
	for _, tc := range []struct {
		from, to int64
		want     string
	}{
		{5, 9, ""}, {10, 19, history.PhaseBefore}, {19, 20, history.PhaseBefore}, {19, 21, history.PhaseFault}, {5, 40, history.PhaseFault},
		{12, 0, history.PhaseFault},
		{20, 21, history.PhaseFault}, {29, 99, history.PhaseFault}, {30, 31, "recover"}, {31, 0, "recover"},
	} {
		op := history.Operation{Invoke: history.Event{TS: tc.from}, End: history.Event{TS: tc.to}}
		if got := a.Phase(op); got != tc.want {
			t.Errorf("%d to %d counts for %q, want %q", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestEmptyHistory(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*history.History{
		"nothing":   {},
		"one event": {Events: []history.Event{{TS: 5, Proc: "harness", Type: history.Note, Op: history.NoteExpect}}},
	} {
		a, err := Analyze(h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(a.Latencies)+len(a.Timeline.Buckets)+len(a.Grants)+len(a.Takeovers) != 0 {
			t.Errorf("%s: numbers out of nothing: %+v", name, a)
		}
	}
}

func TestMergeOfOtherBoundsIsAnError(t *testing.T) {
	t.Parallel()
	wide := hdrhistogram.New(1, int64(24*time.Hour/time.Microsecond), 3)
	must(t, wide.RecordValue(int64(20*time.Hour/time.Microsecond)))
	if err := Merge(NewHistogram(), wide); err == nil {
		t.Error("counts were lost in silence")
	}
	if err := Merge(NewHistogram(), NewHistogram()); err != nil {
		t.Error(err)
	}
}

func TestRecordBounds(t *testing.T) {
	t.Parallel()
	h := NewHistogram()
	for d, ok := range map[time.Duration]bool{0: true, time.Nanosecond: true, time.Hour: true, 2 * time.Hour: false} {
		if err := Record(h, d); (err == nil) != ok {
			t.Errorf("record %s: %v", d, err)
		}
	}
}

func TestLatencyBeyondBoundsNamesTheLine(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.op(sec, 3*3600*sec, history.OK, history.Event{Proc: "w1.1/c1", Op: history.OpGet, Key: "r"})
	s.h.Events[1].File, s.h.Events[1].Line = "w1.jsonl", 7
	if _, err := Analyze(&s.h); err == nil || !strings.Contains(err.Error(), "w1.jsonl:7") {
		t.Errorf("error %v, want one that names w1.jsonl:7", err)
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", 12: "12 ns", 850 * time.Microsecond: "850 µs", 1500 * time.Microsecond: "1.5 ms", 12345 * time.Microsecond: "12.3 ms",
		3050 * time.Millisecond: "3.05 s", 61 * time.Second: "61 s", 12*time.Minute + 5*time.Second: "12 min 5 s", 3 * time.Hour: "3 h 0 min",
		-40 * time.Millisecond: "−40 ms",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

// TestTimelineCountsEverything: whatever the operations, the buckets hold each
// client's operation once, and cover the run.
func TestTimelineCountsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newScript()
		n := rapid.IntRange(1, 60).Draw(t, "n")
		span := rapid.Int64Range(1, 5000*sec).Draw(t, "span")
		for range n {
			from := sec + rapid.Int64Range(0, span).Draw(t, "from")
			end := from + rapid.Int64Range(0, 10*sec).Draw(t, "took")
			typ := rapid.SampledFrom([]history.Type{history.OK, history.Fail, history.Unknown, ""}).Draw(t, "type")
			if typ == "" {
				end = 0
			}
			s.op(from, end, typ, history.Event{
				Proc: "w1.1/c1", Op: rapid.SampledFrom(kinds).Draw(t, "op").op, Key: "k", From: ver(1, 0, "a", ""), To: ver(2, 0, "b", "w"),
				Details: &history.Details{Changes: []history.Change{{Job: "j"}}}, // the reader refuses an update without
			})
		}
		h, err := history.Merge(&s.h)
		must(t, err)
		a, err := Analyze(h)
		must(t, err)
		got, seconds := 0, 0.0
		for _, b := range a.Timeline.Buckets {
			got += b.OK + b.Fail + b.Unknown
			seconds += b.Seconds
		}
		if a.End > a.Start && got != n {
			t.Fatalf("%d operations in the buckets, want %d", got, n)
		}
		if want := time.Duration(a.End - a.Start).Seconds(); a.End > a.Start && (seconds < want*0.999 || seconds > want*1.001) {
			t.Fatalf("buckets cover %f s of %f s", seconds, want)
		}
		if len(a.Timeline.Buckets) > maxBuckets+1 {
			t.Fatalf("%d buckets", len(a.Timeline.Buckets))
		}
		for _, g := range a.Grants {
			if g.To < g.From || g.RowUntil < g.From {
				t.Fatalf("grant ends before it begins: %+v", g)
			}
		}
	})
}
