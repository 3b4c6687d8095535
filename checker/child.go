package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/checker/linear"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// ChildEnv is the environment variable that carries a child's orders, as JSON.
const ChildEnv = "FENCEPOST_CHECK_CHILD"

// ChildArgs make the tool's executable a checking child; it then calls ChildMain.
var ChildArgs = []string{"check", "--child"}

type childRequest struct {
	Options Options  `json:"options"`
	Inputs  []string `json:"inputs"`
}

// childAnswer is what a child prints.
type childAnswer struct {
	Result    *Result              `json:"result,omitempty"`
	Malformed *history.FormatError `json:"malformed,omitempty"`
	Error     string               `json:"error,omitempty"`
	// Peak is the child's largest resident memory in kB. (The parent cannot ask
	// the kernel: it counts the parent's own pages to a child that it starts.)
	Peak int64 `json:"peak_kb,omitempty"`
}

// InputError is input that cannot be checked: no history, unreadable files,
// histories that do not belong together. A malformed history is a
// *history.FormatError, which names file and line.
type InputError struct{ Reason string }

func (e *InputError) Error() string { return e.Reason }

// CheckInChild checks a run directory (or history files, or a directory of
// them) in a process of its own, with the default limits of [Options]. exe is
// the tool's executable, which calls [ChildMain] for [ChildArgs]. A child that
// exceeds its limits or dies makes the verdict UNKNOWN, with the reason.
//
// For a run directory it writes verdict.json and the visualizations into it.
// Errors: *history.FormatError and *InputError for the input, ctx's, and those
// of starting a process.
func CheckInChild(ctx context.Context, exe string, inputs ...string) (*Result, error) {
	return Options{}.CheckInChild(ctx, exe, inputs...)
}

// CheckInChild is like the function, with o. An empty Dir is the run directory,
// if the input is one.
func (o Options) CheckInChild(ctx context.Context, exe string, inputs ...string) (*Result, error) {
	o = o.withDefaults()
	run := RunDir(inputs...)
	if o.Dir == "" {
		o.Dir = run
	}
	if run != "" {
		linear.RemoveDrawings(run) // of an earlier check
	}
	res, err := o.spawn(ctx, exe, inputs)
	if err != nil {
		return nil, err
	}
	res.Dir = o.Dir
	if run != "" {
		err = rundir.WriteJSON(filepath.Join(run, rundir.VerdictFile), res)
	}
	return res, err
}

// RunDir returns the run directory that the inputs name: a sole directory with
// a history directory in it; else "".
func RunDir(inputs ...string) string {
	if len(inputs) != 1 {
		return ""
	}
	if info, err := os.Stat(filepath.Join(inputs[0], rundir.HistoryDir)); err != nil || !info.IsDir() {
		return ""
	}
	return inputs[0]
}

// command is a child with these orders, which dies with the thread that starts it, and
// the head of what it says on standard error.
func (d childRequest) command(ctx context.Context, exe string, args []string) (*exec.Cmd, *headBuffer, error) {
	env, err := json.Marshal(d)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), ChildEnv+"="+string(env))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr := &headBuffer{max: 16 << 10}
	cmd.Stderr = stderr
	return cmd, stderr, nil
}

func (o Options) spawn(ctx context.Context, exe string, inputs []string) (*Result, error) {
	limited, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	cmd, stderr, err := childRequest{o, inputs}.command(limited, exe, ChildArgs)
	if err != nil {
		return nil, err
	}
	cmd.WaitDelay = time.Second
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	// The kernel sends the death signal when the thread that forked ends, so
	// that thread is kept until the child is gone.
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return unfinished(fmt.Sprintf("the check did not finish within %s", o.Limit)), nil
	case err != nil && cmd.ProcessState == nil:
		return nil, fmt.Errorf("cannot start the checker: %w", err)
	case err != nil:
		return unfinished(o.postMortem(err, stderr.String())), nil
	}
	var a childAnswer
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("%s does not answer as a checker: %w", exe, err)
	}
	switch {
	case a.Malformed != nil:
		return nil, a.Malformed
	case a.Error != "":
		return nil, &InputError{a.Error}
	case a.Result == nil:
		return nil, fmt.Errorf("%s does not answer as a checker", exe)
	}
	return a.Result, nil
}

