package checker

import (
	"fmt"
	"time"

	"fencepost/harness/record/history"
)

// simClient is one client of the simulation. It follows the lock protocol:
// whole-version CAS, takeover by observation, trust from the first send.
type simClient struct {
	w      *world
	f      *simFile
	proc   string
	paused int64 // stands still until then
	grants int
}

// worker starts a process life; a crashed one is followed by another.
func (w *world) worker(name string, life int, alive *int) {
	f := w.file(fmt.Sprintf("%s.%d", name, life))
	w.record(f, history.Event{Proc: f.header.Proc, Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &history.Statement{
		CQL: "SELECT fence FROM locks WHERE name = ?", Consistency: "SERIAL", // of what it writes only noted worlds tell
	}}})
	*alive++
	left := w.cfg.clients
	exit := func() {
		if left--; left == 0 {
			w.record(f, history.Event{Proc: f.header.Proc, Type: history.Note, Op: history.NoteExit})
			*alive--
		}
	}
	if w.cfg.shards > 0 {
		left++
		w.owners(f, exit)
	}
	for i := range w.cfg.clients {
		c := &simClient{w: w, f: f, proc: fmt.Sprintf("%s/c%d", f.header.Proc, i+1)}
		task := w.coroutine(func(t *task) {
			for w.cfg.shards == 0 && !w.done && (w.cfg.maxEvents == 0 || w.n < w.cfg.maxEvents) {
				for w.cfg.bug == bugStopsInFault && w.away {
					t.sleep(w.cfg.ttl / 10)
				}
				c.cycle(t)
				t.sleep(w.between(time.Millisecond, 20*time.Millisecond))
			}
			if w.cfg.shards > 0 {
				c.producer(t)
			}
			for !w.done {
				t.sleep(w.cfg.ttl)
			}
			t.sleep(4 * w.cfg.ttl) // what it left in the background ends
			exit()
		})
		task.killed = func() bool { return f.dead }
	}
	if w.chance(w.cfg.crash) && life < 4 {
		w.at(w.now+int64(w.between(w.cfg.length/20, w.cfg.length/2)), func() {
			if w.done || left < w.cfg.clients {
				return
			}
			f.dead = true
			*alive--
			w.record(w.host, history.Event{Proc: f.header.Proc, Type: history.Note, Op: history.NoteCrash, Error: "SIGKILL by f1"})
			w.worker(name, life+1, alive)
		})
	}
}

// fate of one copy of a request, drawn before it is sent.
type copyFate struct {
	exec   time.Duration // after the send; negative: never
	answer time.Duration // negative: none
	server bool          // the answer is the coordinator's timeout
	refuse bool          // certainly not executed, and the client is told so
}

func (w *world) copyFate(timeout time.Duration) copyFate {
	quick := w.between(time.Millisecond, 8*time.Millisecond)
	if !w.chance(w.cfg.noise) {
		return copyFate{exec: quick / 2, answer: quick}
	}
	switch w.rng.IntN(7) {
	case 0:
		return copyFate{exec: -1, answer: -1} // request lost
	case 1:
		return copyFate{exec: quick, answer: -1} // answer lost
	case 2:
		return copyFate{exec: w.between(timeout, 3*timeout), answer: -1} // executed late
	case 3:
		return copyFate{exec: quick, answer: timeout - 1, server: true}
	case 4:
		return copyFate{exec: -1, answer: timeout - 1, server: true}
	case 5:
		return copyFate{exec: -1, answer: quick, refuse: true}
	}
	return copyFate{exec: timeout / 2, answer: timeout - 2} // slow
}

// request sends copies of one request until one is answered or tries are used up.
type reply struct {
	answered, refused, server bool
	copies                    int
	sends                     []int64
	result                    any
}

func (c *simClient) request(t *task, tries int, timeout time.Duration, exec func() any) reply {
	return c.requestOf(t, tries, timeout, false, exec)
}

