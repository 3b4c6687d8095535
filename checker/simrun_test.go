package checker

import (
	"fmt"
	"strings"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// started hands the claims of a batch to workers.
func (o *simOwner) started(changes []history.Change) {
	for _, c := range changes {
		if c.Do != history.DoClaim {
			continue
		}
		o.lanes++
		x := &simRun{simClient: simClient{w: o.w, f: o.f, proc: fmt.Sprintf("%s/r%d.%s", o.f.header.Proc, o.lanes, o.s.name[len("shard/"):])}, o: o, j: o.w.jobs[c.Job], c: c, due: c.DueMS, fence: o.head.Fence}
		t := o.w.coroutine(x.run)
		t.killed = func() bool { return o.f.dead }
	}
}

// simRun is one run of a job.
type simRun struct {
	simClient
	o     *simOwner
	j     *simJob
	c     history.Change
	due   int64
	fence int64
}

func (x *simRun) valid() bool {
	return x.o.head.Fence == x.fence && (x.o.valid() || x.w.cfg.bug == bugRevive)
}

func (x *simRun) token() int64 {
	if x.w.cfg.bug == bugOtherToken && x.c.Run&0xffffffff%3 == 2 {
		return x.c.Run + 2<<32
	}
	if top := x.w.planted.top; x.w.cfg.bug == bugOneToken {
		life := history.Life(x.proc)
		top[life] = max(top[life], x.c.Run)
		return top[life]
	}
	return x.c.Run
}

// issuer is whom sink calls name.
func (x *simRun) issuer() string {
	if x.w.cfg.bug == bugOneIssuer {
		return x.w.shards[0].name
	}
	return x.o.s.name
}

func (x *simRun) run(t *task) {
	w := x.w
	decided, wall := w.stamp(), w.wall(x.proc)
	if !x.valid() {
		return
	}
	w.record(x.f, history.Event{Proc: x.proc, Type: history.Note, Op: history.NoteStart, Key: x.j.id, Issuer: x.o.s.name, Token: x.c.Run, DecidedAt: decided, Details: &history.Details{Attempt: x.c.Attempt, DueMS: x.due, WallMS: wall}})
	if w.chance(w.cfg.pause) {
		x.paused = w.now + int64(w.between(w.cfg.ttl/2, 2*w.cfg.ttl))
	}
	why := x.work(t)
	w.record(x.f, history.Event{Proc: x.proc, Type: history.Note, Op: history.NoteFinish, Key: x.j.id, Issuer: x.o.s.name, Token: x.c.Run, Error: why})
	x.done(why)
}

// work has the job's effects, each once.
func (x *simRun) work(t *task) string {
	w, res := x.w, x.j.Resource
	if r, ok := x.send(t, history.Event{Op: history.OpRaise, Key: res, Issuer: x.issuer(), Token: x.token()}); !ok || r != past.ResultApplied {
		return "raise: " + r
	}
	value, ok := x.get(t, res)
	if !ok {
		return "get"
	}
	x.sleep(t, w.between(time.Millisecond, w.cfg.ttl/5))
	if w.chance(0.08) {
		return "the handler failed"
	}
	if w.chance(0.03) {
		return past.CancelPrefix + ": no reason given"
	}
	for _, step := range x.j.Steps {
		if _, done := w.sinks[res].applied[step]; done && w.cfg.bug != bugNoKey {
			continue
		}
		decided := w.stamp()
		if !x.valid() {
			return "the shard is lost"
		}
		if w.chance(w.cfg.pause) {
			x.paused = w.now + int64(w.between(w.cfg.ttl/2, 3*w.cfg.ttl))
			x.sleep(t, 1)
		}
		next := value + 1
		for range 3 { // an unknown effect is settled by the same again
			r, ok := x.send(t, history.Event{Op: history.OpEffect, Key: res, Issuer: x.issuer(), Token: x.token(), DecidedAt: decided, EffectKey: step, Value: &next})
			if ok {
				value = next
				break
			}
			if r != "" {
				return "effect: " + r
			}
			if decided = w.stamp(); !x.valid() {
				return "the shard is lost"
			}
		}
		if value != next {
			return "effect: unknown"
		}
	}
	return ""
}

// spent is how many attempts the job has spent with this run.
func (x *simRun) spent() int {
	if r := x.o.s.rows[x.j.id]; r != nil && x.w.cfg.bug != bugCountsCut {
		return x.c.Attempt - r.spared
	}
	return x.c.Attempt
}

// wait is the backoff after the run, in ms.
func (x *simRun) wait() int64 {
	u := float64(x.w.rng.IntN(300)) / 300
	if x.w.cfg.bug == bugRetryNow {
		return 0
	}
	r, n := x.j.Retry, max(x.spent(), 1)
	if len(r.DelaysMS) > 0 {
		return r.DelaysMS[min(n, len(r.DelaysMS))-1]
	}
	d := float64(min(r.BaseMS<<(n-1), r.MaxMS))
	return int64(d * (1 + r.Jitter*(2*u-1)))
}

// done tells the owner how the run ended.
func (x *simRun) done(why string) {
	w, o := x.w, x.o
	if o.head.Fence != x.fence || o.over {
		return
	}
	c := history.Change{Job: x.j.id, Do: history.DoComplete, Run: x.c.Run, Attempt: x.c.Attempt}
	switch {
	case strings.HasPrefix(why, past.CancelPrefix):
		c.Do = history.DoCancel
	case why != "" && x.spent() >= x.j.MaxAttempts:
		c.Do = history.DoDLQ
	case why != "":
		c.Do, c.DueMS = history.DoRetry, max(x.due, w.wall(x.proc)+x.wait())
	}
	delete(o.running, x.j.id)
	if w.cfg.bug == bugPlainComplete && c.Do == history.DoComplete && w.chance(0.2) {
		if r := o.s.rows[x.j.id]; r != nil {
			r.state, r.ended = past.StateCompleted, w.now
			if w.cfg.noted {
				x.plainStatement("BEGIN UNLOGGED BATCH INSERT INTO shards (queue, shard, id, state) VALUES (?, ?, ?, ?); DELETE FROM shards WHERE queue = ? AND shard = ? AND id = ?; APPLY BATCH")
			}
		}
		return
	}
	o.finished = append(o.finished, c)
}

// finalRead is the harness's last look at a resource.
func (w *world) finalRead(res string) {
	s := w.sinks[res]
	g := history.Event{Proc: history.Harness, ID: w.host.id(), Type: history.Invoke, Op: history.OpGet, Key: res}
	w.record(w.host, g)
	value := s.value
	g.Type, g.Value, g.Seen, g.Seq = history.OK, &value, s.seen, s.seq
	w.record(w.host, g)
	for i := range s.ledger {
		w.record(w.host, history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteLedger, Key: res, Details: &history.Details{Ledger: &s.ledger[i]}})
	}
}

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
