package run

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

func ownSystem(t *testing.T) system.System {
	t.Helper()
	sys, err := system.Find("exec:python3  mine.py --fast")
	if err != nil {
		t.Fatal(err)
	}
	if sys.Name != "exec:python3 mine.py --fast" || len(sys.Command) != 3 {
		t.Errorf("%+v", sys)
	}
	return sys
}

// What a program of a user's own cannot be run by is refused before anything is started.
func TestSuitsOwn(t *testing.T) {
	t.Parallel()
	sys := ownSystem(t)
	for name, want := range map[string]string{
		"partition":    "",
		"pause-worker": "",
		"sink-outage":  "",
		"latency":      "",
		"flaky-links":  "",
		"jobs-steady":  "it has jobs",
		"clock-jump":   "its fault clock changes the clocks that fencepost's own workers read",
		"suspend":      "its fault suspend",
		"swarm":        "it draws its faults from all",
		"paxos-lease":  "it has no workers",
		"kill-sink":    "no external system",
		"flat":         "it judges what processes take",
	} {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Suits(s, sys); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := system.Find("exec: "); err == nil {
		t.Error("no program is a system")
	}
}

// A plan with points at which the program does not ask is refused.
func TestOfferedPoints(t *testing.T) {
	t.Parallel()
	sys := ownSystem(t)
	s, err := scenario.Load("pause-worker")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(*s, 1, sys.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, points := range [][]control.Point{nil, {control.Holding}} {
		var in *scenario.InputError
		err := offered(p, own.Offer{Points: points}, sys)
		if !errors.As(err, &in) || !strings.Contains(err.Error(), `stands at the point "effect-sent", and the setup of exec:python3 mine.py --fast offers`) {
			t.Errorf("%v: %v", points, err)
		}
	}
	if err := offered(p, own.Offer{Points: []control.Point{control.EffectSent}}, sys); err != nil {
		t.Error(err)
	}
	steady, err := scenario.Load("partition")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = plan.New(*steady, 1, sys.Name); err != nil || offered(p, own.Offer{}, sys) != nil {
		t.Errorf("a fault at an instant needs no point: %v", err)
	}
}

// The seals are the harness's: under its own ids, with nothing else among them.
func TestCopySeals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: history.Harness})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	rec.Record(history.Event{Proc: history.Harness, ID: rec.NewID(), Type: history.Invoke, Op: history.OpGet, Key: "r"})
	event := func(id int64, typ history.Type, op history.Op, to *history.Version) history.Event {
		e := history.Event{TS: 10 + id, Proc: history.Harness, ID: id, Type: typ, Op: op, Key: "l"}
		if typ == history.OK && op == history.OpRead {
			e.Row = &history.Version{Absent: true}
		}
		if to != nil {
			e.From, e.To = &history.Version{Absent: true}, to
		}
		return e
	}
	read := event(1, history.OK, history.OpRead, nil)
	read.Row = &history.Version{Absent: true}
	h := &history.History{Events: []history.Event{
		event(1, history.Invoke, history.OpRead, nil), read,
		event(2, history.Invoke, history.OpSeal, &history.Version{Fence: 8, Attempt: "x"}), event(2, history.OK, history.OpSeal, nil),
		{TS: 15, Proc: history.Harness, Type: history.Note, Op: history.NoteExit},
	}}
	fences, err := copySeals(h, rec)
	if err != nil || fences["l"] != 8 || len(fences) != 1 {
		t.Errorf("%v, %v", fences, err)
	}
	got, err := history.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ops := got.Operations()
	if len(got.Events) != 5 || len(ops) != 3 || ops[0].Invoke.ID != 2 || ops[0].Outcome != history.OK || ops[1].Invoke.ID != 3 || ops[1].Invoke.To.Fence != 8 {
		t.Errorf("%+v", got.Events)
	}
	bad := &history.History{Events: []history.Event{{File: "seal.jsonl", Line: 2, TS: 9, Proc: history.Harness, ID: 1, Type: history.Invoke, Op: history.OpAcquire}}}
	if _, err := copySeals(bad, rec); err == nil || !strings.Contains(err.Error(), `seal.jsonl:2: the task seal recorded "acquire"`) {
		t.Errorf("%v", err)
	}
}

