package run

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// A cold cluster is slow at first and quick later: what is compared with phase before
// would look better than it is. So the warmup goes on until latencies no longer fall.
const (
	warmWindow  = 500 * time.Millisecond
	warmLeast   = 8    // operations in a window
	warmWindows = 4    // that are compared, the newer half with the older
	warmFall    = 0.85 // the newer half has at least so much of the older's latency
	warmMost    = 15 * time.Second
)

// warm is the latencies of the warmup: those of conditional writes that were applied, by
// all workers, as they are recorded.
type warm struct {
	sent    map[string]map[int64]int64 // invocations by life and id
	now     []float64                  // of the window that lasts
	began   int64
	medians []float64 // of the windows that are over
}

func (w *warm) add(e *history.Event) {
	switch e.Op {
	case history.OpAcquire, history.OpRelease, history.OpTick:
	default:
		return
	}
	life := history.Life(e.Proc)
	switch e.Type {
	case history.Invoke:
		if w.sent[life] == nil {
			w.sent[life] = map[int64]int64{}
		}
		w.sent[life][e.ID] = e.TS
	case history.OK:
		if at, ok := w.sent[life][e.ID]; ok {
			delete(w.sent[life], e.ID)
			w.now = append(w.now, float64(e.TS-at))
		}
	}
}

// over ends the window if it is long enough, and reports whether it did.
func (w *warm) over(now int64) bool {
	if now-w.began < int64(warmWindow) || len(w.now) < warmLeast {
		return false
	}
	slices.Sort(w.now)
	w.medians, w.now, w.began = append(w.medians, w.now[len(w.now)/2]), w.now[:0], now
	return true
}

// level reports whether the last windows fall no longer.
func (w *warm) level() bool {
	n := len(w.medians)
	if n < warmWindows {
		return false
	}
	older, newer := 0.0, 0.0
	for i, m := range w.medians[n-warmWindows:] {
		if i < warmWindows/2 {
			older += m
		} else {
			newer += m
		}
	}
	return newer >= warmFall*older
}

// warmUp lets the warmup last for d, and then until latencies have settled, for warmMost
// at most. It reports whether they have. A run without such operations waits in vain:
// what is missing is the checker's to say.
func (r *runner) warmUp(ctx context.Context, d time.Duration) (bool, error) {
	feed, err := history.NewFeed(r.historyDir())
	if err != nil {
		return false, err
	}
	w := &warm{sent: map[string]map[int64]int64{}, began: history.Now()}
	least := time.Now().Add(d)
	settled := false
	for time.Now().Before(least) || !settled && time.Now().Before(least.Add(warmMost)) {
		if err := pause(ctx, warmWindow/5); err != nil {
			return false, err
		}
		if err := feed.Next(w.add); err != nil {
			return false, err
		}
		if w.over(history.Now()) {
			settled = w.level()
		}
	}
	if !settled {
		r.progress.problem("latencies had not settled %s after the start: nothing is compared with phase %s", d+warmMost, history.PhaseBefore)
	}
	return settled, r.enough(ctx, history.PhaseWarmup, d)
}

func (r *runner) historyDir() string { return filepath.Join(r.dir, rundir.HistoryDir) }
