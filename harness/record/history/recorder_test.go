package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRecorder: concurrent clients of one process record whole lines, ids are
// 1, 2, 3 …, and the header is filled in.
func TestRecorder(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "w1.1.jsonl")
	r, err := NewRecorder(name, Header{Run: "r", Proc: "w1.1", DriftBound: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	const clients, each = 8, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				e := Event{Proc: "w1.1/c1", ID: r.NewID(), Type: Invoke, Op: OpLock, Key: "l"}
				begin := r.Record(e)
				e.Type = Fail
				if end := r.Record(e); end < begin {
					t.Errorf("ends at %d, begun at %d", end, begin)
				}
			}
		})
	}
	wg.Wait()
	// What is recorded is in the file before the recorder is closed.
	h, err := ReadFiles(name)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[int64]bool{}
	for _, o := range h.Operations() {
		ids[o.Invoke.ID] = true
		if o.Outcome != Fail {
			t.Errorf("operation %d: %s", o.Invoke.ID, o.Outcome)
		}
	}
	for id := int64(1); id <= clients*each; id++ {
		if !ids[id] {
			t.Errorf("id %d is missing", id)
		}
	}
	head := h.Headers[0]
	if head.Format != Format || head.PID != os.Getpid() || head.BootID == "" || head.TS == 0 || head.WallTime == "" {
		t.Errorf("header %+v", head)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestRecorderErrors(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "w1.1.jsonl")
	r, err := NewRecorder(name, Header{Run: "r", Proc: "w1.1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(name, Header{Run: "r", Proc: "w1.1"}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second life in the same file: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Record(Event{Proc: "w1.1", Type: Note, Op: NoteExit})
	if !errors.Is(r.Err(), os.ErrClosed) {
		t.Errorf("recording after Close: %v", r.Err())
	}
	if err := r.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closing with an error: %v", err)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	h := &History{Events: []Event{
		{TS: 1, Proc: "w1.1/c1", ID: 1, Type: Invoke, Op: OpLock},
		{TS: 2, Proc: "w2.1/c1", ID: 1, Type: Invoke, Op: OpLock},
		{TS: 3, Proc: "w1.1/c2", ID: 2, Type: Invoke, Op: OpGet},
		{TS: 4, Proc: "w1.1/c1", ID: 1, Type: OK, Op: OpLock},
		{TS: 5, Proc: "w1.1/c2", ID: 2, Type: Unknown, Op: OpGet},
		{TS: 6, Proc: "w1.1", Type: Note, Op: NoteExit},
	}}
	ops := h.Operations()
	if len(ops) != 3 {
		t.Fatalf("%d operations", len(ops))
	}
	for i, want := range []struct {
		outcome Type
		ret     int64
	}{{OK, 4}, {Unknown, Forever}, {Unknown, Forever}} {
		if ops[i].Outcome != want.outcome || ops[i].Return() != want.ret {
			t.Errorf("operation %d: %s, returns %d", i, ops[i].Outcome, ops[i].Return())
		}
	}
	if ops[1].End.Type != "" || ops[2].End.TS != 5 {
		t.Errorf("ends %+v, %+v", ops[1].End, ops[2].End)
	}
}

