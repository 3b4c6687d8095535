package own

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

// Program is a user's command line. Its words are separated by blanks; there is no shell.
type Program struct {
	Words []string
	// Dir is where it is started; relative paths in Words are meant from there.
	Dir string
}

// Parse splits a command line into its words.
func Parse(line string) (Program, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Program{}, errors.New("no program is named: exec:CMD, such as exec:python3 mine.py")
	}
	return Program{Words: words}, nil
}

// Look says whether the program can be started at all.
func (p Program) Look() error {
	_, err := p.path()
	return err
}

func (p Program) path() (string, error) {
	name := p.Words[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(p.Dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("exec:%s: the program cannot be started: %w", strings.Join(p.Words, " "), err)
	}
	return path, nil
}

// Command is the program with the variables of its task.
func (p Program) Command(vars []string) (*exec.Cmd, error) {
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, p.Words[1:]...)
	cmd.Args[0] = p.Words[0]
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), vars...)
	return cmd, nil
}

// Task is what a program is started for.
type Task string

// The tasks.
const (
	Setup Task = "setup"
	Work  Task = "work"
	Seal  Task = "seal"
)

// Prefix is that of all variables.
const Prefix = "FENCEPOST_"

// Places are the addresses that a program is given; "" for those that its task has not.
type Places struct {
	Nodes   []string // "ip:port" of each node, or of the link to it
	Sink    string   // "http://ip:port"
	Control string   // "http://ip:port/LIFE"
	Secret  string   // a file with what is shown to the store at a login
}

// Variables are the environment of a task. c.Life and c.History are those of the one
// life; of Locks a worker whose clients have a lock each gets its own.
func Variables(t Task, c workload.Config, at Places) []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	// The checker's own margin, so that who keeps to it is judged as it behaves.
	margin := time.Duration(2*c.DriftBound*float64(c.TTL)) + c.MarginBase
	vars := [][2]string{
		{"TASK", string(t)}, {"RUN", c.Run}, {"SEED", strconv.FormatUint(c.Seed, 10)}, {"KEYSPACE", c.Keyspace},
		{"STORE", cmp.Or(c.Store, servers.Cassandra)},
		{"NODES", strings.Join(at.Nodes, ",")}, {"LOCKS", strings.Join(c.Locks, ",")},
		{"TTL_MS", ms(c.TTL)}, {"MARGIN_MS", ms(margin)},
	}
	if at.Secret != "" {
		vars = append(vars, [2]string{"SECRET", at.Secret})
	}
	if t != Setup {
		vars = append(vars, [][2]string{{"LIFE", c.Life}, {"HISTORY", c.History}}...)
	}
	if t == Work {
		each := "any"
		if c.Own {
			each = "own"
		}
		vars = append(vars, [][2]string{
			{"WORKER", c.Worker}, {"CLIENTS", strconv.Itoa(c.Clients)}, {"PICK", each},
			{"HOLD_MS", ms(c.Hold)}, {"THINK_MS", ms(c.Think)}, {"ACQUIRE_TIMEOUT_MS", ms(c.AcquireTimeout)},
			{"SINK", at.Sink}, {"CONTROL", at.Control},
		}...)
	}
	out := make([]string, len(vars))
	for i, v := range vars {
		out[i] = Prefix + v[0] + "=" + v[1]
	}
	return out
}

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

// Promisable are all that a program can promise.
func Promisable() []string { return slices.Concat(DefaultPromises, optional) }

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
		if !offerable(p) {
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
		if !slices.Contains(Promisable(), id) {
			return o, fmt.Errorf("it promises %q; what a program can promise is %s", id, strings.Join(Promisable(), ", "))
		}
	}
	return o, nil
}

// offerable: a program can stand at the point, and its links show that it does. No link shows
// whether an answer was looked at.
func offerable(p control.Point) bool {
	_, known := control.Points[p]
	return known && !control.OfJobs(p) && !control.Answered(p)
}

func lockPoints() []string {
	var out []string
	for p := range control.Points {
		if offerable(p) {
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
