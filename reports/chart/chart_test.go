package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// wellFormed fails the test unless s is well-formed XML with balanced elements.
func wellFormed(t *testing.T, name, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", name, err)
		}
	}
}

// sound checks what every chart must be: well-formed, named for a screen
// reader, without numbers that are none, without colours outside the palette.
func sound(t *testing.T, s SVG) {
	t.Helper()
	in := string(s.Inline())
	wellFormed(t, s.Name, in)
	wellFormed(t, s.Name+" as a file", s.File())
	if !strings.Contains(in, `aria-label="`) || s.Title == "" {
		t.Errorf("%s has no label", s.Name)
	}
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(in, bad) {
			t.Errorf("%s contains %s", s.Name, bad)
		}
	}
	known := map[string]bool{}
	for _, c := range Palette() {
		known[c.Light] = true
	}
	for _, h := range hexColor.FindAllString(in, -1) {
		if !known[h] {
			t.Errorf("%s uses %s, which is no colour of the palette", s.Name, h)
		}
	}
	if strings.Contains(s.File(), "http://") && !strings.Contains(s.File(), `xmlns="http://www.w3.org/2000/svg"`) {
		t.Errorf("%s refers to the network", s.Name)
	}
}

func ops() *measure.Analysis {
	sec := int64(time.Second)
	a := &measure.Analysis{
		Start: 100 * sec, End: 130 * sec,
		Phases: []history.Span{{Name: "before", From: 100 * sec, To: 110 * sec}, {Name: "fault", From: 110 * sec, To: 130 * sec}},
		Faults: []history.FaultWindow{{Fault: history.Fault{ID: "f1", Name: "kill-worker", Targets: []string{"<w1>"}}, From: 112 * sec,
			To: 118 * sec}},
	}
	t := measure.Timeline{Width: time.Second, Ops: []measure.OpLine{{Op: history.OpLock}, {Op: history.OpGet}}}
	for i := range 30 {
		t.Buckets = append(t.Buckets, measure.Bucket{From: a.Start + int64(i)*sec, Seconds: 1, Cycles: i % 7, OK: i, Fail: i % 3, Unknown: i % 2})
		t.Ops[0].Cuts = append(t.Ops[0].Cuts, measure.Cut{N: i % 4, P50: time.Duration(i) * time.Millisecond,
			P99: time.Duration(i) * 40 * time.Millisecond})
		t.Ops[1].Cuts = append(t.Ops[1].Cuts, measure.Cut{}) // never measured
	}
	t.Ops[0].Slow = []measure.Slow{{At: 113 * sec, Latency: 9 * time.Second, Outcome: history.Unknown},
		{At: 114 * sec, Latency: 0, Outcome: history.OK}}
	a.Timeline = t
	return a
}

func TestStrip(t *testing.T) {
	t.Parallel()
	s := Strip(ops())
	sound(t, s)
	for _, want := range []string{">before<", ">fault<", "kill-worker &lt;w1&gt;", ">30 s<"} {
		if !strings.Contains(string(s.Inline()), want) {
			t.Errorf("the strip lacks %q", want)
		}
	}
	if Strip(ops()).File() != s.File() {
		t.Error("two drawings of the same input differ")
	}
}

