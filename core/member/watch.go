package member

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
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

// Rank is self's place, from 0, among present for what is called key, by rendezvous
// hashing (Thaler and Ravishankar, 1998): each key has an order of all names of its
// own, so that when one goes, only what it was first for moves. Self counts whether it
// is present or not.
func Rank(key, self string, present []string) int {
	rank, own := 0, score(key, self)
	for _, name := range present {
		if name != self && score(key, name) > own {
			rank++
		}
	}
	return rank
}

// Share divides keys among names as evenly as it can be done: each key, in sorted order,
// goes to the first in its order of names (see Rank) who has not got its share yet
// (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam, 2018).
// The result is the same for everybody who knows the same keys and names.
func Share(keys, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	left := make(map[string]int, len(names)) // what each may still take
	for i, name := range slices.Sorted(slices.Values(names)) {
		left[name] = len(keys) / len(names)
		if i < len(keys)%len(names) {
			left[name]++
		}
	}
	out := make(map[string]string, len(keys))
	for _, key := range slices.Sorted(slices.Values(keys)) {
		order := slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(score(key, b), score(key, a)) })
		for _, name := range order {
			if left[name] > 0 {
				left[name]--
				out[key] = name
				break
			}
		}
	}
	return out
}

// score needs a hash whose every bit depends on every byte: names differ in their last.
func score(key, name string) uint64 {
	h := sha256.Sum256([]byte(key + " " + name))
	return binary.BigEndian.Uint64(h[:])
}
