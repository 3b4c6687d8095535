package measure

import (
	"fmt"
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
