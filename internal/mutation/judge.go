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
}

// Judge builds and tests mutants of one package.
type Judge struct {
	Root  string // the module
	Steps []Step
	// Limit is how much CPU time a step may use, in whole seconds. It is not a time of the wall
	// clock, so that a busy machine kills no mutant.
	Limit time.Duration

	dir string
}

// NewJudge makes a judge and has it pass the package as it is: tests that fail without a
// mutant, or come near the limit, would kill all of them.
func NewJudge(ctx context.Context, root string, steps []Step, limit time.Duration) (*Judge, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	j := &Judge{Root: root, Steps: steps, Limit: limit / 2, dir: dir}
	fate, err := j.Test(ctx, Mutant{})
	switch {
	case err != nil:
	case !fate.Compiled:
		err = errors.New("the package does not compile")
	case fate.Killed:
		err = fmt.Errorf("the package fails without a mutant: %s", fate.By)
	default:
		j.Limit = limit
		return j, nil
	}
	j.Close()
	return nil, err
}

// Close removes what the judge has written.
func (j *Judge) Close() { _ = os.RemoveAll(j.dir) }

// Test compiles a mutant and runs the steps until one fails. The zero Mutant is the package
// as it is.
func (j *Judge) Test(ctx context.Context, m Mutant) (Fate, error) {
	overlay, err := j.overlay(m)
	if err != nil {
		return Fate{}, err
	}
	built := map[string]string{}
	for _, s := range j.Steps {
		if built[s.Dir] == "" {
			binary := filepath.Join(j.dir, fmt.Sprintf("%d.test", len(built)))
			ok, err := j.build(ctx, overlay, s.Dir, binary, m)
			if err != nil || !ok {
				return Fate{}, err
			}
			built[s.Dir] = binary
		}
		by, err := j.run(ctx, built[s.Dir], s)
		if err != nil || by != "" {
			return Fate{Compiled: true, Killed: by != "", By: by}, err
		}
	}
	return Fate{Compiled: true}, nil
}

// overlay writes the mutant beside the work tree and says that it replaces a file there.
func (j *Judge) overlay(m Mutant) (string, error) {
	replace := map[string]string{}
	if m.file != "" {
		src := filepath.Join(j.dir, filepath.Base(m.file))
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
	path := filepath.Join(j.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// notCompiled is a compiler's complaint, about the mutant or about what uses it.
var notCompiled = regexp.MustCompile(`(?m)^\S+\.go:\d+:\d+: `)

// build reports whether the package and its tests compile. Anything else that goes wrong is an error.
func (j *Judge) build(ctx context.Context, overlay, dir, binary string, m Mutant) (bool, error) {
	// Without debug information it is linked in about half the time.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", binary, "./"+dir)
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

// idle is for how long a step may use no CPU time at all: it waits for what never comes.
const idle = time.Minute

// cancelIdle calls cancel when a process has used no CPU time for that long.
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
		switch used := cpuTime(pid); {
		case used != last:
			last, since = used, time.Now()
		case time.Since(since) >= most:
			cancel()
			return
		}
	}
}

// cpuTime is what /proc says that a process has used, in user and in system mode.
func cpuTime(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // gone: it has ended
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return ""
	}
	return fields[11] + " " + fields[12]
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run returns the test that failed; "" if none did.
func (j *Judge) run(ctx context.Context, binary string, s Step) (by string, err error) {
	timed, cancel := context.WithCancel(ctx)
	defer cancel()
	// The shell's limits are of this process alone, and the kernel's.
	limits := fmt.Sprintf(`ulimit -t %d; ulimit -v %d; exec "$@"`, int(j.Limit.Seconds()), memory)
	cmd := exec.CommandContext(timed, "sh", append([]string{"-c", limits, "sh", binary, "-test.failfast"}, s.Args...)...)
	cmd.Dir = filepath.Join(j.Root, s.Dir)
	cmd.WaitDelay = 10 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go cancelIdle(timed, cmd.Process.Pid, idle, cancel)
	err = cmd.Wait()
	out := text.Bytes()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("%s %v has no tests to run", s.Dir, s.Args)
	case err == nil:
		return "", nil
	case timed.Err() != nil || errors.Is(err, exec.ErrWaitDelay):
		return "limit", nil
	case !errors.As(err, &exit):
		return "", err
	case !exit.Exited():
		return "limit", nil
	}
	found := failed.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		return oneLine(firstLine(string(out))), nil
	}
	return string(slices.MaxFunc(found, func(a, b [][]byte) int { return len(a[1]) - len(b[1]) })[1]), nil
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return line
		}
	}
	return "failed without a test's name"
}