// requestOf is request, of a lock's row or of something else.
func (c *simClient) requestOf(t *task, tries int, timeout time.Duration, onRow bool, exec func() any) reply {
	w := c.w
	var r reply
	silent := false // a copy without an answer may still be on its way
	for r.copies < tries {
		for onRow && w.cfg.bug == bugOneNode && w.away {
			c.sleep(t, timeout/10)
		}
		r.copies++
		r.sends = append(r.sends, w.stamp())
		fate := w.copyFate(timeout)
		if onRow && w.planted.cut != "" && w.planted.cut == history.Worker(c.proc) {
			fate = copyFate{exec: -1, answer: -1}
		}
		var result any
		if fate.exec >= 0 {
			w.at(w.now+int64(fate.exec), func() { result = exec() })
		}
		if fate.answer < 0 {
			c.sleep(t, timeout)
			silent = true
			continue
		}
		c.sleep(t, fate.answer)
		switch {
		case fate.refuse:
			if r.copies == 1 {
				r.refused = true
				return r
			}
			silent = true
		case fate.server:
			r.server = r.copies == 1 || !silent
			if w.chance(0.5) {
				return r
			}
		default:
			r.answered, r.result, r.server = true, result, false
			return r
		}
	}
	r.server = r.server && !silent
	return r
}

// sleep is the task's, prolonged by a pause of the whole client.
func (c *simClient) sleep(t *task, d time.Duration) {
	t.sleep(d)
	for until := max(c.paused, c.f.asleep); until > c.w.now; until = max(c.paused, c.f.asleep) {
		t.sleep(time.Duration(until - c.w.now))
	}
}

type casReply struct {
	applied bool
	row     history.Version
}

// cas is one compare-and-set by the rules of the protocol.
func (c *simClient) cas(t *task, op history.Op, lock string, from, to history.Version, takeover bool) (history.Type, history.Version, int64) {
	w := c.w
	e := history.Event{Proc: c.proc, ID: c.f.id(), Type: history.Invoke, Op: op, Key: lock}
	inv := e
	inv.From, inv.To, inv.Takeover = &from, &to, takeover
	w.record(c.f, inv)
	tries := 3
	switch b := w.cfg.bug; {
	case op == history.OpAcquire && b == bugUnknownFail, op == history.OpRenew && b == bugHeartbeatDies:
		tries = 1
	case takeover && b == bugPlainTakeover:
		c.sleep(t, w.cfg.ttl/7)
	}
	r := c.requestOf(t, tries, w.cfg.ttl/6, true, func() any {
		return c.execute(op, lock, from, to)
	})
	if op == history.OpRenew && w.cfg.bug == bugHeartbeatDies && !r.answered && !r.refused {
		for range 3 { // what is recorded as sent again is not
			r.sends = append(r.sends, w.stamp())
			c.sleep(t, w.cfg.ttl/6)
		}
	}
	e.Sends = r.sends
	var row history.Version
	switch {
	case r.refused:
		e.Type, e.Error = history.Fail, "not sent"
	case !r.answered:
		e.Type, e.Error, e.ServerTimeout = history.Unknown, "timeout", r.server
	default:
		x := r.result.(casReply)
		row = x.row
		e.Type = settle(op, from, to, x, r.copies == 1)
		if e.Type == history.Fail {
			e.Row = &row
		}
	}
	if w.cfg.bug == bugUnknownFail && op == history.OpAcquire && e.Type == history.Unknown {
		e.Type = history.Fail
	}
	w.record(c.f, e)
	return e.Type, row, r.sends[0]
}

// settle reads an answer: a rejection of the sole copy is plain, after a resend
// the row that came back decides.
func settle(op history.Op, from, to history.Version, x casReply, sole bool) history.Type {
	switch {
	case x.applied:
		return history.OK
	case sole:
		return history.Fail
	}
	row := x.row
	switch op {
	case history.OpAcquire:
		switch {
		case row.Attempt == to.Attempt && row.Holder == to.Holder:
			return history.OK
		case row.Fence == from.Fence || row.Fence == from.Fence+1 && row.Attempt != to.Attempt && row.Holder != "":
			return history.Fail
		}
	case history.OpRenew, history.OpRelease:
		if row == to {
			return history.OK
		}
	}
	return history.Unknown
}

// lease is a held lock.
type lease struct {
	row      history.Version
	token    int64
	since    int64 // its anchor
	offset   int64 // of its holder's wall clock then, in ms
	deadline int64
	lost     bool
	unsure   bool // an unknown renewal
	closing  bool
	renewing bool
	released bool
}

func (c *simClient) trust(first int64) int64 {
	ttl := c.w.cfg.ttl
	return first + int64(ttl) - int64(2*simDrift*float64(ttl)) - int64(simMargin)
}

