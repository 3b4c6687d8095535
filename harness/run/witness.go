package run

import (
	"errors"
	"fmt"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/cqltap"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/record/history"
	"fencepost/harness/target/system"
)

// witness records what the harness itself reads on the links from here on, or why it cannot
// read that, or some of it. What a program says of itself is compared with it.
func (r *runner) witness(of string, unread error) {
	e := history.Event{Op: history.NoteWitness, Key: of}
	if unread != nil {
		e.Error = unread.Error()
	}
	r.note(e)
}

// errSealed: what a link carries cannot be read.
var errSealed = errors.New("the links to nodes carry TLS")

// readStatements makes the tap on all links to nodes. A shape is recorded before the node
// is asked.
func (r *runner) readStatements() {
	r.cql = cqltap.New(cqltap.Options{
		Writes: r.opt.System.Design() == system.Exec, // see noteHits
		Place:  func(l *link.Link) string { return cluster.DatacenterOf(r.opt.Cluster, l.To()) },
		Shape: func(from string, s cqltap.Shape) {
			r.note(history.Event{Op: history.NoteStatement, Key: from, Details: &history.Details{Statement: &history.Statement{
				CQL: s.CQL, Consistency: s.Consistency, SerialConsistency: s.SerialConsistency, Datacenter: s.Place,
			}}})
		},
		Unread: func(l *link.Link, reason error) {
			r.witness(history.WitnessStatements, fmt.Errorf("%s: %w", l.Name(), reason))
		},
	})
	if r.base.TLS != nil {
		r.witness(history.WitnessStatements, errSealed)
		return
	}
	r.witness(history.WitnessStatements, nil)
	r.nodeTap = r.cql
}

// sinkTap makes the tap on all links to a sink that is a service; nil: it cannot be read. An
// answer is recorded before its worker has it.
func (r *runner) sinkTap() link.Tap {
	if r.sink.kind.Answer == nil {
		return nil
	}
	r.witness(history.WitnessAnswers, nil)
	return httptap.New(httptap.Options{
		Exchange: func(l *link.Link, x httptap.Exchange) {
			if e, ok := r.sink.kind.Answer(l.From(), x); ok {
				r.rec.Record(e)
			}
		},
		Unread: func(l *link.Link, reason error) {
			r.witness(history.WitnessAnswers, fmt.Errorf("%s: %w", l.Name(), reason))
		},
	})
}
