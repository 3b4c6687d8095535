package run

import (
	"context"
	"errors"
	"strings"

	"fencepost/harness/env/cluster"
	"fencepost/harness/record/history"
	"fencepost/harness/target/fleet"
)

// A process that ends otherwise than its plan says does not end the run: that is for the
// checker to judge (P18), from what the harness records of every life.

// ended records how a process ended that is not a worker's.
func (r *runner) ended(l *history.ProcessLife) {
	r.note(history.Event{Op: history.NoteLife, Details: &history.Details{Life: l}})
	wrong := l.Unplanned()
	if wrong == "" {
		return
	}
	if l.Kind == history.LifeNode {
		r.nodeFell.Store(true)
	}
	r.progress.problem("%s %s%s", l.Name, wrong, strings.Join(append([]string{""}, l.Log...), "\n    "))
}

// watchNodes records how nodes end from now on.
func (r *runner) watchNodes() { r.unwatchNodes = cluster.Watch(r.opt.Cluster, r.ended) }

// noteNodes records the nodes that are still there: that they have not ended is part of
// what is judged.
func (r *runner) noteNodes() {
	for _, n := range r.opt.Cluster.Nodes() {
		if n.State() == cluster.Running && n.LogFile() != "" { // else it is not the harness's
			r.ended(&history.ProcessLife{Kind: history.LifeNode, Name: n.Name(), PID: n.PID(), Running: true})
		}
	}
}

// started looks at how the start of the workers went. If one of them ended, that is to be
// judged, and there is nothing to run.
func (r *runner) started(err error) error {
	var ended *fleet.EndedError
	if !errors.As(err, &ended) {
		return err
	}
	r.fallen = true
	r.progress.problem("not all workers could be started: ending in order, then checking what there is")
	return nil
}

// wakeSink starts a sink that has ended by itself once more, for what it stored to be read.
func (r *runner) wakeSink(ctx context.Context) {
	s := r.sink.service
	if s == nil || s.PID() != 0 {
		return
	}
	r.progress.step("starting the sink again, to read what it stored")
	if err := s.Start(ctx); err != nil {
		r.progress.problem("%v", err)
	}
}
