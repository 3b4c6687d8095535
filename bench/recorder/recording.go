package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

// run is the name of the run in the headers of histories.
const run = "bench"

// recording is the history of an arm's client, and the arm's own count of what belongs in it.
type recording struct {
	arm, life string
	path      string
	file      *history.Recorder
	through   workload.Recorder // file, but in tests
	did       map[line]*atomic.Int64
}

// line is a kind of line: an operation begins or ends.
type line struct {
	op history.Op
	is history.Type
}

func (l line) String() string { return fmt.Sprintf("%s %s", l.op, l.is) }

// ops are the operations on rows, by the lock client's word for them.
var ops = map[lock.OpKind]history.Op{
	lock.Acquire: history.OpAcquire, lock.Renew: history.OpRenew, lock.Release: history.OpRelease, lock.Read: history.OpRead,
}

var ends = map[store.Outcome]history.Type{store.OK: history.OK, store.Fail: history.Fail, store.Unknown: history.Unknown}

// newRecording begins the history of a process life.
func newRecording(dir, arm, life string) (*recording, error) {
	r := &recording{arm: arm, life: life, path: filepath.Join(dir, life+".jsonl"), did: map[line]*atomic.Int64{}}
	for _, op := range append(slices.Collect(maps.Values(ops)), history.OpLock) {
		for _, is := range []history.Type{history.Invoke, history.OK, history.Fail, history.Unknown} {
			r.did[line{op, is}] = new(atomic.Int64)
		}
	}
	file, err := history.NewRecorder(r.path, history.Header{
		Run: run, Proc: life, DriftBound: lock.DefaultDriftBound, MarginBaseMS: lock.DefaultMarginBase.Milliseconds(),
	})
	r.file, r.through = file, file
	return r, err
}

func (r *recording) count(op history.Op, is history.Type) { r.did[line{op, is}].Add(1) }

// observer records as that of a worker does, and counts. Nothing is armed at its gate.
func (r *recording) observer() lock.Observer {
	gate := control.NewGate(func(control.Message) error { return nil })
	return &counter{workload.ObserveLocks(context.Background(), r.through, gate, func() {}), r}
}

type counter struct {
	lock.Observer
	r *recording
}

func (c *counter) Begin(op lock.Op) lock.Span {
	c.r.count(ops[op.Kind], history.Invoke)
	return &countedSpan{c.Observer.Begin(op), c.r, ops[op.Kind]}
}

type countedSpan struct {
	lock.Span
	r  *recording
	op history.Op
}

func (s *countedSpan) End(res lock.Result) {
	s.r.count(s.op, ends[res.Outcome])
	s.Span.End(res)
}

// acquire records and counts a client's call for a lock.
func (r *recording) acquire(q lock.Request, call func() (*lock.Lease, error)) (*lock.Lease, error) {
	r.count(history.OpLock, history.Invoke)
	d := history.Details{TTLMS: q.TTL.Milliseconds(), LimitMS: q.Timeout.Milliseconds()}
	lease, err := workload.RecordLock(r.through, q.Holder, q.Resource, d, call)
	if err != nil {
		r.count(history.OpLock, history.Fail)
	} else {
		r.count(history.OpLock, history.OK)
	}
	return lease, err
}

// statement records a shape of statements.
func (r *recording) statement(s cassandra.StatementInfo) {
	workload.NoteStatement(r.through, r.life, s)
}

// close ends the history as a worker that stops in order does.
func (r *recording) close() error {
	r.through.Record(history.Event{Proc: r.life, Type: history.Note, Op: history.NoteExit})
	return r.file.Close()
}

// size is what a history that was read back has in it.
type size struct {
	files, events int
	bytes         int64
}

// verify reads the history back. It says what is wrong with it, "" if nothing is.
func (r *recording) verify(s *size) string {
	h, err := read(r.path, s)
	if err != nil {
		return fmt.Sprintf("%s: its history cannot be read: %v", r.arm, err)
	}
	got := map[line]int64{}
	for i := range h.Events {
		if e := &h.Events[i]; e.Type != history.Note {
			got[line{e.Op, e.Type}]++
		}
	}
	var wrong []string
	for _, l := range slices.SortedFunc(maps.Keys(r.did), func(a, b line) int { return strings.Compare(a.String(), b.String()) }) {
		if did := r.did[l].Load(); did != got[l] {
			wrong = append(wrong, fmt.Sprintf("%d lines %q for %d operations", got[l], l, did))
		}
	}
	if len(wrong) > 0 {
		return fmt.Sprintf("%s: its history does not have what its client did: %s", r.arm, strings.Join(wrong, ", "))
	}
	return ""
}

// read reads one history file, as the checker would.
func read(path string, s *size) (*history.History, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	h, err := history.ReadFiles(path)
	if err != nil {
		return nil, err
	}
	if h.Torn > 0 {
		return nil, errors.New("its last line is torn")
	}
	s.files, s.events, s.bytes = s.files+1, s.events+len(h.Events), s.bytes+info.Size()
	return h, nil
}