// What broke a run is told from an interruption.
func TestBroken(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	if broken(ctx) != nil {
		t.Error("it is not over")
	}
	cancel(&brokenError{errors.New("w1.1: exit status 3")})
	if err := broken(ctx); err == nil || err.Error() != "w1.1: exit status 3" {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(nil)
	if broken(ctx) != nil {
		t.Error("an interruption is nobody's mistake")
	}
}

// A worker that is ready and records nothing is named with its file and its log.
func TestMuteProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, sub := range []string{rundir.HistoryDir, rundir.LogDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	desk, err := own.NewControl("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	links := link.NewFabric(link.Options{})
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: history.Harness})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(fleet.Config{
		Own: &fleet.Own{Program: own.Program{Words: []string{exe}, Dir: dir}, Control: desk}, Sink: "127.0.0.1:9",
		Workers: 1, Links: links, Recorder: rec, HistoryDir: filepath.Join(dir, rundir.HistoryDir), LogDir: filepath.Join(dir, rundir.LogDir),
		Worker: workload.Config{Run: "r", Clients: 1, Locks: []string{"l"}, TTL: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &runner{dir: dir, env: &fault.Env{Fleet: f}}
	o := &ownRun{locks: locks{workers{r}}, control: desk, links: link.NewFabric(link.Options{})}
	err = o.records(t.Context(), time.Millisecond)
	for _, want := range []string{"w1.1 has been ready for more than 1ms and has recorded no operation", "history/w1.1.jsonl has nothing but the header", "logs/w1.1.log:\n    waiting for nothing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := (workers{}).begun(t.Context()); err != nil {
		t.Errorf("fencepost's own workers: %v", err)
	}
	if err := errors.Join(f.Stop(t.Context()), links.Close(), o.close(), rec.Close()); err != nil {
		t.Error(err)
	}
}

// muteProgram is a program that is ready and does nothing.
func muteProgram() int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "waiting for nothing")
	resp, err := http.Post(os.Getenv("FENCEPOST_CONTROL")+"/ready", "", nil)
	if err != nil {
		return 1
	}
	resp.Body.Close()
	if len(os.Args) > 1 && os.Args[1] == "asks" {
		go askAtPoints()
	}
	<-term
	return 0
}

// askAtPoints is a client that comes to two points over and over.
func askAtPoints() {
	for n := 0; ; n++ {
		point := []control.Point{control.Holding, control.EffectSent}[n%2]
		resp, err := http.Post(os.Getenv("FENCEPOST_CONTROL")+"/point", "", strings.NewReader(fmt.Sprintf(`{"point":%q,"proc":"w1.1/c1","key":"l"}`, point)))
		if err != nil {
			return // it is over
		}
		resp.Body.Close()
		time.Sleep(time.Millisecond)
	}
}

// The operation that a point stands before is the one that its client had begun and not ended.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	event := func(ts, id int64, typ history.Type, op history.Op, proc, key, issuer string) history.Event {
		return history.Event{TS: ts, ID: id, Type: typ, Op: op, Proc: proc, Key: key, Issuer: issuer}
	}
	const c1, c2 = "w1.1/c1", "w1.1/c2"
	h := &history.History{Events: []history.Event{
		event(1, 1, history.Invoke, history.OpAcquire, c1, "l", ""), event(2, 1, history.Fail, history.OpAcquire, c1, "l", ""),
		event(3, 2, history.Invoke, history.OpAcquire, c1, "l", ""), event(4, 3, history.Invoke, history.OpAcquire, c2, "l", ""),
		event(6, 2, history.OK, history.OpAcquire, c1, "l", ""), event(7, 4, history.Invoke, history.OpEffect, c1, "r", "l"),
		event(9, 4, history.OK, history.OpEffect, c1, "r", "l"),
	}}
	for _, c := range []struct {
		at    int64
		point control.Point
		proc  string
		key   string
		want  int64 // 0: none
	}{
		{5, control.AcquireSent, c1, "l", 2}, {5, control.AcquireSent, c2, "l", 3}, {5, control.AcquireSent, c1, "m", 0}, {7, control.AcquireSent, c1, "l", 0},
		{2, control.AcquireSent, c2, "l", 0}, {8, control.EffectSent, c1, "l", 4}, {8, control.EffectSent, c1, "r", 4}, {8, control.EffectSent, c2, "l", 0}, {10, control.EffectSent, c1, "l", 0},
	} {
		got := int64(0)
		if inv := underWay(h, sentPoints[c.point], fleet.Hit{At: c.at, Proc: c.proc, Key: c.key}); inv != nil {
			got = inv.ID
		}
		if got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// A value of a row is looked for in each form in which a program may write it.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, hex string }{
		{"lock-01", hex.EncodeToString([]byte("lock-01"))},
		{"0d9a6c1e-5f6b-4a39-8a3f-4d0a2f3c7b11", "0d9a6c1e5f6b4a398a3f4d0a2f3c7b11"},
		{"0d9a6c1e5f6b4a398a3f4d0a2f3c7b11", "0d9a6c1e5f6b4a398a3f4d0a2f3c7b11"},
		{"258", "0000000000000102"}, {"258", "00000102"}, {"258", hex.EncodeToString([]byte("258"))},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(forms(c.text), func(f []byte) bool { return string(f) == string(b) }) {
			t.Errorf("%s has no form %s: %x", c.text, c.hex, forms(c.text))
		}
	}
}
