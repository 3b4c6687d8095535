package broken

import (
	"sync"

	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func init() {
	plant("recorder-drops", only(workload.Hooks{Recorder: recorderDrops}))
	plant("recorder-late-calls", only(workload.Hooks{Recorder: lateCalls}))
	plant("recorder-unknown-fail", only(workload.Hooks{Recorder: unknownAsFail}))
}

// recorderDrops loses every 50th operation, invocation and end.
func recorderDrops(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return dropping{inner}
}

type dropping struct{ workload.Recorder }

func (d dropping) Record(e history.Event) int64 {
	if e.ID > 0 && e.ID%50 == 0 {
		return d.Now()
	}
	return d.Recorder.Record(e)
}

// unknownAsFail records what nobody knows as what did not happen.
func unknownAsFail(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return pessimist{inner}
}

type pessimist struct{ workload.Recorder }

func (p pessimist) Record(e history.Event) int64 {
	if e.Type == history.Unknown {
		e.Type, e.ServerTimeout = history.Fail, false
	}
	return p.Recorder.Record(e)
}

// lateCalls dates the calls of a lock operation when its answer is there.
func lateCalls(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return &lateRecorder{Recorder: inner, open: map[int64]history.Event{}}
}

type lateRecorder struct {
	workload.Recorder
	mu   sync.Mutex
	open map[int64]history.Event
}

func (l *lateRecorder) Record(e history.Event) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Op {
	case history.OpAcquire, history.OpRenew, history.OpRelease:
	default:
		return l.Recorder.Record(e)
	}
	if e.Type == history.Invoke {
		l.open[e.ID] = e
		return l.Now()
	}
	if inv, ok := l.open[e.ID]; ok {
		delete(l.open, e.ID)
		l.Recorder.Record(inv)
	}
	return l.Recorder.Record(e)
}
