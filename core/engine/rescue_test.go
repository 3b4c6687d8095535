package engine

import (
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestACommandWaitsForARescue: a job of an earlier owner's run is no run of this one, which
// somebody could interrupt or wait for. Whatever is planned first, a command finds the job
// when it is pending again, and its caller may go until then.
func TestACommandWaitsForARescue(t *testing.T) {
	t.Parallel()
	for first := range turns {
		for kind, want := range map[intentKind]job.State{doCancel: job.Cancelled, doHasten: job.Pending} {
			r := newRig(t, func(c *machineConfig) { c.horizon = 1e9 })
			j := r.job(1, at(r.now.wall+500))
			r.m.rescue(store.Row{Key: store.Key{Kind: store.KindRunning, At: 1<<32 | 7, ID: string(j.ID)}, Due: r.now.wall + 500, Attempt: 1, Run: 1<<32 | 7, Body: r.body(j)}, r.now)
			i := r.command(kind, j.ID)
			r.m.turn = first
			p := r.next(0)
			if got := jobRow(t, p, j.ID).State; got != string(job.Pending) || r.wantAnswers("") != nil {
				t.Errorf("turn %d: it is rescued as %s", first, got)
			}
			if state := i.wait.state.Load(); state != 0 {
				t.Errorf("turn %d: its caller may not go: %d", first, state)
			}
			r.m.settled(p)
			p = r.tick(0)
			r.wantAnswers("done ")
			if got := jobRow(t, p, j.ID).State; got != string(want) {
				t.Errorf("turn %d: then it is %s, want %s", first, got, want)
			}
		}
	}
}
