package fault

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/workload"
)

// busyProgram is a program that starts another in a session of its own, which writes to its
// history and to the sink without a pause.
func busyProgram() int {
	if os.Getenv("FENCEPOST_FAULT_TEST_CHILD") == "" {
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "FENCEPOST_FAULT_TEST_CHILD=1")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if child.Start() != nil || child.Wait() != nil {
			return 1
		}
		return 0
	}
	fmt.Printf("child %d\n", os.Getpid())
	file, err := os.OpenFile(os.Getenv("FENCEPOST_HISTORY"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 2
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("FENCEPOST_SINK"), "http://"))
	if err != nil {
		return 3
	}
	resp, err := http.Post(os.Getenv("FENCEPOST_CONTROL")+"/ready", "", nil)
	if err != nil {
		return 4
	}
	resp.Body.Close()
	for {
		fmt.Fprintf(file, `{"ts":%d,"proc":"w1.1","type":"note","op":"point","point":"holding"}`+"\n", history.Now())
		if _, err := conn.Write([]byte("ping")); err != nil {
			return 5
		}
		time.Sleep(time.Millisecond)
	}
}

// busy is an environment with one worker, which is such a program, and its child's pid.
func busy(t *testing.T) (*Env, int) {
	t.Helper()
	dir := t.TempDir()
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			c, err := sink.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			go func() {
				b := make([]byte, 1<<10)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: history.Harness})
	must(t, err)
	desk, err := own.NewControl("127.0.0.1")
	must(t, err)
	links := link.NewFabric(link.Options{})
	f, err := fleet.New(fleet.Config{
		Own: &fleet.Own{Program: own.Program{Words: []string{"/proc/self/exe"}, Dir: dir}, Control: desk}, Sink: sink.Addr().String(),
		Workers: 1, Links: links, Recorder: rec, HistoryDir: dir, LogDir: dir, Worker: workload.Config{Run: "r", Clients: 1, Locks: []string{"l"}, TTL: time.Second},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := f.Kill(context.Background()); err != nil {
			t.Error(err)
		}
		for _, c := range []interface{ Close() error }{links, desk, rec, sink} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		<-gone
	})
	must(t, f.Start(t.Context()))
	log, err := os.ReadFile(filepath.Join(dir, "w1.1.log"))
	must(t, err)
	child, err := strconv.Atoi(string(regexp.MustCompile(`child (\d+)`).FindSubmatch(log)[1]))
	must(t, err)
	return &Env{Fleet: f, WorkerLinks: links}, child
}

// A pause is proven by every thread of every process of the worker standing still, and by
// nothing of it arriving anywhere; what is let go behind the harness's back is noticed,
// whether it still runs or only left something.
func TestPauseMustProveItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cheat func(t *testing.T, env *Env, child int)
		want  string // in the evidence; "" for a proven pause
	}{
		"honest":            {func(*testing.T, *Env, int) {}, ""},
		"the child goes on": {func(t *testing.T, _ *Env, child int) { send(t, child, syscall.SIGCONT) }, "threads stand still, "},
		"the child went on": {func(t *testing.T, env *Env, child int) {
			w := env.Fleet.Workers()[0]
			before := w.Recorded()
			send(t, child, syscall.SIGCONT)
			for w.Recorded() == before {
				time.Sleep(time.Millisecond)
			}
			send(t, child, syscall.SIGSTOP)
			must(t, osproc.AwaitStopped(t.Context(), child, true))
		}, "though stopped, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, child := busy(t)
			ctx, cancel := context.WithTimeout(t.Context(), OpTimeout)
			defer cancel()
			a, err := pauseWorker{}.Inject(ctx, env, []string{"w1"})
			must(t, err)
			c.cheat(t, env, child)
			ev := a.Probe(ctx)
			if ev.Proven != (c.want == "") || !strings.Contains(ev.Text, c.want) {
				t.Errorf("proven %t: %s, want %q", ev.Proven, ev.Text, c.want)
			}
			if c.want == "" && !strings.Contains(ev.Text, "2 processes") {
				t.Errorf("it does not speak of the child: %s", ev.Text)
			}
			must(t, a.Heal(ctx))
			w := env.Fleet.Workers()[0]
			for before := w.Recorded(); w.Recorded() == before; { // it goes on
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func send(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, sig))
}
