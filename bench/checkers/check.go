package checkers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"fencepost/harness/record/verdict"
)

// check is what a check said and took.
type check struct {
	operations int64
	took       time.Duration
	cpu        time.Duration
	// peak is the most memory that one of its processes had at a time, in bytes; 0: not known.
	peak int64
}

// said is what of verdict.json is looked at.
type said struct {
	Verdict verdict.Verdict `json:"verdict"`
	Summary string          `json:"summary"`
	Counts  struct {
		Operations int64 `json:"operations"`
	} `json:"counts"`
}

// notPassError is the verdict on a legal history that is another than PASS.
type notPassError struct {
	dir   string
	said  said
	state string
}

func (e *notPassError) Error() string {
	return fmt.Sprintf("check %s: %s (%s), a legal history is to be a PASS: %s", e.dir, e.said.Verdict, e.state, e.said.Summary)
}

// runCheck judges the history of a run as a user does.
func runCheck(ctx context.Context, exe, dir string) (check, error) {
	cmd := exec.CommandContext(ctx, exe, "check", "--json", dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	c := check{took: time.Since(begin)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // a verdict other than PASS is one
		return c, fmt.Errorf("check %s: %w", dir, err)
	}
	var r said
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return c, fmt.Errorf("check %s: %s, without a verdict: %s", dir, cmd.ProcessState, lastWords(errs.Bytes()))
	}
	if r.Verdict != verdict.Pass || err != nil {
		return c, &notPassError{dir, r, cmd.ProcessState.String()}
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return c, fmt.Errorf("check %s: what it used is not known here", dir)
	}
	c.operations = r.Counts.Operations
	c.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano()) // its child's too
	c.peak, err = ownPeak(used.Maxrss << 10)
	return c, err
}

// ownPeak is the peak of a child as the kernel accounts it, 0 if it may be this process's: a
// child begins with the memory of its parent, and that counts as the child's.
func ownPeak(peak int64) (int64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, err
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0, err
	}
	if uint64(peak) <= status.VmHWM {
		return 0, nil
	}
	return peak, nil
}