func (c *simClient) cycle(t *task) {
	w := c.w
	lock := fmt.Sprintf("lock-%d", w.rng.IntN(w.cfg.locks))
	e := history.Event{Proc: c.proc, ID: c.f.id(), Type: history.Invoke, Op: history.OpLock, Key: lock}
	w.record(c.f, e)
	l := c.acquire(t, lock)
	if l == nil {
		e.Type, e.Error = history.Fail, "timeout"
		w.record(c.f, e)
		return
	}
	l.token = c.token(l.row)
	e.Type, e.Token = history.OK, l.token
	w.record(c.f, e)
	c.grants++
	renewer := w.coroutine(func(rt *task) { c.renew(rt, lock, l) })
	renewer.killed = func() bool { return c.f.dead }
	c.critical(t, lock, l)
	l.closing = true
	for l.renewing {
		c.sleep(t, time.Millisecond)
	}
	if !c.valid(lock, l) || l.unsure || l.lost || l.released {
		return
	}
	free := history.Version{Fence: l.row.Fence, Beat: l.row.Beat + 1, Attempt: w.uuid()}
	l.deadline = 0
	c.cas(t, history.OpRelease, lock, l.row, free, false)
}

// acquire tries for a few ttl. It watches a held lock until it has stood still
// for the row's ttl.
func (c *simClient) acquire(t *task, lock string) *lease {
	w := c.w
	end := w.now + 4*int64(w.cfg.ttl)
	var seen history.Version
	since := int64(-1)
	for w.now < end {
		c.sleep(t, w.between(time.Millisecond, 4*time.Millisecond))
		row := w.row(lock)
		if row != seen || since < 0 {
			seen, since = row, w.now
		}
		held := row.Holder != ""
		if held {
			wait := false
			if row, wait = c.waits(lock, row, since); wait {
				c.sleep(t, w.cfg.ttl/8)
				continue
			}
		}
		to := history.Version{Fence: row.Fence + 1, Attempt: w.uuid(), Holder: c.proc, TTLMS: w.cfg.ttl.Milliseconds()}
		if w.cfg.bug == bugFenceKept && row.Fence > 0 {
			to.Fence = row.Fence
		}
		outcome, _, first := c.cas(t, history.OpAcquire, lock, row, to, held)
		l := &lease{row: to, deadline: c.trust(first), since: first, offset: w.planted.offset[history.Worker(c.proc)]}
		if w.cfg.bug == bugAnchorReply {
			l.deadline = c.trust(w.now)
		}
		switch {
		case outcome == history.OK && w.now < l.deadline:
			return l
		case outcome == history.OK: // known only after its deadline
			c.lose(lock, l, "known too late")
			free := history.Version{Fence: to.Fence, Beat: 1, Attempt: w.uuid()}
			c.cas(t, history.OpRelease, lock, to, free, false)
			return nil
		case outcome == history.Unknown:
			return nil
		}
	}
	return nil
}

func (c *simClient) lose(lock string, l *lease, why string) {
	if !l.lost {
		l.lost = true
		c.w.record(c.f, history.Event{Proc: c.proc, Type: history.Note, Op: history.NoteLeaseLost, Key: lock, Token: l.token, Error: why})
	}
}

// valid is the holder's own look at its deadline.
func (c *simClient) valid(lock string, l *lease) bool {
	if !l.lost && c.w.now >= l.deadline && c.w.cfg.bug != bugRevive {
		if c.believes(l) && c.w.cfg.bug != bugIgnoreLoss && c.w.cfg.bug != bugHeartbeatDies {
			return true
		}
		c.lose(lock, l, "deadline")
	}
	return !l.lost || c.believes(l)
}

func (c *simClient) renew(t *task, lock string, l *lease) {
	w := c.w
	for {
		c.sleep(t, w.cfg.ttl/3)
		if l.closing || !c.valid(lock, l) && w.cfg.bug != bugPlainRenew {
			return
		}
		if w.cfg.bug == bugWallLease && w.planted.offset[history.Worker(c.proc)] != l.offset {
			continue // by that clock it is not time yet
		}
		l.renewing = true
		to := l.row
		to.Beat++
		if w.cfg.bug == bugRenewAttempt {
			to.Attempt = w.uuid()
		}
		outcome, _, first := c.cas(t, history.OpRenew, lock, l.row, to, false)
		l.renewing = false
		switch outcome {
		case history.OK:
			l.row, l.since = to, first
			if w.now < l.deadline || w.cfg.bug == bugRevive {
				l.deadline = c.trust(first)
				if w.cfg.bug == bugAnchorReply {
					l.deadline = c.trust(w.now)
				}
			}
		case history.Unknown:
			l.unsure = true
			return
		}
		if l.closing {
			return
		}
	}
}
