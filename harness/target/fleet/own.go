package fleet

import (
	"fmt"
	"os"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/own"
	"fencepost/harness/target/workload"
)

// startOwn starts a user's own program. Its history has its header, and its end of the
// control channel is an agent's, before it runs.
func (l *life) startOwn(cfg workload.Config, theirs *os.File) (err error) {
	w, prog := l.worker, l.worker.fleet.cfg.Own
	if err := w.writeHeader(cfg); err != nil {
		theirs.Close()
		return err
	}
	at := own.Places{Sink: "http://" + w.service, Control: prog.Control.URL(l.name)}
	for _, n := range w.fleet.cfg.Nodes {
		at.Nodes = append(at.Nodes, w.lock[n.IP])
	}
	if cfg.Own { // each of its clients has one
		first := workload.ClientNumber(cfg, 0)
		cfg.Locks = cfg.Locks[first : first+cfg.Clients]
	}
	cmd, err := prog.Program.Command(own.Variables(own.Work, cfg, at))
	if err != nil {
		theirs.Close()
		return err
	}
	l.agent, err = prog.Control.Attach(l.name, cfg.History, prog.Offer.Points, theirs, func(err error) {
		if w.fleet.cfg.Broken != nil {
			w.fleet.cfg.Broken(l.name, fmt.Errorf("its history is malformed: %w%s", err, osproc.LastWords(l.log, 0)))
		}
	})
	if err != nil {
		theirs.Close()
		return err
	}
	l.proc, err = osproc.Start(osproc.Spec{Kind: history.LifeProgram, Name: l.name, Command: cmd, Log: l.log, Guarded: true})
	if err != nil {
		l.conn.Close()
		l.agent.Close()
	}
	return err
}

// writeHeader makes a life's history file with its header.
func (w *Worker) writeHeader(cfg workload.Config) error {
	rec, err := history.NewRecorder(cfg.History, history.Header{
		Run: cfg.Run, Proc: cfg.Life, System: w.fleet.cfg.Own.Name, DriftBound: cfg.DriftBound, MarginBaseMS: cfg.MarginBase.Milliseconds(), Promises: w.fleet.cfg.Own.Offer.Promises,
	})
	if err != nil {
		return err
	}
	return rec.Close()
}

// endOwn waits until all that a program that is gone has written is read.
func (l *life) endOwn() {
	l.conn.Close()
	l.agent.Close()
}
