package own

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
	"slices"
	"strings"
	"syscall"
	"time"

	"fencepost/harness/control"
	"fencepost/harness/osproc"
)

// TaskTimeout bounds the tasks setup and seal.
const TaskTimeout = 90 * time.Second

// Offer is what a program's setup says on its standard output.
type Offer struct {
	// Points are those at which its clients ask; none: it runs under faults at
	// instants only.
	Points []control.Point `json:"points"`
	// Promises are the properties that it claims; absent: DefaultPromises.
	Promises []string `json:"promises"`
}

// DefaultPromises are the properties of locks and sink that a history alone decides.
// P5 and P12 are of jobs, P13 of statements, for which not every program is meant to answer.
var DefaultPromises = []string{"P1", "P2", "P3", "P4", "P6", "P7", "P8", "P9", "P10", "P11"}

// optional may be promised beside them.
var optional = []string{"P13"}

// parseOffer reads it: nothing at all, or one JSON object.
func parseOffer(out []byte) (Offer, error) {
	var o Offer
	if len(bytes.TrimSpace(out)) > 0 {
		dec := json.NewDecoder(bytes.NewReader(out))
		dec.DisallowUnknownFields()
		err := dec.Decode(&o)
		if err == nil && dec.Decode(new(json.RawMessage)) != io.EOF {
			err = errors.New("more than one value")
		}
		if err != nil {
			return o, fmt.Errorf(`its standard output must be empty or one JSON object such as {"points": ["holding"]}, messages belong to standard error: %w; it is %q`, err, head(out))
		}
	}
	for _, p := range o.Points {
		if _, known := control.Points[p]; !known || control.OfJobs(p) {
			return o, fmt.Errorf("it offers the point %q; the points of locks are %s", p, strings.Join(lockPoints(), ", "))
		}
	}
	if o.Promises == nil {
		o.Promises = slices.Clone(DefaultPromises)
	}
	if len(o.Promises) == 0 {
		return o, errors.New("it promises nothing (\"promises\": []): leave promises out for all that can be judged")
	}
	for _, id := range o.Promises {
		if !slices.Contains(DefaultPromises, id) && !slices.Contains(optional, id) {
			return o, fmt.Errorf("it promises %q; what a program can promise is %s", id, strings.Join(append(slices.Clone(DefaultPromises), optional...), ", "))
		}
	}
	return o, nil
}

func lockPoints() []string {
	var out []string
	for p := range control.Points {
		if !control.OfJobs(p) {
			out = append(out, string(p))
		}
	}
	slices.Sort(out)
	return out
}

func head(b []byte) string {
	const most = 200
	return string(b[:min(len(b), most)])
}

// RunSetup runs the task setup and returns what the program offers.
func (p Program) RunSetup(ctx context.Context, vars []string, logDir string) (Offer, error) {
	out, log, err := p.run(ctx, Setup, vars, logDir)
	if err != nil {
		return Offer{}, err
	}
	o, err := parseOffer(out)
	if err != nil {
		return o, fmt.Errorf("task setup of %s: %w%s", p.Words[0], err, osproc.LastWords(log))
	}
	return o, nil
}

// RunSeal runs the task seal.
func (p Program) RunSeal(ctx context.Context, vars []string, logDir string) error {
	_, _, err := p.run(ctx, Seal, vars, logDir)
	return err
}

// run runs a task to its end; what it prints to standard error is its log.
func (p Program) run(ctx context.Context, t Task, vars []string, logDir string) (stdout []byte, logName string, err error) {
	ctx, cancel := context.WithTimeout(ctx, TaskTimeout)
	defer cancel()
	cmd, err := p.Command(vars)
	if err != nil {
		return nil, "", err
	}
	log, err := os.Create(filepath.Join(logDir, string(t)+".log"))
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, log
	cmd.WaitDelay = time.Second // a grandchild may keep standard output open
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("task %s: %w", t, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = osproc.SignalGroup(cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	inTime := stop()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	_ = osproc.SignalGroup(cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	switch {
	case !inTime && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s and was killed", TaskTimeout)
	case !inTime:
		return nil, "", ctx.Err()
	}
	if err != nil {
		return nil, "", fmt.Errorf("task %s of %s: %w%s", t, strings.Join(p.Words, " "), err, osproc.LastWords(log.Name()))
	}
	return out.Bytes(), log.Name(), nil
}
