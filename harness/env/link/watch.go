package link

import "time"

// Watch is evidence of what links did from one moment on: start it when a fault
// is injected, read it when the fault is healed. A stall that held no byte and a
// drop that dropped none were never tested, whatever the run shows.
type Watch struct {
	since time.Time
	links []*Link
	base  map[string]Counters
}

// NewWatch starts to watch the links. Start it when Apply has returned: all
// writes from before are counted then, so that a single byte passed under a cut is
// a leak. A watch started earlier may show a write that was under way.
func NewWatch(links []*Link) *Watch {
	w := &Watch{since: time.Now(), links: links, base: make(map[string]Counters, len(links))}
	for _, l := range links {
		w.base[l.Name()] = l.Counters()
	}
	return w
}

// Since is when the watch started.
func (w *Watch) Since() time.Time { return w.since }

// Delta is what happened on each link since, by name. A link that was removed
// keeps its last counters.
func (w *Watch) Delta() map[string]Counters {
	out := make(map[string]Counters, len(w.links))
	for _, l := range w.links {
		out[l.Name()] = l.Counters().Sub(w.base[l.Name()])
	}
	return out
}

// Total is the sum of Delta.
func (w *Watch) Total() Counters {
	var sum Counters
	for _, c := range w.Delta() {
		sum = sum.Add(c)
	}
	return sum
}
