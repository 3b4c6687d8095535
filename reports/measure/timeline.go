package measure

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"fencepost/harness/record/history"
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
