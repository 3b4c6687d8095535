package broken

import (
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/target/workload"
)

// tracker watches the lock client for variants that keep a lease's times or
// version by themselves. Its hook observer must be among the variant's.
type tracker struct {
	cfg workload.Config
	obs lock.Observer // the workload's own, for requests that a variant makes itself

	mu   sync.Mutex
	held map[string]held // by resource and holder
}

// held is what the last acknowledged acquire or renewal made of a lease.
type held struct {
	version  store.Version
	takeover bool      // the acquire took another's lease over
	answered time.Time // the answer to its last copy
}

func newTracker() *tracker { return &tracker{held: map[string]held{}} }

func (t *tracker) observer(cfg workload.Config, inner lock.Observer) lock.Observer {
	t.cfg, t.obs = cfg, inner
	return trackingObserver{inner, t}
}

func (t *tracker) get(resource, holder string) (held, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.held[resource+"\x00"+holder]
	return h, ok
}

func (t *tracker) set(resource, holder string, h held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[resource+"\x00"+holder] = h
}

type trackingObserver struct {
	lock.Observer
	t *tracker
}

func (o trackingObserver) Begin(op lock.Op) lock.Span {
	s := o.Observer.Begin(op)
	if op.Kind == lock.Acquire || op.Kind == lock.Renew {
		return trackingSpan{s, op, o.t}
	}
	return s
}

type trackingSpan struct {
	lock.Span
	op lock.Op
	t  *tracker
}

func (s trackingSpan) End(r lock.Result) {
	if r.Outcome == store.OK {
		old, _ := s.t.get(s.op.Resource, s.op.Holder)
		takeover := s.op.Takeover || s.op.Kind == lock.Renew && old.takeover
		s.t.set(s.op.Resource, s.op.Holder, held{version: s.op.To, takeover: takeover, answered: time.Now()})
	}
	s.Span.End(r)
}
