package member

import (
	"slices"
	"time"
)

// Watch tells who is present from what looks at the heartbeats showed, by its own
// clock alone: a member is present until its heartbeat has been seen to stand still
// for the ttl. Looks that fail teach nothing, and time counts up to the last one that
// did not. Not safe for concurrent use.
type Watch struct {
	ttl  time.Duration
	last time.Duration // the newest look
	seen map[string]sighting
}

// sighting is the newest nonce of a member, and the first look that showed it.
type sighting struct {
	nonce string
	since time.Duration
}

// NewWatch returns a watch that takes the expected members for present until they
// have been silent for a ttl.
func NewWatch(ttl, now time.Duration, expected ...string) *Watch {
	w := &Watch{ttl: ttl, last: now, seen: map[string]sighting{}}
	for _, name := range expected {
		w.seen[name] = sighting{since: now}
	}
	return w
}

// Saw takes the answer to a look that returned at now.
func (w *Watch) Saw(nonces map[string]string, now time.Duration) {
	w.last = now
	for name, nonce := range nonces {
		if s, ok := w.seen[name]; !ok || s.nonce != nonce {
			w.seen[name] = sighting{nonce, now}
		}
	}
	for name, s := range w.seen {
		_, there := nonces[name]
		switch {
		case now-s.since >= w.ttl && !there:
			delete(w.seen, name) // forgotten, so that names do not pile up
		case !there && s.nonce != "":
			delete(w.seen, name) // it left
		}
	}
}

// Present returns the names of those that are present, sorted.
func (w *Watch) Present() []string {
	var out []string
	for name, s := range w.seen {
		if w.last-s.since < w.ttl {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
