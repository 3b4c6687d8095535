package enginetest

import (
	"math/rand/v2"
	"time"

	"fencepost/core/job"
)

// wallClock is a node's wall clock: its settings, in order of time.
type wallClock []setting

type setting struct {
	from   time.Time
	offset time.Duration // from then on
}

// wrongClocks makes the wall clocks of a run wrong by much more than anything lasts.
// In half of all runs they stay so, in the others they are set right with all else.
func (c *Config) wrongClocks(r *rand.Rand) {
	wrong := 10 * time.Minute
	if c.clocksHeal = r.IntN(2) == 0; !c.clocksHeal {
		wrong = 60 * c.ttl
	}
	c.skew = []time.Duration{0, wrong, -wrong}
	r.Shuffle(len(c.skew), func(i, j int) { c.skew[i], c.skew[j] = c.skew[j], c.skew[i] })
	for range r.IntN(4) {
		c.events = append(c.events, event{
			at: time.Duration(r.Int64N(int64(c.duration))), node: r.IntN(c.nodes), kind: "clock",
			length: time.Duration(r.IntN(3)-1) * wrong,
		})
	}
	// Retries come from beyond the window.
	c.horizon, c.retry = c.ttl/2, job.Exponential(2*c.ttl, 2, 4*c.ttl)
	// Ids are remembered by wall clocks.
	c.dedupe += 2 * wrong
}

func (w *World) setClock(node int, offset time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clocks[node] = append(w.clocks[node], setting{time.Now(), offset})
}

// wall is what a node's wall clock shows.
func (w *World) wall(node int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clocks[node]
	return time.Now().Add(c[len(c)-1].offset)
}

// highestWall is the most that a node's wall clock has shown since: what was due by
// it once stays due for an owner when it is set back.
func (w *World) highestWall(node int, since time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clocks[node]
	best := time.Now().Add(c[len(c)-1].offset)
	for n := len(c) - 2; n >= 0 && c[n+1].from.After(since); n-- {
		if shown := c[n+1].from.Add(c[n].offset); shown.After(best) {
			best = shown
		}
	}
	return best
}

// shownBy is the most that a node's wall clock had shown by an instant.
func (w *World) shownBy(node int, at time.Time) time.Time {
	var best time.Time
	for n, c := range w.clocks[node] {
		if c.from.After(at) {
			break
		}
		until := at
		if rest := w.clocks[node][n+1:]; len(rest) > 0 && rest[0].from.Before(at) {
			until = rest[0].from
		}
		if shown := until.Add(c.offset); shown.After(best) {
			best = shown
		}
	}
	return best
}

// wrong is by how much clocks stay wrong beyond what the bound has room for.
func (w *World) wrong() time.Duration {
	if s := w.spread(); !w.cfg.clocksHeal && s > 10*w.cfg.ttl {
		return s
	}
	return 0
}

// spread is how far the wall clocks of two processes have ever been apart.
func (w *World) spread() time.Duration {
	var lo, hi time.Duration
	for _, c := range w.clocks {
		for _, s := range c {
			lo, hi = min(lo, s.offset), max(hi, s.offset)
		}
	}
	return hi - lo + time.Millisecond
}
