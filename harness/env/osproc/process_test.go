package osproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/harness/record/history"
)

// patience bounds the wait for what must happen.
const patience = time.Minute

// started is a process of this binary that is ready.
func started(t *testing.T, how string, guarded bool) (*Process, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Kind: history.LifeProgram, Name: "p", Command: command(how), Log: log, Guarded: guarded, Traces: true})
	must(t, err)
	t.Cleanup(func() {
		if p.Running() {
			_ = p.Kill(context.Background())
		}
	})
	printed(t, log, "ready")
	return p, log
}

// printed waits until a log has a line.
func printed(t *testing.T, log, want string) []string {
	t.Helper()
	re := regexp.MustCompile(`(?m)^` + want + `$`)
	for began := time.Now(); ; {
		b, err := os.ReadFile(log)
		if m := re.FindStringSubmatch(string(b)); m != nil {
			return m
		}
		if time.Since(began) > patience {
			t.Fatalf("%q is not in %q, %v", want, b, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func childOf(t *testing.T, log string) int {
	t.Helper()
	pid, err := strconv.Atoi(printed(t, log, `child (\d+)`)[1])
	must(t, err)
	return pid
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for began := time.Now(); !ended(pid); {
		if time.Since(began) > patience {
			t.Fatalf("process %d is in state %s", pid, Letter(pid))
		}
		time.Sleep(time.Millisecond)
	}
}

// Every end of a life, and who had asked for it.
func TestLives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how       string
		do        func(t *testing.T, p *Process) error
		err       string // in the error of do
		planned   bool
		unplanned string
	}{
		"killed":              {"orderly", func(t *testing.T, p *Process) error { return p.Kill(As(t.Context(), "f1")) }, "", true, ""},
		"ended in order":      {"orderly", func(t *testing.T, p *Process) error { return p.End(within(t, 20*time.Second), syscall.SIGTERM) }, "", true, ""},
		"ended by the signal": {"plain", func(t *testing.T, p *Process) error { return p.End(within(t, 20*time.Second), syscall.SIGTERM) }, "", true, ""},
		"another code": {"wordless", func(t *testing.T, p *Process) error { return p.End(within(t, 20*time.Second), syscall.SIGTERM) }, "",
			false, "was asked to end (SIGTERM by runner) and did so with exit status 4, not with exit status 0 or by SIGTERM"},
		"does not end": {"deaf", func(t *testing.T, p *Process) error { return p.End(within(t, 300*time.Millisecond), syscall.SIGTERM) }, "it did not end within 300ms of SIGTERM",
			false, "did not end within 300ms of SIGTERM, and was killed for it"},
		"given up": {"orderly", func(t *testing.T, p *Process) error { return p.GiveUp(t.Context(), "was not ready within 1 s") }, "", false, "was not ready within 1 s, and was killed for it"},
		// Somebody else's SIGKILL just before is not the harness's.
		"dead before it is killed": {"orderly", func(t *testing.T, p *Process) error {
			_ = syscall.Kill(p.PID(), syscall.SIGKILL)
			for !ended(p.PID()) {
				time.Sleep(time.Millisecond)
			}
			return p.Kill(t.Context())
		}, "it had ended by itself", false, "ended by itself (SIGKILL): nobody had asked it to"},
		"dead before it is asked": {"orderly", func(t *testing.T, p *Process) error {
			_ = syscall.Kill(p.PID(), syscall.SIGTERM)
			for !ended(p.PID()) {
				time.Sleep(time.Millisecond)
			}
			return p.End(within(t, 20*time.Second), syscall.SIGTERM)
		}, "it had ended by itself", false, "ended by itself (exit status 0): nobody had asked it to"},
	} {
		for _, guarded := range []bool{false, true} {
			t.Run(name+" guarded "+strconv.FormatBool(guarded), func(t *testing.T) {
				t.Parallel()
				p, _ := started(t, c.how, guarded)
				err := c.do(t, p)
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("%v, want %q", err, c.err)
				}
				<-p.Done()
				l := p.Life()
				if got := l.Unplanned(); got != c.unplanned {
					t.Errorf("%q, want %q; %+v", got, c.unplanned, l)
				}
				if !ended(p.PID()) || l.PID != p.PID() || l.Running {
					t.Errorf("process %d is there; %+v", p.PID(), l)
				}
				if name == "killed" && (l.By != "f1" || l.Asked != "SIGKILL" || l.Signal != "SIGKILL" || l.Log != nil) {
					t.Errorf("%+v", l)
				}
			})
		}
	}
}

// Who hangs prints where, and who dies leaves the beginning of its last words.
func TestLastWordsOfALife(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(log, []byte("panic: of the life before\n"), 0o644))
	told := make(chan *history.ProcessLife, 1)
	p, err := Start(Spec{Kind: history.LifeWorker, Name: "w1.1", Command: command("exits"), Log: log, Ended: func(l *history.ProcessLife) { told <- l }})
	must(t, err)
	<-p.Done()
	l := <-told
	if l.Code == nil || *l.Code != 3 || strings.Join(l.Log, "|") != "a line before|panic: the table is gone||goroutine 1 [running]:|main.main()" {
		t.Errorf("%+v", l)
	}
	if err := p.Kill(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("killed though it was dead: %v", err)
	}
	hangs, _ := started(t, "deaf", false)
	if err := hangs.End(within(t, 100*time.Millisecond), syscall.SIGTERM); err == nil {
		t.Error("it ended")
	}
	if l := hangs.Life(); !strings.Contains(strings.Join(l.Log, "\n"), "SIGQUIT: quit") || !strings.Contains(strings.Join(l.Log, "\n"), "goroutine ") {
		t.Errorf("it does not say where it hangs: %+v", l)
	}
}

