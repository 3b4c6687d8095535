package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// memory is what a mutant that never stops allocating may use, in KiB of address space.
const memory = 8 << 20

// Fate is what became of a mutant.
type Fate struct {
	Compiled, Killed bool
	// By is the test that failed, or "limit".
	By string
	// Reached: there is a test that runs what was edited.
	Reached bool
}

// Judge builds and tests mutants of one package. Safe for concurrent use.
type Judge struct {
	Root  string // the module
	Steps []Step
	// Limit is how much CPU time tests that run together may use, in whole seconds. It is not a
	// time of the wall clock, so that a busy machine kills no mutant.
	Limit time.Duration

	dir   string
	tests [][]unit // of each step, the cheapest first
}

// NewJudge makes a judge of the package pkg and has each of its tests pass the package as it is:
// tests that fail without a mutant, or come near the limit, would kill all of them.
func NewJudge(ctx context.Context, root, pkg string, steps []Step, limit time.Duration) (*Judge, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	j := &Judge{Root: root, Steps: steps, Limit: limit, dir: dir}
	if err := j.measure(ctx, pkg); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *Judge) measure(ctx context.Context, pkg string) error {
	overlay, err := overlay(j.dir, Mutant{})
	if err != nil {
		return err
	}
	for i, s := range j.Steps {
		binary := filepath.Join(j.dir, "measured.test")
		if i == 0 || s.Dir != j.Steps[i-1].Dir {
			if _, err := j.build(ctx, overlay, s.Dir, binary, Mutant{}, "-cover", "-covermode=set", "-coverpkg=./"+pkg); err != nil {
				return err
			}
		}
		tests, err := j.units(ctx, s, binary)
		if err != nil {
			return err
		}
		j.tests = append(j.tests, tests)
	}
	return nil
}

// Close removes what the judge has written.
func (j *Judge) Close() { _ = os.RemoveAll(j.dir) }

// Test compiles a mutant and runs the tests that reach it, step by step, until one fails.
func (j *Judge) Test(ctx context.Context, m Mutant) (f Fate, err error) {
	dir, err := os.MkdirTemp(j.dir, "mutant")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlay(dir, m)
	if err != nil {
		return f, err
	}
	built := map[string]string{}
	for i, s := range j.Steps {
		groups := j.batches(j.tests[i], m)
		if len(groups) == 0 && i > 0 {
			continue
		}
		if built[s.Dir] == "" {
			binary := filepath.Join(dir, fmt.Sprintf("%d.test", i))
			if f.Compiled, err = j.build(ctx, overlay, s.Dir, binary, m); err != nil || !f.Compiled {
				return f, err
			}
			built[s.Dir] = binary
		}
		for _, group := range groups {
			f.Reached = true
			if f.By, err = j.runs(ctx, built[s.Dir], s, group); err != nil || f.By != "" {
				f.Killed = f.By != ""
				return f, err
			}
		}
	}
	return f, nil
}

// runs gives tests five times the CPU time that they use without a mutant, and some seconds.
func (j *Judge) runs(ctx context.Context, binary string, s Step, group []unit) (by string, err error) {
	var names []string
	limit := 5 * time.Second
	for _, u := range group {
		names, limit = append(names, u.name), limit+5*u.cpu
	}
	by, _, err = j.run(ctx, binary, s, names, min(limit, j.Limit))
	return by, err
}

// overlay writes the mutant beside the work tree and says that it replaces a file there.
func overlay(dir string, m Mutant) (string, error) {
	replace := map[string]string{}
	if m.file != "" {
		src := filepath.Join(dir, filepath.Base(m.file))
		if err := os.WriteFile(src, m.source, 0o600); err != nil {
			return "", err
		}
		path, err := filepath.Abs(m.file)
		if err != nil {
			return "", err
		}
		replace[path] = src
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// notCompiled is a compiler's complaint, about the mutant or about what uses it.
var notCompiled = regexp.MustCompile(`(?m)^\S+\.go:\d+:\d+: `)

// build reports whether the package and its tests compile. Anything else that goes wrong is an error.
func (j *Judge) build(ctx context.Context, overlay, dir, binary string, m Mutant, flags ...string) (bool, error) {
	// Without debug information it is linked in about half the time.
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	cmd.Dir = j.Root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true, nil
	}
	if ctx.Err() == nil && m.file != "" && notCompiled.Match(out) {
		return false, nil
	}
	return false, fmt.Errorf("go test -c ./%s: %w\n%s", dir, err, out)
}

// idle is for how long tests may have nothing to do: they wait for what never comes.
const idle = 30 * time.Second

// cancelIdle calls cancel when a process has for that long used no CPU time and waited for none.
func cancelIdle(ctx context.Context, pid int, most time.Duration, cancel func()) {
	tick := time.NewTicker(most / 10)
	defer tick.Stop()
	last, since := "", time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch used, runnable := cpuTime(pid); {
		case used != last || runnable:
			last, since = used, time.Now()
		case time.Since(since) >= most:
			cancel()
			return
		}
	}
}

// cpuTime is what /proc says that a process has used, in user and in system mode, and whether a
// thread of it could go on.
func cpuTime(pid int) (used string, runnable bool) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, t := range append(threads, fmt.Sprintf("/proc/%d/stat", pid)) {
		stat, _ := os.ReadFile(t) // gone: it has ended
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 13 {
			continue
		}
		used, runnable = fields[11]+" "+fields[12], runnable || fields[0] == "R"
	}
	return used, runnable
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run returns the test that failed, "" if none did, and the CPU time of all.
func (j *Judge) run(ctx context.Context, binary string, s Step, names []string, limit time.Duration, args ...string) (by string, cpu time.Duration, err error) {
	timed, cancel := context.WithCancel(ctx)
	defer cancel()
	// The shell's limits are of this process alone, and the kernel's.
	limits := fmt.Sprintf(`ulimit -t %d; ulimit -v %d; exec "$@"`, int(limit.Round(time.Second).Seconds()), memory)
	args = slices.Concat([]string{"-c", limits, "sh", binary, "-test.failfast", "-test.run=^(" + strings.Join(names, "|") + ")$"}, args, s.Args)
	cmd := exec.CommandContext(timed, "sh", args...)
	cmd.Dir = filepath.Join(j.Root, s.Dir)
	cmd.WaitDelay = 10 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	go cancelIdle(timed, cmd.Process.Pid, idle, cancel)
	err = cmd.Wait()
	cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	out := text.Bytes()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", cpu, ctx.Err()
	case bytes.Contains(out, []byte("no tests to run")):
		return "", cpu, fmt.Errorf("%s has no tests %v", s, names)
	case err == nil:
		return "", cpu, nil
	case timed.Err() != nil || errors.Is(err, exec.ErrWaitDelay):
		return "limit", cpu, nil
	case !errors.As(err, &exit):
		return "", cpu, err
	case !exit.Exited():
		return "limit", cpu, nil
	}
	found := failed.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		return oneLine(firstLine(string(out))), cpu, nil
	}
	return string(slices.MaxFunc(found, func(a, b [][]byte) int { return len(a[1]) - len(b[1]) })[1]), cpu, nil
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return line
		}
	}
	return "failed without a test's name"
}
