package run

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

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
			n.ID, n.Sent = inv.ID, o.firstSent(h, inv)
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
func (o *ownRun) firstSent(h *history.History, inv *history.Event) int64 {
	if inv.Op != history.OpEffect {
		return o.firstWrite(h, inv)
	}
	sent := int64(0)
	for i := range h.Events {
		e := &h.Events[i]
		asked := e.Asked()
		if e.Op != history.NoteAnswer || asked == nil || asked.Op != history.OpEffect || asked.Worker != history.Worker(inv.Proc) || e.EffectKey != inv.EffectKey {
			continue
		}
		if sent == 0 || asked.Sent < sent {
			sent = asked.Sent
		}
	}
	return sent
}

// firstWrite finds a compare-and-set among the writes of a worker since its client's last event: by
// the lock's name and what it alone sets, or, where that is kept in another form than recorded, by the
// name and the row's holder or its fence, since the operation was recorded. (A renewal's attempt and beat
// may be in the acquire too.) On another store what it alone has is the attempt: a release may set nothing.
func (o *ownRun) firstWrite(h *history.History, inv *history.Event) int64 {
	worker, name := history.Worker(inv.Proc), forms(inv.Key)
	if o.servers != nil {
		attempt := inv.To.Attempt
		if inv.To.Absent {
			attempt = inv.From.Attempt
		}
		return o.written.FirstWrite(worker, lastBefore(h, inv), name, forms(attempt))
	}
	own := [][][]byte{name, forms(inv.To.Attempt)}
	if inv.Op == history.OpRenew {
		own = append(own, number(inv.To.Beat))
	}
	if sent := o.written.FirstWrite(worker, lastBefore(h, inv), own...); sent > 0 {
		return sent
	}
	return o.written.FirstWrite(worker, inv.TS, name, append(forms(inv.Proc), number(inv.To.Fence)...))
}

// lastBefore is when a client had last recorded something before an operation; 0: never.
func lastBefore(h *history.History, inv *history.Event) (ts int64) {
	for i := range h.Events {
		e := &h.Events[i]
		if e.TS >= inv.TS {
			break
		}
		if e.Proc == inv.Proc {
			ts = e.TS
		}
	}
	return ts
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
