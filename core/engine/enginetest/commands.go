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
		duplicate, err := p.command(rctx, name, j.job.ID)
		stop()
		if w.heard(c, begun, duplicate, p.answered(), err) {
			return
		}
		sleep(ctx, time.Duration(1+r.Int64N(int64(w.cfg.ttl/2))))
	}
}

// command gives a command to the owner of the shard, as far as this process knows.
func (p *process) command(ctx context.Context, name string, id job.ID) (duplicate bool, err error) {
	addr := p.eng.OwnerAddr(p.w.shardOf(id))
	var rec engine.Receipt
	if addr == "" {
		rec, err = p.eng.Command(ctx, engine.Command(name), "q", id)
	} else {
		rec, err = p.client.Command(ctx, addr, engine.Command(name), "q", id)
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
