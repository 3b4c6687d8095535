package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/record/history"
)

// AllPhases is the Phase of a row over the whole run.
const AllPhases = "all"

// Latency is one row of the latency table: an operation in a phase.
type Latency struct {
	Op    history.Op `json:"op"`
	Phase string     `json:"phase"`
	// OK, Fail and Unknown count the operations by outcome. The percentiles are
	// over OK.
	OK      int           `json:"ok"`
	Fail    int           `json:"fail"`
	Unknown int           `json:"unknown"`
	P50     time.Duration `json:"p50_ns"`
	P95     time.Duration `json:"p95_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// Count is the number of operations of all outcomes.
func (l Latency) Count() int { return l.OK + l.Fail + l.Unknown }

// Few says that there are too few samples for P99 to differ from the maximum.
func (l Latency) Few() bool { return l.OK < 100 }

type cell struct {
	hist              *hdrhistogram.Histogram
	ok, fail, unknown int
}

// latencies makes the rows of the clients' operations (the harness's own are no
// measure of the system) and of the spans of jobs, by operation, then phase in order, then
// AllPhases.
func (a *Analysis) latencies(spans []history.Operation) (Latencies, error) {
	type key struct {
		op    history.Op
		phase string
	}
	cells := map[key]*cell{}
	var names []history.Op
	for _, ops := range [][]history.Operation{spans, a.Ops} {
		for i := range ops {
			op := &ops[i]
			if !Client(op.Invoke.Proc) {
				continue
			}
			k := key{op.Invoke.Op, a.Phase(*op)}
			if cells[k] == nil {
				cells[k] = &cell{hist: NewHistogram()}
			}
			if !slices.Contains(names, k.op) {
				names = append(names, k.op)
			}
			if err := cells[k].add(op); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(names, CompareOps)
	order := slices.DeleteFunc(a.PhaseNames(), func(p string) bool { return p == "" })
	order = slices.Insert(order, 0, "") // operations before the first phase, and of one without a name
	var out Latencies
	for _, op := range names {
		all := &cell{hist: NewHistogram()}
		for _, phase := range order {
			c := cells[key{op, phase}]
			if c == nil {
				continue
			}
			if err := Merge(all.hist, c.hist); err != nil {
				return nil, err
			}
			all.ok, all.fail, all.unknown = all.ok+c.ok, all.fail+c.fail, all.unknown+c.unknown
			out = append(out, c.row(op, phase))
		}
		out = append(out, all.row(op, AllPhases))
	}
	return out, nil
}

func (c *cell) add(op *history.Operation) error {
	switch op.Outcome {
	case history.OK:
		c.ok++
		if err := Record(c.hist, time.Duration(op.End.TS-op.Invoke.TS)); err != nil {
			return fmt.Errorf("%s:%d: %w", op.End.File, op.End.Line, err)
		}
	case history.Fail:
		c.fail++
	default:
		c.unknown++
	}
	return nil
}

func (c *cell) row(op history.Op, phase string) Latency {
	return Latency{
		Op: op, Phase: phase, OK: c.ok, Fail: c.fail, Unknown: c.unknown,
		P50: Quantile(c.hist, 50), P95: Quantile(c.hist, 95), P99: Quantile(c.hist, 99), Max: Quantile(c.hist, 100),
	}
}

// Latencies are the rows of the table.
type Latencies []Latency

// Of returns the row of an operation and phase, without operations if there is none.
func (ls Latencies) Of(op history.Op, phase string) Latency {
	if i := slices.IndexFunc(ls, func(l Latency) bool { return l.Op == op && l.Phase == phase }); i >= 0 {
		return ls[i]
	}
	return Latency{Op: op, Phase: phase}
}

// Headline compares the run's main operation before and during the faults: the
// lock wait, or the acquire in a history without it, or the wait for a job's first
// run. ok is false if either phase has no latency of it.
func (ls Latencies) Headline() (before, during Latency, ok bool) {
	for _, op := range []history.Op{history.OpLock, history.OpAcquire, OpStart} {
		before, during = ls.Of(op, history.PhaseBefore), ls.Of(op, history.PhaseFault)
		if before.OK > 0 && during.OK > 0 {
			return before, during, true
		}
	}
	return Latency{}, Latency{}, false
}

// Ratio is b/a, 0 if a is 0.
func Ratio(b, a time.Duration) float64 {
	if a <= 0 {
		return 0
	}
	return float64(b) / float64(a)
}

// Bounds of every histogram, in µs: 1 µs to 1 h with three significant digits.
// They must be the same everywhere: a merge into narrower bounds drops counts.
const (
	lowestUS  = 1
	highestUS = int64(time.Hour / time.Microsecond)
	digits    = 3
)

// NewHistogram returns an empty histogram of latencies in µs.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestUS, highestUS, digits) }

// Record records d, rounded up to whole µs and at least 1. A latency beyond the
// bounds is an error and is not recorded.
func Record(h *hdrhistogram.Histogram, d time.Duration) error {
	us := max(int64((d+time.Microsecond-1)/time.Microsecond), lowestUS)
	if err := h.RecordValue(us); err != nil {
		return fmt.Errorf("latency %s is beyond what can be recorded (1 µs to 1 h): %w", d, err)
	}
	return nil
}

// Merge adds from to into. An error says that counts would have been lost, which
// happens only between histograms of different bounds.
func Merge(into, from *hdrhistogram.Histogram) error {
	if dropped := into.Merge(from); dropped != 0 {
		return fmt.Errorf("%d latencies lost in a merge: the histograms have different bounds", dropped)
	}
	return nil
}

// Quantile returns the latency at percent (99 is p99), 0 for an empty histogram.
func Quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	if h == nil || h.TotalCount() == 0 {
		return 0
	}
	return time.Duration(h.ValueAtQuantile(percent)) * time.Microsecond
}

// Spans of a job's life that are measured like operations.
const (
	OpStart = history.SpanStart
	OpRun   = history.SpanRun
)

// maxBuckets bounds the timeline's length: long runs get wider buckets.
const maxBuckets = 240

// bucketWidths are what a bucket may be, from the narrowest. A run of several
// seconds has buckets of one second; only a very short one has narrower.
var bucketWidths = []time.Duration{
	250 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// shortRun is the length up to which a run gets the narrowest buckets.
const shortRun = 8 * time.Second

// maxSlow bounds the slow operations kept an operation kind.
const maxSlow = 100

// Timeline is the run in buckets of equal width from Analysis.Start.
type Timeline struct {
	Width   time.Duration
	Buckets []Bucket
	Ops     []OpLine // operations of clients, in listing order
}

// Bucket counts the operations of clients that ended in it; those without an end
// are counted where they were invoked.
type Bucket struct {
	From              int64
	Seconds           float64 // its width; the last one's is what the run reached
	Cycles            int     // releases that ended ok
	OK, Fail, Unknown int
}

// OpLine is one kind of operation over time.
type OpLine struct {
	Op   history.Op
	Cuts []Cut // one a bucket
	Slow []Slow
}

// Cut is the latency of a bucket's ok operations.
type Cut struct {
	N        int
	P50, P99 time.Duration
}

// Slow is a single operation worth a point of its own: slower than 99 % of its
// kind, or of unknown outcome.
type Slow struct {
	At      int64 // its end
	Latency time.Duration
	Outcome history.Type
}

func timeline(a *Analysis) Timeline {
	length := time.Duration(a.End - a.Start)
	if length <= 0 || len(a.Ops) == 0 {
		return Timeline{Width: time.Second}
	}
	t := Timeline{Width: bucketWidth(length)}
	n := int((length + t.Width - 1) / t.Width)
	t.Buckets = make([]Bucket, n)
	for i := range t.Buckets {
		from := a.Start + int64(i)*int64(t.Width)
		t.Buckets[i].From = from
		t.Buckets[i].Seconds = time.Duration(min(int64(t.Width), a.End-from)).Seconds()
	}
	at := func(ts int64) int { return min(max(int((ts-a.Start)/int64(t.Width)), 0), n-1) }
	byOp := map[history.Op][]*history.Operation{}
	for i := range a.Ops {
		op := &a.Ops[i]
		if !Client(op.Invoke.Proc) {
			continue
		}
		byOp[op.Invoke.Op] = append(byOp[op.Invoke.Op], op)
		b := &t.Buckets[at(max(op.Invoke.TS, op.End.TS))]
		switch op.Outcome {
		case history.OK:
			b.OK++
			if op.Invoke.Op == history.OpRelease {
				b.Cycles++
			}
		case history.Fail:
			b.Fail++
		default:
			b.Unknown++
		}
	}
	for _, op := range slices.SortedFunc(maps.Keys(byOp), CompareOps) {
		line := OpLine{Op: op, Cuts: make([]Cut, n)}
		samples := make([][]time.Duration, n)
		for _, o := range byOp[op] {
			if o.Outcome == history.OK {
				i := at(o.End.TS)
				samples[i] = append(samples[i], time.Duration(o.End.TS-o.Invoke.TS))
			}
		}
		for i, s := range samples {
			slices.Sort(s)
			line.Cuts[i] = Cut{N: len(s), P50: rank(s, 50), P99: rank(s, 99)}
		}
		line.Slow = slow(byOp[op])
		t.Ops = append(t.Ops, line)
	}
	return t
}

func bucketWidth(length time.Duration) time.Duration {
	if length <= shortRun {
		return bucketWidths[0]
	}
	for _, w := range bucketWidths[1:] {
		if length/w < maxBuckets {
			return w
		}
	}
	w := bucketWidths[len(bucketWidths)-1]
	for length/w >= maxBuckets {
		w *= 2
	}
	return w
}

// rank is the nearest-rank percentile of sorted samples, 0 without any.
func rank(sorted []time.Duration, percent float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(percent/100*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// slow picks the slowest percent and what ended unknown, the slowest first kept.
func slow(ops []*history.Operation) []Slow {
	var oks []time.Duration
	for _, o := range ops {
		if o.Outcome == history.OK {
			oks = append(oks, time.Duration(o.End.TS-o.Invoke.TS))
		}
	}
	slices.Sort(oks)
	limit := rank(oks, 99)
	var out []Slow
	for _, o := range ops {
		d := time.Duration(o.End.TS - o.Invoke.TS)
		if o.End.TS == 0 || o.Outcome == history.Fail || o.Outcome == history.OK && d < limit {
			continue
		}
		out = append(out, Slow{At: o.End.TS, Latency: d, Outcome: o.Outcome})
	}
	slices.SortStableFunc(out, func(a, b Slow) int { return cmp.Compare(b.Latency, a.Latency) })
	out = out[:min(len(out), maxSlow)]
	slices.SortStableFunc(out, func(a, b Slow) int { return cmp.Compare(a.At, b.At) })
	return out
}
