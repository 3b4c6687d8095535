package own

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
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
	out, log, _, err := p.run(ctx, Setup, vars, logDir)
	if err != nil {
		return Offer{}, err
	}
	o, err := parseOffer(out)
	if err != nil {
		return o, fmt.Errorf("task setup of %s: %w%s", p.Words[0], err, osproc.LastWords(log, 0))
	}
	return o, nil
}

// RunSeal runs the task seal. Its life is nil if it could not be started, or ctx was over.
func (p Program) RunSeal(ctx context.Context, vars []string, logDir string) (*history.ProcessLife, error) {
	_, _, life, err := p.run(ctx, Seal, vars, logDir)
	return life, err
}

// run runs a task to its end; what it prints to standard error is its log.
func (p Program) run(ctx context.Context, t Task, vars []string, logDir string) (stdout []byte, logName string, life *history.ProcessLife, err error) {
	cmd, err := p.Command(vars)
	if err != nil {
		return nil, "", nil, err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	logName = filepath.Join(logDir, string(t)+".log")
	proc, err := osproc.Start(osproc.Spec{Kind: history.LifeTask, Name: string(t), Command: cmd, Log: logName, Guarded: true})
	if err != nil {
		return nil, "", nil, fmt.Errorf("task %s: %w", t, err)
	}
	limit := time.NewTimer(TaskTimeout)
	defer limit.Stop()
	select {
	case <-proc.Done():
	case <-ctx.Done():
		return nil, "", nil, errors.Join(ctx.Err(), proc.Kill(ctx))
	case <-limit.C:
		if err := proc.GiveUp(ctx, fmt.Sprintf("did not end within %s", TaskTimeout)); err != nil {
			return nil, "", nil, err
		}
	}
	end := proc.Life()
	if wrong := end.Unplanned(); wrong != "" {
		err = fmt.Errorf("task %s of %s %s%s", t, strings.Join(p.Words, " "), wrong, proc.LastWords())
	}
	return out.Bytes(), logName, &end, err
}