// TestLatencies: one chart for what was measured, all on an axis that has room for all.
func TestLatencies(t *testing.T) {
	t.Parallel()
	all := Latencies(ops())
	if len(all) != 1 {
		t.Fatalf("%d charts, want 1: get was never measured", len(all))
	}
	c := all[0]
	if c.To != 30 || c.Low != 1e-6 || c.High != 10 || len(c.Bands) != 3 || len(c.Dots) != 1 || len(c.Crosses) != 1 {
		t.Errorf("%+v", c)
	}
	if p50, p99 := c.Lines[0], c.Lines[1]; p50.X[5] != 5.5 || p50.Y[5] != 0.005 || p99.Y[5] != 0.2 || p99.Y[4] != 0 {
		t.Errorf("p50 %v, p99 %v", p50.Y, p99.Y)
	}
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	many, one := measure.NewHistogram(), measure.NewHistogram()
	for i := range 2000 {
		if err := measure.Record(many, time.Duration(i+1)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := measure.Record(one, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	c, ok := Distribution("Latency", []string{"A", "B", "none", "nil"}, []*hdrhistogram.Histogram{many, one, measure.NewHistogram(), nil})
	if !ok || len(c.Lines) != 2 || c.Lines[1].Label != "B" || c.Low != 1e-6 {
		t.Fatalf("%+v", c)
	}
	l := c.Lines[0]
	for i := 1; i < len(l.X); i++ {
		if l.X[i] <= l.X[i-1] || l.Y[i] < l.Y[i-1] {
			t.Fatalf("from %v, %v to %v, %v: a curve rises", l.X[i-1], l.Y[i-1], l.X[i], l.Y[i])
		}
	}
	// It ends at the greatest latency, at the last percentile that an operation decides.
	if n := len(l.X) - 1; l.Y[n] < 1.99 || l.X[n] != c.To || c.To < nines(99.94) || c.To > nines(99.96) {
		t.Errorf("the curve ends at %v, %v", l.X[n], l.Y[n])
	}
	if _, ok := Distribution("Latency", []string{"nil"}, []*hdrhistogram.Histogram{nil}); ok {
		t.Error("without latencies there is something to draw")
	}
}

func TestChartsOfNothing(t *testing.T) {
	t.Parallel()
	a := &measure.Analysis{}
	if l := Latencies(a); len(l) != 0 {
		t.Errorf("%d charts of latencies", len(l))
	}
	for _, s := range []SVG{Strip(a), Window(a, WindowInput{}), BenchRatios("r", "t", "o", nil), BenchLatencies(nil)} {
		if !s.Empty() || s.Inline() != "" {
			t.Errorf("%s is drawn out of nothing", s.Name)
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	v, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		t.Fatalf("%s: %v", hex, err)
	}
	f := func(c uint64) float64 {
		x := float64(c&0xFF) / 255
		if x <= 0.03928 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*f(v>>16) + 0.7152*f(v>>8) + 0.0722*f(v)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestContrast holds the palette to WCAG AA: 4.5 for text, 3 for what is drawn.
func TestContrast(t *testing.T) {
	t.Parallel()
	text := []Color{Ink, Muted, Link, OKColor, UnkColor, BadColor, Good}
	drawn := []Color{Tail, Entitled, faultKill, faultPause, faultLost, faultOther}
	for _, bg := range []Color{Card, Sunken} {
		for _, c := range text {
			for i, pair := range [][2]string{{c.Light, bg.Light}, {c.Dark, bg.Dark}} {
				least := 4.5
				if bg != Card && (c == UnkColor || c == OKColor || c == BadColor) {
					least = 3 // on lanes these are bars
				}
				if r := contrast(t, pair[0], pair[1]); r < least {
					t.Errorf("%s on %s (scheme %d): contrast %.2f, want %.1f", c.Name, bg.Name, i, r, least)
				}
			}
		}
		for _, c := range drawn {
			for i, pair := range [][2]string{{c.Light, bg.Light}, {c.Dark, bg.Dark}} {
				if r := contrast(t, pair[0], pair[1]); r < 3 {
					t.Errorf("%s on %s (scheme %d): contrast %.2f, want 3", c.Name, bg.Name, i, r)
				}
			}
		}
	}
	for _, h := range holders {
		if r := min(contrast(t, Ink.Light, h.Light), contrast(t, Ink.Dark, h.Dark)); r < 4.5 {
			t.Errorf("label on %s: contrast %.2f", h.Name, r)
		}
	}
}

func TestPaletteHasEachNameOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Palette() {
		if seen[c.Name] || seen[c.Light] {
			t.Errorf("%s %s is there twice", c.Name, c.Light)
		}
		seen[c.Name], seen[c.Light] = true, true
	}
}

var (
	hexColor = regexp.MustCompile(`#[0-9A-Fa-f]{6}\b`)
	xOf      = regexp.MustCompile(`x="(-?[0-9.]+)"`)
)

// TestBrokenAxis: order is kept, everything lies inside, a break is used only if
// it helps, and equal lengths outside breaks are equally wide.
func TestBrokenAxis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfN(rapid.Int64Range(1e9, 1e13), 1, 30).Draw(t, "at")
		typical := rapid.Int64Range(0, 1e9).Draw(t, "typical")
		b := newBrokenAxis(1e9, at, typical, 100, 1100)
		slices.Sort(at)
		last := 99.9
		for _, ts := range at {
			x := b.x(ts)
			if x < last-1e-6 || x < 99.99 || x > 1100.01 || math.IsNaN(x) {
				t.Fatalf("x(%d) = %f after %f", ts, x, last)
			}
			last = x
		}
		n := 0
		for _, s := range b.segs {
			if s.broken {
				n++
				continue
			}
			if math.Abs(s.w-float64(s.to-s.from)*b.scale) > 1e-3 {
				t.Fatalf("segment %+v is not to scale", s)
			}
		}
		if n > maxBreaks {
			t.Fatalf("%d breaks", n)
		}
	})
}

// TestPackLeavesNoOverlap: whatever the items, no two of a row overlap.
func TestPackLeavesNoOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 25).Draw(t, "n")
		w := &lanes{a: &measure.Analysis{}}
		at := []int64{1e9, 2e9}
		var items []*item
		for range n {
			from := rapid.Int64Range(1e9, 2e9).Draw(t, "from")
			to := min(from+rapid.Int64Range(0, 5e8).Draw(t, "len"), 2e9)
			items = append(items, &item{proc: "w", from: from, to: to, mark: rapid.Bool().Draw(t, "mark"), open: rapid.Bool().Draw(t, "open"),
				label: rapid.StringMatching(`[a-z ]{0,40}`).Draw(t, "label")})
			at = append(at, from, to)
		}
		w.axis = newBrokenAxis(1e9, at, 0, windowL, Width-marginR)
		rows := w.pack(items)
		for i, a := range items {
			if a.row >= rows {
				t.Fatalf("row %d of %d", a.row, rows)
			}
			for _, b := range items[i+1:] {
				a0, a1, _, _ := w.extent(a)
				b0, b1, _, _ := w.extent(b)
				if a.row == b.row && a0 < b1 && b0 < a1 {
					t.Fatalf("%q and %q overlap in row %d", a.label, b.label, a.row)
				}
			}
		}
	})
}