func TestPhasesAndFaults(t *testing.T) {
	t.Parallel()
	note := func(ts int64, op Op) Event { return Event{TS: ts, Proc: "harness", Type: Note, Op: op} }
	phase := func(ts int64, name string) Event {
		e := note(ts, NotePhase)
		e.Details = &Details{Phase: name}
		return e
	}
	fault := func(ts int64, id, action string, proven bool) Event {
		e := note(ts, NoteFault)
		e.Details = &Details{Fault: &Fault{ID: id, Name: "partition", Action: action, Proven: proven}}
		return e
	}
	h := &History{Events: []Event{
		phase(10, "before"), phase(20, "fault"),
		fault(21, "f1", ActionInject, false), fault(22, "f2", ActionInject, false),
		fault(23, "f1", ActionEvidence, true), fault(24, "f2", ActionEvidence, false),
		fault(25, "f1", ActionHeal, false), fault(26, "f9", ActionHeal, false),
		fault(27, "f3", ActionInject, false), fault(28, "f3", ActionEvidence, true),
		fault(29, "f3", ActionHeal, false), fault(29, "f3", ActionEvidence, true),
		fault(27, "f4", ActionInject, false), fault(28, "f4", ActionEvidence, true),
		fault(29, "f4", ActionHeal, false), fault(30, "f4", ActionEvidence, false),
		phase(30, "recover"), note(40, NoteExit),
	}}
	if got := h.Phases(); len(got) != 3 || got[0] != (Span{"before", 10, 20}) || got[2] != (Span{"recover", 30, 41}) {
		t.Errorf("phases %v", got)
	}
	fs := h.Faults()
	if len(fs) != 4 || fs[0].From != 21 || fs[0].To != 25 || !fs[0].Proven || len(fs[0].Evidence) != 1 {
		t.Errorf("faults %+v", fs)
	}
	if fs[1].To != 40 || fs[1].Proven || len(fs[1].Evidence) != 1 {
		t.Errorf("a fault that was neither healed nor proven: %+v", fs[1])
	}
	// What is found afterwards can take the proof away, and not make the fault last.
	for i, proven := range map[int]bool{2: true, 3: false} {
		if until, ok := fs[i].Until(); !ok || i == 3 && until != 28 || fs[i].To != 29 || fs[i].Proven != proven || len(fs[i].Evidence) != 2 {
			t.Errorf("until %d: %+v", until, fs[i])
		}
	}
	if _, ok := (FaultWindow{}).Until(); ok {
		t.Error("a fault without a proof was in force for certain")
	}
	for proc, want := range map[string][2]string{"w1.2/c3": {"w1", "w1.2"}, "harness": {"harness", "harness"}, "w10.1": {"w10", "w10.1"}} {
		if Worker(proc) != want[0] || Life(proc) != want[1] {
			t.Errorf("%s: worker %s, life %s", proc, Worker(proc), Life(proc))
		}
	}
	if empty := (&History{}); len(empty.Phases())+len(empty.Faults())+len(empty.Operations()) != 0 {
		t.Error("an empty history has phases, faults or operations")
	}
}

// limitedEnv makes this test binary record into the file under a limit on its size.
const limitedEnv = "FENCEPOST_HISTORY_TEST_LIMITED"

func recordLimited(file string) int {
	const few = 4 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: few, Max: few}); err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := NewRecorder(file, Header{Run: "r", Proc: "w1.1"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for {
		r.Record(Event{Proc: "w1.1", Type: Note, Op: NotePoint, Details: &Details{Point: "holding"}})
		select {
		case <-r.Failed():
			fmt.Println(r.Err())
			if r.Close() == nil {
				return 1
			}
			return 0
		default:
		}
	}
}

// A recorder that cannot write says so at once, and why.
func TestRecorderThatCannotWrite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w1.1.jsonl")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), limitedEnv+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "w1.1.jsonl: file too large") {
		t.Errorf("%v: %s", err, out)
	}
	if h, err := ReadFiles(file); err != nil || len(h.Events) == 0 {
		t.Errorf("what was written before: %v", err)
	}
}

// TestDetails: an event without details has all of them zero, a file tells nothing of how
// they are held, and a copy's details can be set without changing the original's.
func TestDetails(t *testing.T) {
	t.Parallel()
	var e Event
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Details]()) {
		out := reflect.ValueOf(&e).MethodByName(f.Name).Call(nil)
		if len(out) != 1 || out[0].Type() != f.Type || !out[0].IsZero() {
			t.Errorf("%s of an event without details is %v", f.Name, out)
		}
	}
	e = Event{TS: 1, Proc: "harness", Type: Note, Op: NotePhase, Details: &Details{Phase: "before"}}
	b, err := json.Marshal(e)
	if want := `{"ts":1,"proc":"harness","type":"note","op":"phase","phase":"before"}`; err != nil || string(b) != want {
		t.Errorf("%s (%v), want %s", b, err, want)
	}
	next := e
	next.OwnDetails().Phase = "fault"
	if e.Phase() != "before" || next.Phase() != "fault" {
		t.Errorf("original %q, copy %q", e.Phase(), next.Phase())
	}
}

// TestEventIsSmall: a million events are held at once.
func TestEventIsSmall(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(Event{}); n > 288 {
		t.Errorf("an event takes %d bytes: what few events have belongs into Details", n)
	}
}
