package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/store"
)

// timed is an operator whose operations take their time and some requests.
type timed struct {
	takes       func(n int64) time.Duration
	end         func(n int64) End
	begun, sent atomic.Int64
}

func (o *timed) Operate(_ context.Context, _ *Thread, _ func() bool) End {
	n := o.begun.Add(1)
	o.sent.Add(1)
	time.Sleep(o.takes(n))
	o.sent.Add(1)
	if o.end == nil {
		return End{Outcome: store.OK, Parts: []time.Duration{o.takes(n) / 2}}
	}
	return o.end(n)
}

func (o *timed) Traffic() Traffic {
	return Traffic{LWTs: o.sent.Load(), SinkLWTs: 3 * o.begun.Load()}
}

func always(d time.Duration) func(int64) time.Duration {
	return func(int64) time.Duration { return d }
}

var errOnPurpose = errors.New("fails on purpose")

func TestLoop(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name                  string
		lead                  time.Duration
		takes                 func(int64) time.Duration
		end                   func(int64) End
		ok, fail, unknown     int64
		waiting               int
		oldest                time.Duration
		sent, done, sink, all int64
	}{
		// Two threads, a window of 1 s. Operations that end exactly with it count, and
		// none begins after it.
		{name: "without a lead", takes: always(100 * ms), ok: 20, sent: 40, done: 20, sink: 60, all: 20},
		{name: "what is on its way", takes: always(300 * ms), ok: 6, waiting: 2, oldest: 100 * ms, sent: 16, done: 8, sink: 24, all: 8},
		// In 500 ms of lead each thread ends one operation at 300 ms, in the window
		// those that end at 600, 900, 1200 and 1500 ms, the last request with its end.
		{name: "with a lead", lead: 500 * ms, takes: always(300 * ms), ok: 8, sent: 13, done: 8, sink: 30, all: 10},
		{name: "not ok", takes: always(250 * ms), end: func(n int64) End {
			switch n % 4 {
			case 0:
				return EndOf(&store.Error{Outcome: store.Fail, Cause: errOnPurpose})
			case 1:
				return EndOf(errOnPurpose)
			}
			return End{Outcome: store.OK, Parts: []time.Duration{ms}}
		}, ok: 4, fail: 2, unknown: 2, sent: 16, done: 4, sink: 24, all: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := Window{Arm: Arm{ID: "x", Threads: 2, Parts: []string{"half"}}, Lead: c.lead, Length: time.Second}
			op := &timed{takes: c.takes, end: c.end}
			s, err := w.Loop(t.Context(), op)
			if err != nil {
				t.Fatal(err)
			}
			if s.OK != c.ok || s.Fail != c.fail || s.Unknown != c.unknown || s.Waiting != c.waiting || s.Oldest != c.oldest {
				t.Errorf("%s: %d ok, %d failed, %d unknown, %d waiting for %s; want %d, %d, %d, %d, %s", c.name,
					s.OK, s.Fail, s.Unknown, s.Waiting, s.Oldest, c.ok, c.fail, c.unknown, c.waiting, c.oldest)
			}
			if s.Done != c.done || s.SinkLWTs != c.sink || s.Ended != c.all {
				t.Errorf("%s: %d done, %d of the sink for %d; want %d, %d for %d", c.name, s.Done, s.SinkLWTs, s.Ended, c.done, c.sink, c.all)
			}
			if d := s.Sent.LWTs - c.sent; d != 0 && (c.lead == 0 || d < -1 || d > 1) {
				t.Errorf("%s: %d sent, want %d", c.name, s.Sent.LWTs, c.sent)
			}
			if s.Latency.TotalCount() != c.ok || s.Parts[0].TotalCount() != c.ok {
				t.Errorf("%s: %d latencies, %d halves", c.name, s.Latency.TotalCount(), s.Parts[0].TotalCount())
			}
			if (s.Error != "") != (c.fail+c.unknown > 0) {
				t.Errorf("%s: error %q", c.name, s.Error)
			}
		})
	}
}

func TestLoopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		begin := time.Now()
		w := Window{Arm: Arm{ID: "x", Threads: 2, Parts: []string{"half"}}, Length: time.Hour}
		if _, err := w.Loop(ctx, &timed{takes: always(100 * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != 300*time.Millisecond {
			t.Errorf("it took %s: the operations that were begun take until 300ms", d)
		}
	})
}

func TestLoad(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := seconds
	a := weather{at: begin, own: s(1), nodes: s(10), all: s(50), stole: s(1), known: true}
	b := weather{at: begin.Add(s(2)), own: s(2), nodes: s(12), all: s(54), stole: s(1.5), known: true}
	got := b.since(a)
	for name, v := range map[string][2]float64{
		"own": {got.Own, 0.5}, "nodes": {got.Nodes, 1}, "other": {got.Other, 0.5}, "stolen": {got.Stolen, 0.25},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s: %v cores, want %v", name, v[0], v[1])
		}
	}
	b.known = false
	if got := b.since(a); got.Known || got.Other != 0 || got.Own != 0.5 {
		t.Errorf("%+v: what could not be read is not known", got)
	}
}

func TestReadWeather(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	if w := readWeather([]int{os.Getpid()}); !w.known || w.all <= 0 {
		t.Errorf("%+v", w)
	}
	if w := readWeather([]int{1 << 30}); w.known {
		t.Errorf("a process that does not exist was read: %+v", w)
	}
}
