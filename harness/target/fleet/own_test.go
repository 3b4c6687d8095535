package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
	"fencepost/harness/target/workload"
)

// ownProgram is the test binary as a user's own program; its argument says what is
// wrong with it.
func ownProgram() int {
	how := os.Args[1]
	if how == "exits" {
		fmt.Fprintln(os.Stderr, "line one\nno such table: leases")
		return 3
	}
	if how == "quits" {
		return 0
	}
	term := make(chan os.Signal, 1)
	if how != "bySignal" {
		signal.Notify(term, syscall.SIGTERM)
	}
	if how == "wrapper" || how == "session" { // what a wrapper has started is signalled too
		child := exec.Command(os.Args[0], "good")
		child.Stderr = os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: how == "session"}
		if err := child.Start(); err != nil {
			return 9
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		if child.Wait() != nil {
			return 8
		}
		return 0
	}
	if how == "mute" {
		<-term
		return 0
	}
	flags := os.O_WRONLY | os.O_APPEND
	if how == "truncates" {
		flags = os.O_WRONLY | os.O_TRUNC
	}
	file, err := os.OpenFile(os.Getenv("FENCEPOST_HISTORY"), flags, 0)
	if err != nil {
		return 7
	}
	life := os.Getenv("FENCEPOST_LIFE")
	write := func(format string, args ...any) { fmt.Fprintf(file, format+"\n", args...) }
	id := 0
	op := func(end string) {
		id++
		write(`{"ts":%d,"proc":"%s/c1","id":%d,"type":"invoke","op":"lock","key":"l"}`, history.Now(), life, id)
		write(`{"ts":%d,"proc":"%s/c1","id":%d,"type":%q,"op":"lock","key":"l"}`, history.Now(), life, id, end)
	}
	base := os.Getenv("FENCEPOST_CONTROL")
	if !post(base+"/ready", "", nil) {
		return 6
	}
	switch how {
	case "malformed":
		op("fail")
		write(`{"ts":%d,"proc":"%s/c1","type":"note","op":"exit","colour":"red"}`, history.Now(), life)
	case "wordless":
		<-term
		return 4
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		op("fail")
		select {}
	}
	for {
		select {
		case <-term:
			write(`{"ts":%d,"proc":"%s","type":"note","op":"exit"}`, history.Now(), life)
			return 0
		case <-time.After(time.Millisecond):
			var a struct {
				HoldMS int64 `json:"hold_ms"`
			}
			if !post(base+"/point", fmt.Sprintf(`{"point":"holding","proc":"%s/c1","key":"l"}`, life), &a) {
				return 5
			}
			if op("fail"); a.HoldMS == 42 {
				op("unknown")
			}
		}
	}
}

func post(url, body string, to any) bool {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if to != nil && json.NewDecoder(resp.Body).Decode(to) != nil {
		return false
	}
	return resp.StatusCode == http.StatusOK
}