// A descendant in a session of its own, and the child of a parent that is gone, are stopped
// and killed with the program; without a guard at least the first.
func TestWholeFamilies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		guarded bool
		n       int // processes
	}{{"parent session", false, 2}, {"parent session", true, 2}, {"parent orphan", true, 2}} {
		t.Run(c.how+" guarded "+strconv.FormatBool(c.guarded), func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 30*time.Second)
			p, log := started(t, c.how, c.guarded)
			pid := childOf(t, log)
			if stands(pid) || stands(p.PID()) {
				t.Fatal("it stands still from the beginning")
			}
			if _, err := p.Standing(); err == nil {
				t.Error("what runs is called standing")
			}
			must(t, p.Pause(ctx))
			if n, err := p.Standing(); err != nil || n != c.n {
				t.Errorf("%d processes stand, %v; want %d", n, err, c.n)
			}
			if !stands(pid) || !stands(p.PID()) {
				t.Errorf("states %s and %s", Letter(p.PID()), Letter(pid))
			}
			// One that is let go secretly is noticed.
			must(t, syscall.Kill(pid, syscall.SIGCONT))
			must(t, AwaitStopped(ctx, pid, false))
			if _, err := p.Standing(); err == nil {
				t.Error("one runs, and they are called standing")
			}
			must(t, p.Resume(ctx))
			if stands(pid) || stands(p.PID()) {
				t.Errorf("states %s and %s", Letter(p.PID()), Letter(pid))
			}
			must(t, p.Kill(ctx))
			awaitGone(t, pid)
		})
	}
}

// What a program leaves behind when it ends by itself ends with it.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Kind: history.LifeProgram, Name: "p", Command: command("orphan"), Log: log, Guarded: true})
	must(t, err)
	<-p.Done()
	if l := p.Life(); l.Code == nil || *l.Code != 0 || l.Unplanned() == "" {
		t.Errorf("%+v", l)
	}
	if b, err := os.ReadFile(log); err == nil && strings.Contains(string(b), "child") {
		awaitGone(t, childOf(t, log))
	}
}

// TestKilledHarness: nothing of a guarded program is left when the harness was killed, even
// if it stood still.
func TestKilledHarness(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	cmd := command("harness")
	cmd.Env = append(cmd.Env, "FENCEPOST_OSPROC_LOG="+log)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	program, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "program ")))
	must(t, err)
	orphan := childOf(t, log)
	for _, pid := range []int{program, orphan} {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	awaitGone(t, program)
	awaitGone(t, orphan)
}

// A program that cannot be started says why, guarded or not.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		_, err := Start(Spec{Command: &exec.Cmd{Path: "/nonexistent/program", Args: []string{"program"}}, Guarded: guarded})
		if err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("guarded %t: %v", guarded, err)
		}
	}
}

// The first line of an error is quoted, however much stands between it and the end.
func TestQuote(t *testing.T) {
	t.Parallel()
	lines := func(format string, n int) (out string) {
		for i := range n {
			out += fmt.Sprintf(format+"\n", i)
		}
		return out
	}
	for name, c := range map[string]struct {
		log  string
		n    int
		has  []string
		less []string
	}{
		"short":      {"a\nb\n", 2, []string{"a", "b"}, nil},
		"no error":   {lines("line %d", 50), 6, []string{"line 44", "line 49"}, []string{"line 43"}},
		"panic":      {lines("before %d", 50) + "panic: nil map\n\ngoroutine 7 [running]:\n" + lines("frame %d", 100), 24 + 1 + 6, []string{"panic: nil map", "goroutine 7 [running]:", "…", "frame 99"}, []string{"before 49", "frame 60"}},
		"python":     {lines("before %d", 50) + "Traceback (most recent call last):\n" + lines("  File %d", 12) + "ValueError: 3\n", 14, []string{"Traceback (most recent call last):", "ValueError: 3"}, []string{"before 49", "…"}},
		"an error":   {lines("before %d", 10) + "ERROR [main] disk on fire\n" + lines("after %d", 40), 31, []string{"ERROR [main] disk on fire", "after 39"}, []string{"before 9"}},
		"worse ones": {"WARN error=timeout\n" + lines("x %d", 40) + "fatal error: all goroutines are asleep\n" + lines("frame %d", 3), 6, []string{"fatal error: all goroutines are asleep"}, []string{"WARN"}},
		"hangs":      {"SIGQUIT: quit\n\ngoroutine 0 gp=0x1 [idle]:\nruntime.futex()\n\ngoroutine 1 [select]:\nmain.main()\n\nrax    0x1\nrip    0x2\n", 4, []string{"goroutine 1 [select]:"}, []string{"futex", "rip"}},
		"long":       {"panic: " + strings.Repeat("é", 400) + "\n", 1, []string{" …"}, nil},
		"empty":      {"\n", 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "log")
			earlier := "panic: of the life before\n"
			must(t, os.WriteFile(file, []byte(earlier+c.log), 0o644))
			got := Quote(file, int64(len(earlier)))
			text := strings.Join(got, "\n")
			if len(got) != c.n {
				t.Errorf("%d lines, want %d:\n%s", len(got), c.n, text)
			}
			for _, w := range c.has {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in:\n%s", w, text)
				}
			}
			for _, w := range append(c.less, "of the life before") {
				if strings.Contains(text, w) {
					t.Errorf("%q in:\n%s", w, text)
				}
			}
		})
	}
	if got := Quote("/nonexistent", 0); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("%q", got)
	}
}
