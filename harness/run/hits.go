package run

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

// sentPoints are the points that stand before the first copy of a request, with what it is of.
var sentPoints = map[control.Point]history.Op{
	control.AcquireSent: history.OpAcquire, control.RenewSent: history.OpRenew, control.ReleaseSent: history.OpRelease,
	control.EffectSent: history.OpEffect,
}

// noteHits records each client that stood at a point before a request, and when that
// request came to its links: whether it was still to be sent is not the client's to say.
// Nobody sends any more.
func (o *ownRun) noteHits(h *history.History) {
	for _, hit := range o.env.Fleet.Hits() {
		op, before := sentPoints[hit.Point]
		if !before {
			continue
		}
		n := &history.Hit{Proc: hit.Proc, Go: hit.Went}
		if inv := underWay(h, op, hit); inv != nil {
			n.ID, n.Sent = inv.ID, o.firstSent(h, inv, hit)
		}
		o.note(history.Event{TS: hit.At, Op: history.NoteHit, Key: hit.Key, Details: &history.Details{Point: string(hit.Point), Hit: n}})
	}
}

// underWay is the operation of a kind that a client had recorded and not ended when it asked.
func underWay(h *history.History, op history.Op, hit fleet.Hit) (inv *history.Event) {
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.TS > hit.At:
			return inv
		case e.Proc != hit.Proc || e.Op != op || e.Key != hit.Key && e.Issuer != hit.Key:
		case e.Type == history.Invoke:
			inv = e
		case inv != nil && e.ID == inv.ID:
			inv = nil
		}
	}
	return inv
}

// firstSent is when a request first came to its worker's links.
func (o *ownRun) firstSent(h *history.History, inv *history.Event, hit fleet.Hit) int64 {
	if inv.Op != history.OpEffect {
		return o.firstWrite(inv, hit)
	}
	sent := int64(0)
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == history.NoteAnswer && e.Asked() != nil && e.Asked().Op == history.OpEffect && e.Asked().Worker == hit.Worker && e.EffectKey == inv.EffectKey {
			if sent == 0 || e.Asked().Sent < sent {
				sent = e.Asked().Sent
			}
		}
	}
	return sent
}

// firstWrite finds a compare-and-set among the writes of a worker: by the lock's name and
// what it alone sets, or, where that is kept in another form than recorded, by the name and
// the row's holder or its fence, since the operation was recorded.
func (o *ownRun) firstWrite(inv *history.Event, hit fleet.Hit) int64 {
	name := forms(inv.Key)
	own := [][][]byte{name, forms(inv.To.Attempt)}
	if inv.Op == history.OpRenew {
		own = append(own, number(inv.To.Beat))
	}
	if sent := o.cql.FirstWrite(hit.Worker, 0, own...); sent > 0 {
		return sent
	}
	return o.cql.FirstWrite(hit.Worker, inv.TS, name, append(forms(hit.Proc), number(inv.To.Fence)...))
}

// forms are those in which a text may be written into a row: as it is, or as a UUID, bytes or
// a number.
func forms(s string) [][]byte {
	out := [][]byte{[]byte(s)}
	if b, err := hex.DecodeString(strings.ReplaceAll(s, "-", "")); err == nil && len(b) > 0 {
		out = append(out, b)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		out = append(out, number(n)...)
	}
	return out
}

// number is a number as a bigint, an int and a literal.
func number(n int64) [][]byte {
	return [][]byte{
		binary.BigEndian.AppendUint64(nil, uint64(n)), binary.BigEndian.AppendUint32(nil, uint32(n)), []byte(strconv.FormatInt(n, 10)),
	}
}

// stays is what the injections of each fault have shown so far.
type stays struct {
	mu sync.Mutex
	of map[string]*stayed
}

// stayed is by the fault's name.
type stayed struct {
	first  time.Time // when the first injection was in force
	cycles int64     // in those that are over
}

// injected is one injection in force.
type injected struct {
	began   time.Time
	targets []string
	cycles  int64 // of those who count, when it began
}

// inForce notes that a fault is in force now.
func (r *runner) inForce(st *plan.Step, targets []string) injected {
	now := injected{began: time.Now(), targets: targets}
	if p := r.plan.DemandOf(st.Fault); p != nil {
		now.cycles = r.cyclesOf(p.Group, targets)
	}
	r.stays.mu.Lock()
	defer r.stays.mu.Unlock()
	if r.stays.of == nil {
		r.stays.of = map[string]*stayed{}
	}
	if r.stays.of[st.Fault] == nil {
		r.stays.of[st.Fault] = &stayed{first: now.began}
	}
	return now
}

// stay lets the last injection of a fault stay in force until what the scenario demands
// can be seen: for longer than work may stand still, counted from the first injection,
// and until the cycles are there or its time is over, as in enough.
func (r *runner) stay(ctx context.Context, st *plan.Step, id string, in injected) error {
	p := r.plan.DemandOf(st.Fault)
	if p == nil {
		return nil
	}
	w := r.plan.Spec.Workload
	demand := p.Noted(w)
	r.stays.mu.Lock()
	so := r.stays.of[st.Fault]
	first, before := so.first, so.cycles
	r.stays.mu.Unlock()
	if id == r.plan.LastOf(st.Fault) {
		over := first.Add(p.LongestGap.D(w.TTL.D()) + w.TTL.D()/6)
		if err := pause(ctx, time.Until(over)); err != nil {
			return err
		}
		want := int64(demand.MinCycles) + int64(demand.MinCycles)/8 // as in enough
		deadline := in.began.Add(st.For.D() + max(stretch*st.For.D(), leastStretch))
		for before+r.cyclesOf(p.Group, in.targets)-in.cycles < want && time.Now().Before(deadline) {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	r.stays.mu.Lock()
	so.cycles += r.cyclesOf(p.Group, in.targets) - in.cycles
	r.stays.mu.Unlock()
	return nil
}

// cyclesOf are the cycles so far of a group of workers.
func (r *runner) cyclesOf(group string, targets []string) (n int64) {
	for _, w := range r.env.Fleet.Workers() {
		if group == "" || (group == history.GroupTargets) == slices.Contains(targets, w.Name()) {
			n += w.Stats().Cycles
		}
	}
	return n
}
