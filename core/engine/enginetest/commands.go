package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// simCommand is what the operators of one job were told.
type simCommand struct {
	asked, ok, unknown int
	duplicates         int // of ok: nothing had to be done
	// states are those that refusals named.
	states []job.State
	// missing is when the last call began that did not find the job.
	missing time.Time
}

// planCommands draws which jobs are cancelled and redriven, and when.
func (w *World) planCommands(j *simJob, r *rand.Rand) {
	if r.IntN(4) == 0 {
		j.cancelAfter = 1 + time.Duration(r.Int64N(int64(2*w.cfg.ttl)))
	}
	j.redriven = r.IntN(3) > 0
}

// planHaste draws which jobs are brought forward, and when: most of those that wait.
func (w *World) planHaste(j *simJob, r *rand.Rand) {
	if after := r.Int64N(int64(3 * w.cfg.ttl)); r.IntN(3) == 0 && (!j.job.Due.IsZero() || j.failFirst > 0) {
		j.hasteAfter = 1 + time.Duration(after)
	}
}

// hurry brings a job forward.
func (w *World) hurry(ctx context.Context, j *simJob, r *rand.Rand) {
	if j.hasteAfter > 0 {
		sleep(ctx, j.after+j.hasteAfter)
		w.command(ctx, j, r, &j.hastes, "hasten")
	}
}

// command gives one command until it is certain what has become of it.
func (w *World) command(ctx context.Context, j *simJob, r *rand.Rand, c *simCommand, name string) {
	for try := 0; ctx.Err() == nil && try < 12; try++ {
		p := w.at(r.IntN(w.cfg.nodes))
		if owner := w.ownerOf(j); owner != nil && r.IntN(8) > 0 {
			p = owner
		}
		begun := time.Now()
		rctx, stop := context.WithTimeout(ctx, w.cfg.ttl/10+time.Duration(r.Int64N(int64(3*w.cfg.ttl))))
		w.mu.Lock()
		c.asked++
		w.mu.Unlock()
		duplicate, err := p.command(rctx, name, j.job)
		stop()
		if w.heard(c, begun, duplicate, p.answered(), err) {
			return
		}
		sleep(ctx, time.Duration(1+r.Int64N(int64(w.cfg.ttl/2))))
	}
}

// command gives a command to the owner of the shard, as far as this process knows.
func (p *process) command(ctx context.Context, name string, j job.Job) (duplicate bool, err error) {
	addr := p.eng.OwnerAddr(p.w.shardOf(j.ID))
	var rec engine.Receipt
	if addr == "" {
		rec, err = p.eng.Command(ctx, engine.Command(name), j.Queue, j.ID)
	} else {
		rec, err = p.client.Command(ctx, addr, engine.Command(name), j.Queue, j.ID)
	}
	return rec.Duplicate, err
}

// heard reports whether the answer is the last word.
func (w *World) heard(c *simCommand, begun time.Time, duplicate, answered bool, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var se *engine.StateError
	var ce *engine.CommandError
	switch {
	case !answered:
		c.unknown++ // nobody heard the answer
	case err == nil:
		c.ok++
		if duplicate {
			c.duplicates++
		}
		return true
	case !errors.As(err, &ce):
		w.violateLocked("error", "a command returned %T: %v", err, err)
	case errors.As(err, &se):
		c.states = append(c.states, se.State)
		return ce.Command != "redrive"
	case store.OutcomeOf(err) != store.Fail:
		c.unknown++
	case errors.Is(err, engine.ErrUnknownJob):
		c.missing = begun
	}
	return false
}

func (w *World) operators(ctx context.Context, j *simJob, r *rand.Rand) {
	sleep(ctx, j.after)
	if j.cancelAfter > 0 {
		sleep(ctx, j.cancelAfter)
		w.command(ctx, j, r, &j.cancels, "cancel")
	}
	for range 2 {
		if !j.redriven || ctx.Err() != nil {
			return
		}
		sleep(ctx, time.Duration(1+r.Int64N(int64(3*w.cfg.ttl))))
		w.command(ctx, j, r, &j.redrives, "redrive")
	}
}

