package cluster

import (
	"sync"

	"fencepost/harness/record/history"
)

// Watchers are told how processes of nodes end. The zero value has none.
type Watchers struct {
	mu   sync.Mutex
	next int
	all  map[int]func(*history.ProcessLife)
}

// Watch has ended called with each end from now on, until stop is called.
func (w *Watchers) Watch(ended func(*history.ProcessLife)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[int]func(*history.ProcessLife){}
	}
	w.next++
	n := w.next
	w.all[n] = ended
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, n)
	}
}

// Tell tells all of an end.
func (w *Watchers) Tell(l *history.ProcessLife) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.all {
		f(l)
	}
}

// Watch has ended called with each end of a process of a cluster's nodes, until stop is
// called. Of nodes that the harness has not started nobody hears.
func Watch(c Cluster, ended func(*history.ProcessLife)) (stop func()) {
	if w, ok := c.(interface {
		Watch(func(*history.ProcessLife)) func()
	}); ok {
		return w.Watch(ended)
	}
	return func() {}
}
