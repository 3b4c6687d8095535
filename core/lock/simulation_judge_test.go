package lock_test

import (
	"fmt"
	"strings"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
)

// granted checks a grant the moment it is returned.
func (w *world) granted(p *process, l *lock.Lease) {
	w.mu.Lock()
	if last := w.tokens[l.Resource()]; l.Token() <= last {
		w.violateLocked("token", "%s: token %d was granted after %d", l.Resource(), l.Token(), last)
	}
	w.tokens[l.Resource()] = max(w.tokens[l.Resource()], l.Token())
	w.leases[l.Resource()] = append(w.leases[l.Resource()], held{p, l})
	first := time.Duration(-1)
	for _, r := range p.ops {
		if r.op.Kind == lock.Acquire && r.op.Resource == l.Resource() && r.op.To.Fence == l.Token() && r.op.Holder == l.Holder() && r.result != nil && r.result.Outcome == store.OK {
			first = r.sends[0]
		}
	}
	w.mu.Unlock()
	if limit := first + l.TTL(); first < 0 || l.Deadline() >= limit+l.TTL() {
		// A renewal may have moved it by now, by less than a ttl.
		w.violate("anchor", "lease %d: deadline %s, first send %s, ttl %s", l.Token(), l.Deadline(), first, l.TTL())
	}
	w.exclusive(l.Resource())
	w.count("grant")
}

// exclusive checks that at most one lease of the resource is valid now.
func (w *world) exclusive(resource string) {
	w.mu.Lock()
	all := w.leases[resource]
	n := len(all)
	var last []held
	for _, h := range all[max(0, n-8):] { // older ones are long over
		if !h.p.crashed {
			last = append(last, h)
		}
	}
	w.mu.Unlock()
	var valid []string
	for _, h := range last {
		if h.l.Valid() {
			valid = append(valid, fmt.Sprintf("%s token %d", h.l.Holder(), h.l.Token()))
		}
	}
	if len(valid) > 1 {
		w.violate("exclusive", "%s: entitled at once: %s", resource, strings.Join(valid, ", "))
	}
}

// judge compares every report with the store's chain.
func (w *world) judge() {
	type id struct {
		resource, attempt string
		fence, beat       int64
	}
	of := func(resource string, v store.Version) id { return id{resource, v.Attempt, v.Fence, v.Beat} }
	applied := map[id]int{}
	last := map[string]*store.Version{}
	for _, c := range w.store.Changes() {
		if !store.Same(last[c.Resource], c.From) {
			w.violate("chain", "%s: %s replaced by %s, but the last write was %s", c.Resource, c.From, &c.To, last[c.Resource])
		}
		var fence, beat int64
		if c.From != nil {
			fence, beat = c.From.Fence, c.From.Beat
		}
		if !(c.To.Fence == fence+1 && c.To.Beat == 0) && !(c.To.Fence == fence && c.To.Beat == beat+1) {
			w.violate("chain", "%s: %s after %s", c.Resource, &c.To, c.From)
		}
		applied[of(c.Resource, c.To)]++
		last[c.Resource] = &c.To
	}
	for _, p := range w.procs {
		for _, r := range p.ops {
			w.judgeOp(p, r, applied[of(r.op.Resource, r.op.To)])
		}
	}
}

func (w *world) judgeOp(p *process, r *recorded, applied int) {
	if r.op.Kind == lock.Read {
		return
	}
	name := fmt.Sprintf("%s: %s of %s by %s from %s to %s", p.name, r.op.Kind, r.op.Resource, r.op.Holder, r.op.From, &r.op.To)
	switch {
	case r.result == nil:
		if !p.crashed {
			w.violate("end", "%s never ended", name)
		}
	case r.result.Outcome == store.OK && applied != 1:
		w.violate("ok", "%s was reported ok and applied %d times", name, applied)
	case r.result.Outcome == store.Fail && applied != 0:
		w.violate("fail", "%s was reported fail and applied", name)
	case r.result.ServerTimeout && r.result.Outcome != store.Unknown:
		w.violate("server-timeout", "%s: outcome %s", name, r.result.Outcome)
	}
	if len(r.sends) == 0 {
		w.violate("sends", "%s began and was never sent", name)
	}
}