// judgeCommands compares what operators were told with what has happened.
func (w *World) judgeCommands(j *simJob, t *jobTruth) {
	bad := func(format string, args ...any) {
		w.violate("command", "job %s, %v: %s", j.job.ID, t.states, fmt.Sprintf(format, args...))
	}
	c := j.cancels
	if c.ok > 0 {
		w.counts["cancel-ok"]++
		if t.state() != job.Cancelled {
			bad("told that it was cancelled")
		}
	}
	for _, s := range slices.Concat(c.states, j.redrives.states, j.hastes.states) {
		if !slices.Contains(t.states, s) {
			bad("told that it was %s", s)
		}
	}
	if n := len(t.states); t.state() == job.Cancelled && n > 1 {
		w.counts["cancelled-"+string(t.states[n-2])]++
		if t.states[n-2] == job.Pending && c.asked == 0 {
			bad("cancelled while it was pending, and nobody asked for that")
		}
	}
	d := j.redrives
	if t.redriven < d.ok || t.redriven > d.ok+d.unknown {
		bad("redriven %d times; told %d times that it was, %d times nothing", t.redriven, d.ok, d.unknown)
	}
	w.counts["redriven"] += t.redriven
	h, done := j.hastes, len(t.hastened)
	if sure := h.ok - h.duplicates; done < sure || done > sure+h.unknown {
		bad("brought forward %d times; told %d times that it was, %d times nothing", done, sure, h.unknown)
	}
	w.counts["hastened"] += done
	w.counts["hasten-due"] += h.duplicates
	known := w.firstSeen(j.job.ID, t)
	for _, at := range []time.Time{c.missing, d.missing, h.missing} {
		if !at.IsZero() && known.Before(at) && !t.swept {
			bad("not found at %s, it was in the shard or its inbox at %s", at.Sub(w.begun), known.Sub(w.begun))
		}
	}
}

// firstSeen is when a job was first in its shard, or in the inbox.
func (w *World) firstSeen(id job.ID, t *jobTruth) time.Time {
	first := t.insertedAt
	for _, c := range w.store.InboxChanges() {
		if c.Row.ID == string(id) && c.At.Before(first) {
			first = c.At
		}
	}
	return first
}

// simPause is one call that paused or resumed a shard, and what came of it.
type simPause struct {
	shard           store.ShardID
	on, duplicate   bool
	begun, returned time.Time
	outcome         store.Outcome
}

// pauser pauses something now and then, and resumes it.
func (w *World) pauser(ctx context.Context, r *rand.Rand, set func(on bool) bool) {
	for range 1 + r.IntN(3) {
		for _, on := range []bool{true, false} {
			sleep(ctx, time.Duration(r.Int64N(int64(w.cfg.duration/4))))
			for try := 0; ctx.Err() == nil && try < 12 && !set(on); try++ {
				sleep(ctx, time.Duration(1+r.Int64N(int64(w.cfg.ttl/2))))
			}
		}
	}
}

// resumeAll ends all pauses, as an operator would.
func (w *World) resumeAll() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 10))
	for _, s := range w.shardIDs() {
		for end := time.Now().Add(w.bound()); (w.cfg.pauses || w.cfg.wholePauses) && !w.setPaused(context.Background(), s, false, r); {
			if time.Now().After(end) {
				w.violate("liveness", "%s cannot be resumed", s)
				return
			}
			time.Sleep(w.cfg.ttl/7 + 3)
		}
	}
}

// setPaused asks once, and reports whether it was done.
func (w *World) setPaused(ctx context.Context, s store.ShardID, on bool, r *rand.Rand) bool {
	p := w.near(s, 4, r)
	rctx, stop := context.WithTimeout(ctx, w.cfg.ttl/10+time.Duration(r.Int64N(int64(3*w.cfg.ttl))))
	defer stop()
	return w.pauseBy(rctx, p, s, on) == nil
}

