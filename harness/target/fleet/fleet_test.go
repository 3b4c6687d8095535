package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
	"fencepost/harness/env/login"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

// TestMain doubles as the worker: started with a worker's configuration, the
// test binary is one that reaches the point holding over and over, or a user's own program.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(ownProgram())
	}
	if os.Getenv(workload.ConfigEnv) != "" {
		os.Exit(testWorker())
	}
	goleak.VerifyTestMain(m)
}

func testWorker() int {
	cfg, err := workload.ParseConfig(os.Getenv(workload.ConfigEnv))
	if err != nil {
		return 2
	}
	conn, err := control.Inherited()
	if err != nil {
		return 3
	}
	if cfg.Variant == "cannot record" {
		_ = conn.Send(control.Message{Cmd: control.CmdUnrecorded, Error: syscall.ENOSPC.Error()})
		return 1
	}
	if cfg.Variant == "dies" {
		_ = conn.Send(control.Message{Cmd: control.CmdError, Error: "as planned"})
		return 5
	}
	if cfg.AwaitLogin != (cfg.Variant == "wants a login") {
		return 6
	}
	if cfg.AwaitLogin {
		m, err := conn.Receive()
		if err != nil || m.Cmd != control.CmdLogin || m.Login == nil || m.Login.Password != "s3cret-enough-to-find" {
			return 7
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	gate := control.NewGate(conn.Send)
	go func() {
		defer stop()
		for {
			m, err := conn.Receive()
			if err != nil {
				return
			}
			switch m.Cmd {
			case control.CmdArm:
				gate.Arm(m.ID, m.Point, m.Key)
				if cfg.Variant == "impatient" {
					_ = conn.Send(control.Message{Cmd: control.CmdHit, ID: m.ID, Point: m.Point})
					_ = conn.Send(control.Message{Cmd: control.CmdLate, ID: m.ID, Point: m.Point})
				}
			case control.CmdDisarm:
				gate.Disarm(m.ID)
			case control.CmdGo:
				gate.Go(m)
			}
		}
	}()
	_ = conn.Send(control.Message{Cmd: control.CmdReady})
	n := int64(0)
	for ctx.Err() == nil {
		if hold, hit := gate.Reach(ctx, control.Holding, cfg.Life+"/c1", "lock-01"); hit {
			_ = conn.Send(control.Message{Cmd: control.CmdStats, Stats: &control.Stats{Cycles: int64(hold)}})
			n++
		}
		time.Sleep(time.Millisecond)
	}
	_ = conn.Send(control.Message{Cmd: control.CmdStopped, Stats: &control.Stats{Cycles: n}})
	return 0
}

type rig struct {
	*Fleet
	dir        string
	unexpected chan string
}

func newRig(t *testing.T, workers int, variant string) *rig {
	t.Helper()
	dir := t.TempDir()
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: "harness"})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dir: dir, unexpected: make(chan string, 10)}
	links := link.NewFabric(link.Options{})
	r.Fleet, err = New(Config{
		Binaries: []string{exe}, Workers: workers, Links: links, HistoryDir: dir, LogDir: dir, Recorder: rec,
		Worker:     workload.Config{Run: "r", Variant: variant, Clients: 1, Locks: []string{"lock-01"}, TTL: time.Second},
		Unexpected: func(life string, err error) { r.unexpected <- life + ": " + err.Error() },
		Broken:     func(life string, err error) { r.unexpected <- life + ": " + err.Error() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := links.Close(); err != nil {
			t.Error(err)
		}
		rec.Close()
	})
	return r
}

