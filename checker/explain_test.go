package checker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/explain"
	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// TestLateEffectIsTold: of a real history, with the fault that befell the worker.
func TestLateEffectIsTold(t *testing.T) {
	t.Parallel()
	cfg := small(0)
	cfg.bug = bugNoToken
	r := Check(context.Background(), simulate(cfg), Options{})
	if a := r.Answer; r.Verdict != Fail || !strings.HasPrefix(a.What, "the sink accepted token ") || !strings.HasSuffix(r.Summary, "the sink does not compare tokens") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

// TestPassTellsWhatItRestsOn: a line each, and nothing that did not occur is claimed.
func TestPassTellsWhatItRestsOn(t *testing.T) {
	t.Parallel()
	r := Check(context.Background(), simulate(small(1)), Options{})
	a := r.Answer
	if r.Verdict != Pass || a.What != "no violation in "+phrase.Plural(r.Counts.Operations, "operation") || a.Because+a.Do != "" {
		t.Fatalf("%s: %+v", r.Verdict, a)
	}
	c := r.Counts
	c.Faults, c.FaultsProven, c.FaultNames, c.Takeovers, c.Grants, c.StaleRefused, c.Unknowns, c.UnknownSettled = 3, 3, map[string]int{"pause-worker": 2, "clock": 1}, 1, 9, 0, 5, 4
	c.Resends, c.LeasesLost, c.ServerTimeouts = 0, 0, 2
	r = &Result{Verdict: Pass, Counts: c, Properties: []Property{
		{ID: "P5", Status: StatusNA, Detail: "no jobs"}, {ID: "P8", Status: StatusNA, Detail: "not promised"}, {ID: "P12", Status: StatusNA, Detail: "no jobs"}, {ID: "P14", Status: StatusNA},
	}}
	a2 := AnswerOf(r, nil)
	if want := []string{
		"3 faults, proven: clock, pause-worker (2)", "1 takeover of 9 grants", "5 unknown outcomes, 4 settled by the final rows", "2 writes given up by a coordinator",
	}; !slices.Equal(a2.Exercised, want) {
		t.Errorf("exercised %q", a2.Exercised)
	}
	if want := []string{
		"stale writes: none reached the sink", "resent requests: none was sent again", "lost leases: none was lost", "P5, P12: no jobs", "P8: not promised",
		"other faults, other timing, and what needs more time",
	}; !slices.Equal(a2.NotExercised, want) {
		t.Errorf("not exercised %q", a2.NotExercised)
	}
}

// logRun is a run whose clock stood at 10 s when it was 2025-01-02T03:04:05Z; the cause
// is at 20 s, in w1.1 and w2.1.
func logRun(t *testing.T, logs map[string]string) (*Explanation, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, rundir.LogDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range logs {
		if err := os.WriteFile(filepath.Join(dir, rundir.LogDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &history.History{
		Headers: []history.Header{{Proc: history.Harness, WallTime: "2025-01-02T03:04:05Z", TS: 10e9}},
		Events:  []history.Event{{TS: 12e9, Proc: history.Harness, Type: history.Note, Op: history.NotePhase, Details: &history.Details{Phase: "before"}}},
	}
	e := &Explanation{Causes: []Cause{{At: 20e9, Procs: []string{"w1.1", "w2.1"}}, {}}}
	return e, e.AddLogs(dir, h)
}

func TestAddLogs(t *testing.T) {
	t.Parallel()
	long := "time=2025-01-02T03:04:15.500Z msg=" + strings.Repeat("x", 400) + "\n"
	e, err := logRun(t, map[string]string{
		"w1.1.log": "time=2025-01-02T03:04:12.999Z msg=early\ntime=2025-01-02T03:04:13.001Z msg=first\nno date\ntime=2025-01-02T03:04:16+00:00 msg=undated\n" + long,
		"w3.1.log": "time=2025-01-02T03:04:15Z msg=\"not of it\"\ntime=2025-01-02T03:04:15.1Z msg=\"not of it\"\n",
		"n1.log":   "INFO  2025-01-02T03:04:15,000 [main] fine\nWARN  2025-01-02T03:04:15,250 [main] slow\nERROR 2025-01-02T03:04:17,001 [main] late\n",
		"w2.1.log": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range e.Causes[0].Logs {
		text := l.Text
		got = append(got, l.File+":"+string(rune('0'+l.Line))+" "+text[:min(len(text), 45)])
	}
	want := []string{
		"logs/w1.1.log:2 time=2025-01-02T03:04:13.001Z msg=first", "logs/n1.log:2 WARN  2025-01-02T03:04:15,250 [main] slow", "logs/w1.1.log:5 " + long[:45],
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if l := e.Causes[0].Logs[1]; l.At < 8.24 || l.At > 8.26 {
		t.Errorf("at %f s of the run, want 8.25", l.At)
	}
	if n := len(e.Causes[0].Logs[2].Text); n > explain.MaxLogLine+4 {
		t.Errorf("a line of %d bytes", n)
	}
	if len(e.Causes[1].Logs) != 0 {
		t.Error("a cause without an instant has log lines")
	}
}

// Of many lines the nearest stay.
func TestManyLogLines(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for ms := range 20 {
		b.WriteString("time=2025-01-02T03:04:1")
		b.WriteString([]string{"4.0", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "4.9", "5.0", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9"}[ms])
		b.WriteString("Z\n")
	}
	e, err := logRun(t, map[string]string{"w1.1.log": b.String()})
	if err != nil {
		t.Fatal(err)
	}
	logs := e.Causes[0].Logs
	if len(logs) != explain.MaxLogs || !slices.IsSortedFunc(logs, func(a, b LogLine) int { return a.Line - b.Line }) || logs[0].Line < 5 || logs[explain.MaxLogs-1].Line > 17 {
		t.Errorf("%+v", logs)
	}
}

func TestUnreadableLog(t *testing.T) {
	t.Parallel()
	if _, err := logRun(t, map[string]string{"w1.1.log": strings.Repeat("y", 5<<20)}); err == nil || !strings.Contains(err.Error(), "w1.1.log") {
		t.Errorf("a line of 5 MB: %v", err)
	}
}

// TestPrintExplanation: what a person reads is the answer, one chain with its places, the
// mistakes with what would tell them apart, and what is not explained.
func TestPrintExplanation(t *testing.T) {
	t.Parallel()
	chain := []Step{{Role: RoleMistake, At: 1.5, Text: "here", File: "history/w1.1.jsonl", Line: 7}}
	a := Cause{
		Mechanism: "a", Rank: 1, Statement: "it did this", Evidence: []string{"seen here"}, Properties: []string{"P1", "P2"}, Count: 3, Key: "lock-1",
		Chain: chain, Logs: []LogLine{{File: "logs/w1.1.log", Line: 9, At: -1.25, Text: "warned"}},
	}
	weaker := Cause{Mechanism: "d", Rank: 2, Statement: "or that", Properties: []string{"P4"}, Count: 1, Evidence: []string{"so it seems"}, Chain: chain}
	rivals := []Cause{a, {Mechanism: "b", Rank: 1, Statement: "it did that", Apart: "an e", Alternatives: []string{"a"}, Chain: chain}, weaker}
	rivals[0].Alternatives, rivals[0].Apart = []string{"b"}, "a c"
	for name, c := range map[string]struct {
		causes []Cause
		want   []string
	}{
		"one": {[]Cause{a, weaker}, []string{
			"FAIL  it was so\n\nHow it came about on lock-1:\n", "  +1.500 s  mistake  here  runs/x/history/w1.1.jsonl:7\n", "  -1.250 s  runs/x/logs/w1.1.log:9: warned\n",
			"\nThe mistake: it did this\n  [a] accounts for P1, P2; seen 3 times\n  - seen here\n",
			"  d        or that     P4            weaker: so it seems\n", "Not explained: P3: odd", "also lacks: no takeover",
		}},
		"rivals": {rivals, []string{
			"One of 2 mistakes, which this history cannot tell apart; they account for P1, P2, seen 3 times:\n",
			"  a        it did this  a c\n  b        it did that  an e\n  - seen here\n", "  d        or that     P4            weaker: so it seems\n",
		}},
		"none": {nil, []string{"FAIL  it was so\n\nNot explained: P3: odd\n"}},
	} {
		var b strings.Builder
		PrintExplanation(&b, &Explanation{Verdict: Fail, Summary: "it was so", Causes: c.causes, Unexplained: []string{"P3: odd"}, Lacks: []string{"no takeover"}}, "runs/x")
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: it lacks %q:\n%s", name, want, b.String())
			}
		}
		if strings.Count(b.String(), "+1.500 s") > 1 {
			t.Errorf("%s: more than one chain:\n%s", name, b.String())
		}
	}
}

// act is an effect of an order's job, asked for by a run.
func act(h *tiny, at int64, kind, order, key string, run int64, outcome history.Type, end history.Event) {
	id := kind + "-" + order
	res := "job/q/" + id
	if h.ids["asked "+id]++; h.ids["asked "+id] == 1 {
		h.op(at-2, at-1, "w1.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: &history.Job{
			Queue: "q", Shard: storyShard, Kind: kind, Resource: res, MaxAttempts: 5, Order: &history.Order{ID: order, Item: "tea", Quantity: 1, Cents: 1},
		}}}, history.Event{Result: past.ResultApplied})
	}
	one := int64(1)
	h.op(at, at+1, "w1.1/r1", outcome, history.Event{Op: history.OpEffect, Key: res, Issuer: storyShard, Token: run, EffectKey: key, Value: &one, DecidedAt: at*1e6 + 1e9}, end)
}

// TestShopMistakesAreNamed: what went wrong with an order is told from its effects and
// rows, and nothing of the kind where they do not show it.
func TestShopMistakesAreNamed(t *testing.T) {
	t.Parallel()
	applied, stale := history.Event{Result: past.ResultApplied}, history.Event{Result: past.ResultStale, Seen: 8}
	for name, c := range map[string]struct {
		change func(*shopStory)
		want   string // "": none of them
	}{
		"the fence refused what was paid": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "c", Cents: 400, Token: 5})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "c", "cancel c", 8, history.OK, applied)
				act(h, 40, history.OrderPay, "c", "pay c", 5, history.Fail, stale)
			}
		}, "paid-before-the-fence"},
		"the fence let it pass": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "c", Cents: 400, Token: 8})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "c", "pay c", 8, history.OK, applied)
				act(h, 40, history.OrderPay, "c", "pay c", 5, history.Fail, stale)
			}
		}, ""},
		"two keys": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "a", Cents: 200, Token: 9})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "a", "pay a by run 7", 7, history.OK, applied)
				act(h, 40, history.OrderPay, "a", "pay a by run 9", 9, history.OK, applied)
			}
		}, "paid-by-run"},
		"one key": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "a", Cents: 200, Token: 9})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "a", "pay a", 7, history.OK, applied)
				act(h, 40, history.OrderPay, "a", "pay a", 9, history.OK, applied)
			}
		}, ""},
		"one version twice": {func(y *shopStory) { y.books[4].Version, y.books[4].Quantity = 3, 5 }, "stock-overwritten"},
		"sold and there":    {func(y *shopStory) { y.find(history.BookStock, "tea").Quantity = 6 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newShopStory()
			c.change(y)
			h := y.tell()
			r := Check(t.Context(), h, Options{})
			if r.Verdict != Fail {
				t.Fatalf("%s: %s", r.Verdict, r.Summary)
			}
			e := Explain(h, r, Options{})
			var got []string
			for _, x := range e.Causes {
				if slices.Contains([]string{"paid-before-the-fence", "paid-by-run", "stock-overwritten"}, x.Mechanism) {
					got = append(got, x.Mechanism)
				}
			}
			if want := []string{c.want}; c.want != "" && !slices.Equal(got, want) || c.want == "" && len(got) > 0 {
				t.Errorf("%v, want %q (%s)", got, c.want, e.Summary)
			}
			checkChains(t, h, e)
		})
	}
}
