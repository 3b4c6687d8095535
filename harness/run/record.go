package run

import (
	"context"
	"fmt"
	"path/filepath"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// record begins the harness's own file with what the run must reach. It has the
// system's promises, as its workers' files have: a header without promises would promise all.
func (r *runner) record(ctx context.Context, promises []string, x history.Expect) error {
	rec, err := history.NewRecorder(filepath.Join(r.dir, rundir.HistoryDir, "harness.jsonl"), history.Header{
		Run: r.info.Run, Proc: history.Harness, System: r.opt.System.Name, DriftBound: driftBound, MarginBaseMS: marginBase.Milliseconds(),
		Promises: promises,
	})
	if err != nil {
		return err
	}
	r.keep(ctx, rec)
	r.note(history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &x}})
	return nil
}

// keep makes rec the run's record, with what was noted before there was one. A run that
// cannot be recorded ends at once.
func (r *runner) keep(ctx context.Context, rec *history.Recorder) {
	r.earlyMu.Lock()
	r.rec = rec
	for _, e := range r.early {
		rec.Record(e)
	}
	r.earlyMu.Unlock()
	go func() {
		select {
		case <-rec.Failed():
			r.abort(&brokenError{fmt.Errorf("the run cannot be recorded any more: %w", rec.Err())})
		case <-ctx.Done():
		}
	}()
}

// note records a note of the harness, also before there is a record: it begins when the
// system has said what it promises, and until then processes may end and links carry
// something. That is dated by the beginning of the record.
func (r *runner) note(e history.Event) {
	e.Proc, e.Type = history.Harness, history.Note
	r.earlyMu.Lock()
	defer r.earlyMu.Unlock()
	if r.rec == nil {
		r.early = append(r.early, e)
		return
	}
	r.rec.Record(e)
}
