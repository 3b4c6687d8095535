package own

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
}

// Variables are the environment of a task. c.Life and c.History are those of the one
// life; of Locks a worker whose clients have a lock each gets its own.
func Variables(t Task, c workload.Config, at Places) []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	// The checker's own margin, so that who keeps to it is judged as it behaves.
	margin := time.Duration(2*c.DriftBound*float64(c.TTL)) + c.MarginBase
	vars := [][2]string{
		{"TASK", string(t)}, {"RUN", c.Run}, {"SEED", strconv.FormatUint(c.Seed, 10)}, {"KEYSPACE", c.Keyspace},
		{"NODES", strings.Join(at.Nodes, ",")}, {"LOCKS", strings.Join(c.Locks, ",")},
		{"TTL_MS", ms(c.TTL)}, {"MARGIN_MS", ms(margin)},
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