// arm holds the next client that holds its lock, of the workers named or of all, to the
// end of the test.
func (r *rig) arm(t *testing.T, workers ...string) <-chan Hit {
	t.Helper()
	hits, cancel, err := r.Arm(control.Holding, "", workers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return hits
}

// A login comes to every life of a worker, by the control channel and no other way.
func TestLoginIsHandedOver(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-enough-to-find"
	r := newRig(t, 1, "wants a login")
	r.cfg.Login = &login.Login{Username: "u", Password: secret}
	w := r.Workers()[0]
	for range 2 {
		if err := w.Start(t.Context()); err != nil { // it says so only when it has the right one
			t.Fatal(err)
		}
		for _, what := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", w.PID(), what))
			if err != nil {
				t.Fatal(err)
			}
			if what == "environ" && !strings.Contains(string(b), workload.ConfigEnv) {
				t.Fatal("the environment is not the worker's")
			}
			if strings.Contains(string(b), secret) {
				t.Errorf("%s shows the password", what)
			}
		}
		if err := w.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// With two executables workers begin with one by turns, and each next life is of the other.
func TestExecutablesByTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, "")
	other := filepath.Join(r.dir, "other")
	if err := os.Link(r.cfg.Binaries[0], other); err != nil {
		b, err := os.ReadFile(r.cfg.Binaries[0]) // on another file system
		if err == nil {
			err = os.WriteFile(other, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.cfg.Binaries = append(r.cfg.Binaries, other)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	runs := func(w *Worker) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return exe == other
	}
	w1, w2 := r.Workers()[0], r.Workers()[1]
	if runs(w1) || !runs(w2) {
		t.Errorf("first lives: w1 runs the other: %v, w2: %v", runs(w1), runs(w2))
	}
	for _, want := range []bool{true, false} {
		if err := w1.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w1.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if runs(w1) != want {
			t.Errorf("w1's next life runs the other: %v", !want)
		}
	}
}

func TestKillAndNextLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, _ := r.Worker("w2")
	if w.Life() != "w2.1" || w.PID() == 0 {
		t.Fatalf("life %q, pid %d", w.Life(), w.PID())
	}
	if err := w.Kill(osproc.As(t.Context(), "f1")); err != nil {
		t.Fatal(err)
	}
	if w.PID() != 0 || w.ProcessState() != "" {
		t.Error("it still runs")
	}
	if err := w.Kill(t.Context()); err == nil {
		t.Error("a dead worker can be killed")
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.Life() != "w2.2" {
		t.Errorf("next life is %q", w.Life())
	}
	r.ended(t, "w2.1", "", "SIGKILL by f1")
	if len(r.unexpected) != 0 {
		t.Errorf("a planned death is called unexpected: %s", <-r.unexpected)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := r.Workers()[0]
	if err := w.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.ProcessState(); s != "T" {
		t.Errorf("paused, but in state %q", s)
	}
	if err := w.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.ProcessState(); s == "T" {
		t.Error("resumed, but stopped")
	}
}

// A paused worker does not end when asked to: it is killed at the deadline.
func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := r.Workers()[0]
	if err := w.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Error(err)
	}
	if w.PID() != 0 {
		t.Error("it still runs")
	}
	if got := <-r.unexpected; !strings.Contains(got, "w1.1: did not end within 100ms of SIGTERM, and was killed for it") {
		t.Error(got)
	}
}

func TestArmedPointIsHitOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	hits := r.arm(t)
	hit := <-hits
	if hit.Point != control.Holding || hit.Key != "lock-01" || hit.Proc != hit.Worker+".1/c1" {
		t.Errorf("hit %+v", hit)
	}
	if all := r.Hits(); len(all) != 1 || all[0].At != hit.At || all[0].Proc != hit.Proc || all[0].Went != 0 {
		t.Errorf("hits %+v", all)
	}
	if err := hit.Go(42); err != nil {
		t.Fatal(err)
	}
	if all := r.Hits(); len(all) != 1 || all[0].Went < hit.At {
		t.Errorf("hits %+v", all)
	}
	// The worker that stood reports the hold that it was given.
	deadline := time.Now().Add(5 * time.Second)
	for r.Stats().Cycles != 42 {
		if time.Now().After(deadline) {
			t.Fatalf("stats %+v: the client was not let go with its hold, or another hit the point", r.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case h := <-hits:
		t.Errorf("second hit %+v", h)
	default:
	}
	if _, _, err := r.Arm(control.Holding, "", "w9"); err == nil {
		t.Error("a point can be armed in a worker that does not exist")
	}
}

func TestUnexpectedDeathIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "dies")
	err := r.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "as planned") || !strings.Contains(err.Error(), "w1.1.log") {
		t.Errorf("got %v, want the worker's own words and its log", err)
	}
	if got := <-r.unexpected; !strings.Contains(got, "w1.1") {
		t.Errorf("reported %q", got)
	}
	var ended *EndedError
	if !errors.As(err, &ended) || ended.Life != "w1.1" {
		t.Errorf("%v is no *EndedError", err)
	}
	r.ended(t, "w1.1", "ended by itself (exit status 5): nobody had asked it to", "exit status 5: as planned")
}

// A process that is gone is told nothing, and that is no error: neither while its end is not
// recorded yet and it counts as running, nor when only its own side is closed.
func TestWhoIsGoneNeedsNoTelling(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	hit := <-r.arm(t)
	if err := r.Workers()[0].current().conn.Close(); err != nil { // as wait does, before the end is recorded
		t.Fatal(err)
	}
	if err := hit.Go(0); err != nil {
		t.Errorf("go: %v", err)
	}
	if _, cancel, err := r.Arm(control.Holding, ""); err != nil {
		t.Errorf("arm: %v", err)
	} else {
		cancel()
	}
	ours, theirs, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs.Close()
	if err := (&life{conn: ours}).send(control.Message{Cmd: control.CmdDrain}); err != nil {
		t.Errorf("send: %v", err)
	}
}

// TestEveryWorkerListensAtAnAddressOfItsOwn, where no outgoing connection has a port.
func TestEveryWorkerListensAtAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{"127.0.0.1": true}
	for n := 1; n <= 16; n++ {
		ip := ownIP(n)
		if seen[ip] || !net.ParseIP(ip).IsLoopback() {
			t.Errorf("worker %d: %s", n, ip)
		}
		seen[ip] = true
	}
}