// pauseBy asks one process once. Its error is what the caller has heard.
func (w *World) pauseBy(ctx context.Context, p *process, s store.ShardID, on bool) error {
	c := simPause{shard: s, on: on, begun: time.Now()}
	var err error
	if addr := p.eng.OwnerAddr(s); addr != "" {
		c.duplicate, err = p.client.SetPaused(ctx, addr, s, on)
	} else {
		c.duplicate, err = p.eng.SetPaused(ctx, s, on)
	}
	c.returned, c.outcome = time.Now(), store.OutcomeOf(err)
	answered := p.answered()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && !errors.As(err, new(*engine.CommandError)) {
		w.violateLocked("error", "SetPaused returned %T: %v", err, err)
	}
	if !answered {
		c.outcome, err = store.Unknown, errCrashed // nobody heard the answer
	}
	w.pauses = append(w.pauses, c)
	w.counts["pause-"+c.outcome.String()]++
	return err
}

// appliedPause is a change of a shard's pause in the store.
type appliedPause struct {
	at time.Time
	on bool
}

// pause follows the pauses of a shard by what was reported of its batches: the header must
// say the same, no matter who writes it, and nothing is claimed meanwhile.
func (t *truth) pause(s *shardTruth, c sim.ShardChange) {
	v := t.w.violate
	if r := t.told[c.To.Nonce]; r != nil {
		for _, x := range r.op.Changes {
			on := x.Kind == engine.StepPause
			switch {
			case !on && x.Kind != engine.StepResume:
				continue
			case on == s.paused():
				v("changes", "%s at %s: told %s, and it was so before", c.Shard, c.To.Stamp, x.Kind)
			}
			s.pauses = append(s.pauses, appliedPause{c.At, on})
			t.w.counts["judged-"+string(x.Kind)]++
		}
	}
	if c.To.Pause.On != s.paused() || c.To.Pause.Lasted < 0 {
		v("paused", "%s at %s: the header says %+v, and by what was told it is paused: %v", c.Shard, c.To.Stamp, c.To.Pause, s.paused())
	}
	if !s.paused() {
		return
	}
	if c.To.Fence > s.head.Fence {
		t.w.counts["taken-paused"]++
	}
	for _, op := range c.Ops {
		switch {
		case op.Kind == store.Put && op.Row.Kind == store.KindRunning:
			if _, runs := s.runs(op.Row); runs {
				t.w.counts["moved-paused"]++
				continue
			}
			v("paused", "%s at %s: %s is claimed while the shard is paused", c.Shard, c.To.Stamp, op.Row.ID)
		case op.Kind == store.PutNew:
			t.w.counts["enqueued-paused"]++
		}
	}
}

func (s *shardTruth) paused() bool { n := len(s.pauses); return n > 0 && s.pauses[n-1].on }

// meanwhile: a shard was so at some time, and became so.
func meanwhile(applied []appliedPause, on bool, from, to time.Time) (was, done bool) {
	for n, a := range applied {
		lasts := n+1 == len(applied) || !applied[n+1].at.Before(from)
		was = was || a.on == on && !a.at.After(to) && lasts
		done = done || a.on == on && !a.at.After(to) && !a.at.Before(from)
	}
	return was || !on && (len(applied) == 0 || applied[0].at.After(from)), done
}

// judgePauses compares what was reported of pauses with what was done.
func (w *World) judgePauses(t *truth) {
	maybe := map[store.ShardID]map[bool]int{}
	for _, c := range w.pauses {
		var applied []appliedPause
		if s := t.shards[c.shard]; s != nil {
			applied = s.pauses
		}
		if maybe[c.shard] == nil {
			maybe[c.shard] = map[bool]int{}
		}
		if c.outcome != store.Fail && !c.duplicate {
			maybe[c.shard][c.on]++
		}
		was, done := meanwhile(applied, c.on, c.begun, c.returned)
		if c.outcome == store.OK && (!c.duplicate && !done || c.duplicate && !was) {
			w.violate("told", "%s: told that paused is %v, duplicate %v; it was changed so: %+v", c.shard, c.on, c.duplicate, applied)
		}
	}
	for id, s := range t.shards {
		for _, on := range []bool{true, false} {
			did := len(slices.DeleteFunc(slices.Clone(s.pauses), func(a appliedPause) bool { return a.on != on }))
			if did > maybe[id][on] {
				w.violate("told", "%s: paused became %v %d times, asked for at most %d times", id, on, did, maybe[id][on])
			}
		}
	}
}
