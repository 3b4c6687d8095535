package fault

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
)

// readTries is how often a read that must be answered is tried: on a busy machine
// one may time out though a majority is there.
const readTries = 3

// reads are SERIAL reads through nodes, or what another store has instead (Env.ReadAs), by which
// those are known through which consensus could be reached when the fault was about to come.
type reads struct {
	env    *Env
	before map[string]error
}

func newReads(ctx context.Context, env *Env, nodes []string) *reads {
	r := &reads{env: env, before: map[string]error{}}
	for _, n := range nodes {
		r.before[n] = r.answered(ctx, n)
	}
	return r
}

// answered tries a read that must be answered.
func (r *reads) answered(ctx context.Context, node string) error {
	err := r.env.Read(ctx, node)
	for n := 1; err != nil && n < readTries && ctx.Err() == nil; n++ {
		err = r.env.Read(ctx, node)
	}
	return err
}

// during adds what a read through the node shows while the fault is in force: majority
// says whether the node sees one.
func (r *reads) during(ctx context.Context, ev *Evidence, node string, majority bool) {
	switch err := r.before[node]; {
	case majority:
		if err := r.answered(ctx, node); err != nil {
			ev.also(false, "yet %s, which sees a majority, fails (%s)", r.env.readThrough(node), firstLine(err))
			return
		}
		ev.also(true, "%s is answered", r.env.readThrough(node))
	case err != nil:
		ev.also(false, "%s failed before the fault already (%s), so that its failure now shows nothing", r.env.readThrough(node), firstLine(err))
	default:
		r.refused(ctx, ev, node)
	}
}

// refused adds that the coordinator says of itself that it sees no quorum. A read without
// an answer says nothing, and is tried again.
func (r *reads) refused(ctx context.Context, ev *Evidence, node string) {
	var err error
	for range readTries {
		err = r.env.Read(ctx, node)
		if err == nil {
			ev.also(false, "yet %s, which sees no majority, is answered", r.env.readThrough(node))
			return
		}
		if r.env.NoQuorum(err) {
			ev.also(true, "%s, answered before, is refused for want of a quorum (%s)", r.env.readThrough(node), firstLine(err))
			return
		}
	}
	ev.also(false, "%s fails, but not for want of a quorum (%s)", r.env.readThrough(node), firstLine(err))
}

// readPause is left between reads that are tried until one is answered.
const readPause = 100 * time.Millisecond

// after adds that consensus can be reached again through all nodes through which it could
// be before, as far as other faults let them; it waits for that until ctx is over.
func (r *reads) after(ctx context.Context, ev *Evidence) {
	for _, node := range slices.Sorted(maps.Keys(r.before)) {
		if r.before[node] != nil {
			continue
		}
		err := r.env.Read(ctx, node)
		for err != nil && ctx.Err() == nil && r.env.quorumRuns(node) {
			select {
			case <-time.After(readPause):
			case <-ctx.Done():
			}
			err = r.env.Read(ctx, node)
		}
		if err != nil && !r.env.quorumRuns(node) {
			continue
		}
		if err != nil {
			ev.also(false, "%s still fails when the fault is healed (%s)", r.env.readThrough(node), firstLine(err))
			continue
		}
		ev.also(true, "%s is answered again", r.env.readThrough(node))
	}
}

// quorumRuns reports whether the node runs, and a majority of all.
func (e *Env) quorumRuns(node string) bool {
	running, itself := 0, false
	for _, n := range e.Cluster.Nodes() {
		if n.State() == cluster.Running {
			running++
			itself = itself || n.Name() == node
		}
	}
	return itself && 2*running > len(e.Cluster.Nodes())
}

// firstLine keeps evidence to one line; the driver repeats the server's text.
func firstLine(err error) string {
	if err == nil {
		return "no error"
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