func TestWindowDrawsWhatMatters(t *testing.T) {
	t.Parallel()
	v := func(n int64) *int64 { return &n }
	sec := int64(time.Second)
	h := &history.History{Headers: []history.Header{{DriftBound: 0.01, MarginBaseMS: 100}}}
	add := func(e history.Event) history.Event {
		h.Events = append(h.Events, e)
		return e
	}
	acq := func(ts int64, proc string, id, fence int64, takeover bool) []history.Event {
		inv := add(history.Event{TS: ts, Proc: proc, ID: id, Type: history.Invoke, Op: history.OpAcquire, Key: "lock", Takeover: takeover,
			From: &history.Version{Fence: fence - 1, Attempt: "x"}, To: &history.Version{Fence: fence, Attempt: "y", Holder: proc, TTLMS: 6000}})
		end := add(history.Event{TS: ts + 1e7, Proc: proc, ID: id, Type: history.OK, Op: history.OpAcquire, Key: "lock", Sends: []int64{ts + 1}})
		return []history.Event{inv, end}
	}
	add(history.Event{TS: sec, Proc: "harness", Type: history.Note, Op: history.NotePhase, Details: &history.Details{Phase: "before"}})
	events := acq(2*sec, "w1.1/c1", 1, 5, false)
	add(history.Event{TS: 3 * sec, Proc: "harness", Type: history.Note, Op: history.NoteFault,
		Details: &history.Details{Fault: &history.Fault{ID: "f1", Name: "pause-worker", Action: history.ActionInject}}})
	events = append(events, acq(4*sec, "w2.1/c1", 1, 6, true)...)
	add(history.Event{TS: 4*sec + 1e8, Proc: "w2.1/c1", ID: 9, Type: history.Invoke, Op: history.OpRenew, Key: "lock",
		From: &history.Version{Fence: 6}, To: &history.Version{Fence: 6, Beat: 1}}) // no answer
	events = append(events, h.Events[len(h.Events)-1])
	lost := add(history.Event{TS: 5 * sec, Proc: "w1.1/c1", Type: history.Note, Op: history.NoteLeaseLost, Key: "lock", Token: 5,
		Error: "<late>"})
	events = append(events, lost)
	for i, l := range []history.LedgerEntry{{Seq: 1, Kind: "raise", Issuer: "lock", Token: 6},
		{Seq: 2, Kind: "accept", Issuer: "lock", Token: 5, EffectKey: "k", Value: v(1)}} {
		events = append(events, add(history.Event{TS: 20*sec + int64(i), Proc: "harness", Type: history.Note, Op: history.NoteLedger,
			Key: "res", Details: &history.Details{Ledger: &l}}))
	}
	a, err := measure.Analyze(h)
	if err != nil {
		t.Fatal(err)
	}
	s := Window(a, WindowInput{Name: "v", Title: "a <violation>", Events: events, From: 2 * sec, To: 20 * sec})
	sound(t, s)
	in := string(s.Inline())
	for _, want := range []string{
		"#1 acquire token 5", "#3 acquire token 6, takeover of 5", "no answer", "e-unknown", "lease lost, token 5", "entitled by token 5",
		"both entitled to lock for", "f1 pause-worker", "#7 raise token 6", "#8 accept token 5", "✗ below token 6", "boxbad", "w1.1/c1",
		"w2.1/c1",
	} {
		if !strings.Contains(in, want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
	if strings.Contains(in, "<late>") || strings.Contains(in, "<violation>") {
		t.Error("text is not escaped")
	}
	for _, m := range xOf.FindAllStringSubmatch(in, -1) {
		if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < -1 || x > Width+1 {
			t.Errorf("something is drawn at x=%s", m[1])
		}
	}
}

func TestBars(t *testing.T) {
	bars := []Bar{
		{Label: "a <b>", Value: 3, Low: 2.5, High: 3.5, Text: "3.00 [2.50–3.50]", Parts: []BarPart{{"client", 1}, {"scheduler", 0}, {"store", 1}}},
		{Label: "copy", Value: 3, Low: 1, High: 9.7, Text: "copied", Pale: true},
		{Label: "nothing was read"},
	}
	for _, narrow := range []bool{false, true} {
		s := Bars("costs", "Cost", "less is better", bars, narrow)
		sound(t, s)
		in := string(s.Inline())
		for _, want := range []string{"a &lt;b&gt;", "3.00 [2.50–3.50]", "client", "store", "opacity:.5"} {
			if !strings.Contains(in, want) {
				t.Errorf("narrow %v: the drawing lacks %q", narrow, want)
			}
		}
		if strings.Contains(in, "nothing was read") {
			t.Error("a bar without a value is drawn")
		}
		for _, m := range xOf.FindAllStringSubmatch(in, -1) {
			if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < -1 || x > s.W+1 {
				t.Errorf("narrow %v: something is drawn at x=%s", narrow, m[1])
			}
		}
		// Parts are drawn as shares of the whole: as wide together as it.
		var widths []float64
		for _, m := range regexp.MustCompile(`width="([0-9.]+)"[^>]* class="bar"`).FindAllStringSubmatch(in, -1) {
			w, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			widths = append(widths, w)
		}
		if len(widths) != 3 || math.Abs(widths[0]+widths[1]-widths[2]) > 0.3 {
			t.Errorf("narrow %v: bars of the widths %v", narrow, widths)
		}
	}
	if s := Bars("costs", "Cost", "", bars[2:], false); !s.Empty() {
		t.Error("nothing is drawn as something")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