// newOwnRig is a fleet of the test binary as a user's own program.
func newOwnRig(t *testing.T, workers int, how string, tune func(*Config)) *rig {
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
	desk, err := own.NewControl("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dir: dir, unexpected: make(chan string, 10)}
	links := link.NewFabric(link.Options{})
	cfg := Config{
		Own:     &Own{Name: "exec:test", Program: own.Program{Words: []string{exe, how}, Dir: dir}, Control: desk, Offer: own.Offer{Points: []control.Point{control.Holding}, Promises: []string{"P1", "P2"}}},
		Sink:    "127.0.0.1:9",
		Workers: workers, Links: links, HistoryDir: dir, LogDir: dir, Recorder: rec,
		Worker:     workload.Config{Run: "r", Clients: 1, Locks: []string{"l"}, TTL: time.Second},
		Unexpected: func(life string, err error) { r.unexpected <- life + ": " + err.Error() },
		Broken:     func(life string, err error) { r.unexpected <- life + ": " + err.Error() },
	}
	if tune != nil {
		tune(&cfg)
	}
	if r.Fleet, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Stop(ctx) // who is still there is killed
		for _, c := range []interface{ Close() error }{links, desk, rec} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// A program in order: it is told where everything is, followed, held at a point, killed and
// started as its next life, and ends with exit code 0.
func TestOwnProgram(t *testing.T) {
	t.Parallel()
	r := newOwnRig(t, 2, "good", nil)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	hits := r.arm(t, "w2")
	hit := <-hits
	if hit.Worker != "w2" || hit.Proc != "w2.1/c1" || hit.Key != "l" {
		t.Errorf("hit %+v", hit)
	}
	if err := hit.Go(42 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for r.Stats().Unknown == 0 || r.Stats().Operations < 10 {
		if t.Context().Err() != nil {
			t.Fatalf("stats %+v", r.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	w, _ := r.Worker("w2")
	if err := w.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil || w.Life() != "w2.2" {
		t.Fatalf("%v, life %s", err, w.Life())
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if len(r.unexpected) > 0 {
		t.Error(<-r.unexpected)
	}
	h, err := history.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	procs := map[string]bool{}
	for _, head := range h.Headers {
		procs[head.Proc] = true
		if head.Proc != "harness" && (head.System != "exec:test" || strings.Join(head.Promises, " ") != "P1 P2") {
			t.Errorf("header %+v", head)
		}
	}
	if len(procs) != 4 {
		t.Errorf("files of %v", procs)
	}
}

// Each way to be broken has its own words, and the program's.
func TestBrokenOwnProgramDoesNotStart(t *testing.T) {
	t.Parallel()
	for how, want := range map[string][]string{
		"exits": {"ended before it was ready: exit status 3", ".1.log:", "no such table: leases"},
		"quits": {"ended before it was ready: exit status 0", ".1.log is empty"},
		"mute":  {"was not ready within 300ms", ".1.log is empty"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newOwnRig(t, 2, how, func(c *Config) {
				if how == "mute" {
					c.ReadyTimeout = 300 * time.Millisecond
				}
			})
			err := r.Start(t.Context())
			if err == nil {
				t.Fatal("it started")
			}
			contains(t, err.Error(), want...)
			if n := strings.Count(err.Error(), "ready"); n != 1 {
				t.Errorf("the same of several workers: %v", err)
			}
		})
	}
}

func TestMalformedHistoryIsFoundAsItIsWritten(t *testing.T) {
	t.Parallel()
	for how, want := range map[string][]string{
		"malformed": {"w1.1: its history is malformed:", `w1.1.jsonl:4: not a valid event: unknown field "colour"`},
		"truncates": {"w1.1: its history is malformed:", "w1.1.jsonl:1: its header is gone", "open the file for appending"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newOwnRig(t, 1, how, nil)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			contains(t, <-r.unexpected, want...) // it goes on running
		})
	}
}

// However a program ends after SIGTERM, Stop leaves none of it, and its life tells how.
func TestEndsOfOwnPrograms(t *testing.T) {
	t.Parallel()
	for how, c := range map[string]struct{ life, crash string }{
		"good":     {"", ""},
		"bySignal": {"", "SIGTERM by runner"},
		"deaf":     {"did not end within 300ms of SIGTERM, and was killed for it", "SIGKILL by runner: it did not end within 300ms"},
		"wordless": {"was asked to end (SIGTERM by runner) and did so with exit status 4, not with exit status 0 or by SIGTERM", "exit status 4"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newOwnRig(t, 1, how, nil)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w := r.Workers()[0]
			for how == "deaf" && w.Stats().Operations == 0 { // from then on it hears nothing
				time.Sleep(time.Millisecond)
			}
			limit := 20 * time.Second
			if how == "deaf" {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := r.Stop(ctx); err != nil {
				t.Error(err)
			}
			if w.PID() != 0 || w.Fell() != (c.life != "") {
				t.Errorf("process %d, fell %t", w.PID(), w.Fell())
			}
			r.ended(t, "w1.1", c.life, c.crash)
		})
	}
}

// Signals reach what the program has started, in whatever session: npm, uv and shell
// scripts are wrappers, and some start what they wrap with setsid.
func TestSignalsReachTheWholeProgram(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"wrapper", "session"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newOwnRig(t, 1, how, nil)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(filepath.Join(r.dir, "w1.1.log"))
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(log), "child ")))
			if err != nil {
				t.Fatal(err)
			}
			w := r.Workers()[0]
			if err := w.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			n, err := w.Standing()
			if s := osproc.Letter(child); err != nil || n != 2 || s != "T" {
				t.Errorf("%d processes stand still, %v; the child is in state %s", n, err, s)
			}
			if err := w.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := osproc.Letter(child); s == "T" {
				t.Error("the child still stands")
			}
			if err := w.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := osproc.Letter(child); s != "" && s != "Z" {
				t.Errorf("the child is in state %s", s)
			}
			r.ended(t, "w1.1", "", "SIGKILL by runner")
		})
	}
}

// What is added to a history, or taken from it, after the life has ended is noticed.
func TestHistoryIsKept(t *testing.T) {
	t.Parallel()
	r := newOwnRig(t, 1, "good", nil)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r.Stats().Operations == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := history.ReadDir(r.dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.dir, "w1.1.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprintf(`{"ts":%d,"proc":"w1.1","type":"note","op":"point","point":"holding"}`+"\n", history.Now())
	if err := os.WriteFile(file, append(whole, note...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := history.ReadDir(r.dir); err == nil || !strings.Contains(err.Error(), "w1.1.jsonl") || !strings.Contains(err.Error(), "when the life w1.1 ended") {
		t.Errorf("a line more: %v", err)
	}
}
