package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// simPause is one call that paused or resumed a shard, and what came of it.
type simPause struct {
	shard           store.ShardID
	on, duplicate   bool
	begun, returned time.Time
	outcome         store.Outcome
}

// pauser pauses a shard now and then, and resumes it.
func (w *World) pauser(ctx context.Context, s store.ShardID, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		for _, on := range []bool{true, false} {
			sleep(ctx, time.Duration(r.Int64N(int64(w.cfg.duration/4))))
			for try := 0; ctx.Err() == nil && try < 12 && !w.setPaused(ctx, s, on, r); try++ {
				sleep(ctx, time.Duration(1+r.Int64N(int64(w.cfg.ttl/2))))
			}
		}
	}
}

// resumeAll ends all pauses, as an operator would.
func (w *World) resumeAll() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 10))
	for n := range w.cfg.shards {
		s := store.ShardID{Queue: "q", Shard: n}
		for end := time.Now().Add(w.bound()); w.cfg.pauses && !w.setPaused(context.Background(), s, false, r); {
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
	p := w.at(r.IntN(w.cfg.nodes))
	for n := range w.cfg.nodes {
		if o := w.at(n); r.IntN(4) > 0 && !o.isCrashed() && o.eng.Owns(s) {
			p = o
		}
	}
	rctx, stop := context.WithTimeout(ctx, w.cfg.ttl/10+time.Duration(r.Int64N(int64(3*w.cfg.ttl))))
	defer stop()
	c := simPause{shard: s, on: on, begun: time.Now()}
	var err error
	if addr := p.eng.OwnerAddr(s); addr != "" {
		c.duplicate, err = p.client.SetPaused(rctx, addr, s, on)
	} else {
		c.duplicate, err = p.eng.SetPaused(rctx, s, on)
	}
	c.returned, c.outcome = time.Now(), store.OutcomeOf(err)
	answered := p.answered()
	w.mu.Lock()
	defer w.mu.Unlock()
	var ce *engine.CommandError
	if err != nil && !errors.As(err, &ce) {
		w.violateLocked("error", "SetPaused returned %T: %v", err, err)
	}
	if !answered {
		c.outcome = store.Unknown // nobody heard the answer
	}
	w.pauses = append(w.pauses, c)
	w.counts["pause-"+c.outcome.String()]++
	return c.outcome == store.OK
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
		was, done := false, false // was: it was so at some time meanwhile
		for n, a := range applied {
			lasts := n+1 == len(applied) || !applied[n+1].at.Before(c.begun)
			was = was || a.on == c.on && !a.at.After(c.returned) && lasts
			done = done || a.on == c.on && !a.at.After(c.returned) && !a.at.Before(c.begun)
		}
		if !c.on && (len(applied) == 0 || applied[0].at.After(c.begun)) {
			was = true
		}
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
