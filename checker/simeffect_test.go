package checker

import (
	"fmt"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// critical is the protected section.
func (c *simClient) critical(t *task, lock string, l *lease) {
	w, res, token := c.w, "res-"+lock, l.token
	if w.cfg.bug != bugNoRaise {
		if r, ok := c.send(t, history.Event{Op: history.OpRaise, Key: res, Issuer: lock, Token: token}); !ok || r != past.ResultApplied {
			return
		}
	}
	value, ok := c.get(t, res)
	if !ok {
		return
	}
	decided := w.stamp()
	if !c.valid(lock, l) {
		return
	}
	note := history.Event{Proc: c.proc, Type: history.Note, Op: history.NoteStart, Key: lock, Token: token, DecidedAt: decided}
	w.record(c.f, note)
	if w.chance(w.cfg.pause) {
		c.paused = w.now + int64(w.between(w.cfg.ttl/2, 2*w.cfg.ttl))
	}
	c.sleep(t, w.between(time.Millisecond, w.cfg.ttl/4))
	if long := c.stays(); long > 0 {
		c.sleep(t, long)
	}
	if w.cfg.bug == bugEarlyRelease {
		l.closing, l.released = true, true
		for l.renewing {
			c.sleep(t, time.Millisecond)
		}
		free := history.Version{Fence: l.row.Fence, Beat: l.row.Beat + 1, Attempt: w.uuid()}
		c.cas(t, history.OpRelease, lock, l.row, free, false)
	}
	if w.chance(0.1) {
		c.sleep(t, 2*w.cfg.ttl) // a long job, kept alive by renewals
	}
	decided = w.stamp()
	if c.valid(lock, l) {
		if w.chance(w.cfg.pause) {
			c.paused = w.now + int64(w.between(w.cfg.ttl/2, 3*w.cfg.ttl))
			c.sleep(t, 1)
		}
		value++
		c.send(t, history.Event{
			Op: history.OpEffect, Key: res, Issuer: lock, Token: token, DecidedAt: decided,
			EffectKey: fmt.Sprintf("%s/%s#%d", lock, c.proc, c.grants), Value: &value,
		})
	}
	w.record(c.f, history.Event{Proc: c.proc, Type: history.Note, Op: history.NoteFinish, Key: lock, Token: token})
}

// send makes a raise or an effect.
func (c *simClient) send(t *task, e history.Event) (result string, ok bool) {
	w := c.w
	e.Proc, e.ID, e.Type = c.proc, c.f.id(), history.Invoke
	w.record(c.f, e)
	if w.cfg.bug == bugAckEffect && e.Op == history.OpEffect {
		c.lazily(e)
		return past.ResultApplied, true
	}
	tries := 4
	if w.cfg.bug == bugNoKey {
		tries = 1
	}
	req := e
	type answer struct {
		Result    string
		Seen, Seq int64
	}
	sent := w.now
	r := c.request(t, tries, w.cfg.ttl/6, func() any {
		s := w.sinks[req.Key]
		entries := len(s.ledger)
		result, seen, seq := s.call(w.cfg.bug, req)
		if w.cfg.witnessed && len(s.ledger) > entries {
			s.ledger[entries].At = w.stamp()
		}
		said := req
		said.Result, said.Seen, said.Seq = result, seen, seq
		w.answered(said, sent)
		return answer{Result: result, Seen: seen, Seq: seq}
	})
	e.DecidedAt, e.Value = 0, nil
	switch {
	case r.refused:
		e.Type, e.Error = history.Fail, "not sent"
	case !r.answered:
		e.Type, e.Error, e.ServerTimeout = history.Unknown, "timeout", r.server
	default:
		a := r.result.(answer)
		e.Type, e.Result, e.Seen, e.Seq = history.OK, a.Result, a.Seen, a.Seq
		if a.Result == past.ResultStale {
			e.Type = history.Fail
			if r.copies > 1 {
				e.Type = history.Unknown
			}
		}
	}
	w.record(c.f, e)
	return e.Result, e.Type == history.OK
}

func (c *simClient) get(t *task, res string) (int64, bool) {
	w := c.w
	e := history.Event{Proc: c.proc, ID: c.f.id(), Type: history.Invoke, Op: history.OpGet, Key: res}
	w.record(c.f, e)
	sent := w.now
	r := c.request(t, 2, w.cfg.ttl/6, func() any {
		s := *w.sinks[res]
		said := e
		said.Value, said.Seen, said.Seq = &s.value, s.seen, s.seq
		w.answered(said, sent)
		return s
	})
	if !r.answered {
		e.Type, e.Error = history.Unknown, "timeout"
		w.record(c.f, e)
		return 0, false
	}
	s := r.result.(simSink)
	if at := w.sinks[res]; at.read != nil {
		at.read[history.Life(c.proc)] = s.seen
	}
	e.Type, e.Value, e.Seen, e.Seq = history.OK, &s.value, s.seen, s.seq
	w.record(c.f, e)
	return s.value, true
}

// answered notes what the sink answered, as a link carried it. e is the request with its answer.
func (w *world) answered(e history.Event, sent int64) {
	if !w.cfg.witnessed {
		return
	}
	w.record(w.host, history.Event{
		Proc: history.Harness, Type: history.Note, Op: history.NoteAnswer, Key: e.Key, Issuer: e.Issuer, Token: e.Token, EffectKey: e.EffectKey, Value: e.Value,
		Result: e.Result, Seen: e.Seen, Seq: e.Seq, Details: &history.Details{Asked: &history.Asked{Op: e.Op, Worker: history.Worker(e.Proc), Sent: sent}},
	})
}