// postMortem says why a child died.
func (o Options) postMortem(err error, stderr string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	var exit *exec.ExitError
	switch {
	case strings.Contains(stderr, "out of memory") || strings.Contains(stderr, "cannot allocate memory"):
		return fmt.Sprintf("the check needed more than its %d MB of memory", o.Memory>>20)
	case strings.HasPrefix(first, "SIGSEGV: "), strings.HasPrefix(first, "runtime/cgo: pthread_create failed"),
		strings.HasPrefix(first, "runtime: failed to create new OS thread"):
		// A mistake of the checker's own is a panic; this is Go's runtime, which does
		// not survive every refusal of memory: a thread needs some for its stack.
		return fmt.Sprintf("the checker's runtime died (%s), as a rule because the check needed more than its %d MB of memory",
			first, o.Memory>>20)
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return fmt.Sprintf("the checker was killed (%s), perhaps for lack of memory", exit)
	}
	return fmt.Sprintf("the checker died (%v): %s", err, first)
}

// unfinished is the result of a check that came to no end.
func unfinished(why string) *Result {
	r := &Result{Version: 1, Verdict: Unknown, Answer: &Answer{
		What: "nothing is known: " + why, Do: "check it again with more time or memory (fencepost check --limit --memory)",
	}}
	r.Summary = r.Answer.Text()
	for _, p := range Catalogue() {
		p.Status, p.Detail = StatusUnknown, why
		r.Properties = append(r.Properties, p)
	}
	return r
}

// headBuffer keeps the beginning of what is written.
type headBuffer struct {
	bytes.Buffer
	max int
}

func (b *headBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:max(0, min(len(p), b.max-b.Len()))])
	return len(p), nil
}

// ChildMain is a checking child: it takes its orders from the environment, sets
// its own limits, and prints its answer. It returns the exit code.
func ChildMain(stdout io.Writer) int {
	do, err := readRequest("checking")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var a childAnswer
	debug.SetGCPercent(-1) // most of what reading and sorting allocate is kept
	h, err := Read(do.Inputs...)
	switch {
	case errors.As(err, &a.Malformed):
	case err != nil:
		a.Error = err.Error()
	default:
		o := do.Options.withDefaults()
		sorted := property.New(h, false, o.Dir, o.Search)
		debug.SetGCPercent(gcPercent)
		runtime.GC() // and wait for it: one that runs beside the check starts too late
		a.Result = judge(context.Background(), sorted)
	}
	a.Peak = peakMemory()
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// readRequest takes a child's orders from the environment, and limits its memory as they say.
func readRequest(kind string) (do childRequest, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(ChildEnv)), &do); err != nil {
		return do, fmt.Errorf("%s: %v (a %s child is started by the tool, not by hand)", ChildEnv, err, kind)
	}
	if do.Options.Memory > 0 {
		if err := limitMemory(do.Options.Memory); err != nil {
			return do, fmt.Errorf("memory limit: %w", err)
		}
	}
	return do, nil
}

// peakMemory is this process's largest resident memory so far in kB, 0 if
// the kernel does not tell.
func peakMemory() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kb int64
	fmt.Sscan(rest, &kb)
	return kb
}

// gcPercent trades a little time for memory: most of what a check holds is the
// history itself, which never becomes garbage.
const gcPercent = 22

// limitMemory makes this process's allocations fail beyond n bytes. The limit is
// on private writable memory: unlike the address space, of which the runtime
// reserves much more than it uses, that is what it has really asked for. The
// collector works harder before it comes to that.
func limitMemory(n int64) error {
	debug.SetMemoryLimit(n / 10 * 8)
	debug.SetGCPercent(gcPercent)
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)})
}

// Read reads the history of a run directory, of a directory of history files,
// or of the named files.
func Read(inputs ...string) (*history.History, error) {
	if len(inputs) == 0 {
		return nil, errors.New("no history named")
	}
	if dir := RunDir(inputs...); dir != "" {
		return history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	}
	if info, err := os.Stat(inputs[0]); err == nil && info.IsDir() {
		if len(inputs) > 1 {
			return nil, errors.New("one directory, or files, not both: the histories of several runs are checked one by one")
		}
		return history.ReadDir(inputs[0])
	}
	return history.ReadFiles(inputs...)
}
