package osproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fencepost/harness/record/history"
)

// statePoll is how often /proc is asked while a signal takes effect.
const statePoll = 2 * time.Millisecond

// statOf are the fields that /proc shows of a process or of one of its threads, from the
// state on: the third, fourth … of them. path is its directory in /proc.
func statOf(path string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(path, "stat"))
	if err != nil {
		return nil, err
	}
	// pid (name) S …: the name may hold spaces and brackets.
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])), nil
}

// letter is the state letter of a process or of one of its threads, "" if there is none.
func letter(path string) string {
	if stat, err := statOf(path); err == nil && len(stat) > 0 {
		return stat[0]
	}
	return ""
}

// Letter is the state letter of a process (R, S, T …), "" if there is none.
func Letter(pid int) string { return letter(procDir(pid)) }

func procDir(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// AwaitStopped returns when every thread (want true), or no thread (want false),
// of the process is stopped.
func AwaitStopped(ctx context.Context, pid int, want bool) error {
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		stopped, running, err := threadStates(pid)
		if err != nil {
			return err
		}
		if want && running == 0 || !want && stopped == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d: %d threads stopped, %d not: %w", pid, stopped, running, ctx.Err())
		}
	}
}

func threadStates(pid int) (stopped, running int, err error) {
	task := filepath.Join(procDir(pid), "task")
	entries, err := os.ReadDir(task)
	if err != nil {
		return 0, 0, fmt.Errorf("process %d: %w", pid, err)
	}
	for _, e := range entries {
		switch letter(filepath.Join(task, e.Name())) {
		case "T", "t": // t: a debugger holds it
			stopped++
		case "", "Z", "X": // a thread that is just ending
		default:
			running++
		}
	}
	if stopped+running == 0 {
		return 0, 0, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return stopped, running, nil
}

// stands says whether a process does nothing: every thread is stopped, or it has ended.
func stands(pid int) bool {
	_, running, err := threadStates(pid)
	return running == 0 && (err == nil || gone(err))
}

// ended says whether a process is gone, or waits only for its parent to hear so.
func ended(pid int) bool {
	_, _, err := threadStates(pid)
	return gone(err)
}

// Identity is one process among all that ever have its id: the kernel gives ids again.
type Identity struct {
	PID     int
	Started uint64 // clock ticks since boot
}

// Identify tells a process from later ones with its id.
func Identify(pid int) (Identity, error) {
	stat, err := statOf(procDir(pid))
	if err != nil {
		return Identity{}, fmt.Errorf("process %d: %w", pid, err)
	}
	const started = 22 - 3
	if len(stat) <= started {
		return Identity{}, fmt.Errorf("process %d: /proc shows %d fields of its state", pid, len(stat)+2)
	}
	at, err := strconv.ParseUint(stat[started], 10, 64)
	if err != nil {
		return Identity{}, fmt.Errorf("process %d: its start: %w", pid, err)
	}
	return Identity{pid, at}, nil
}

// Exists asks the kernel whether it still has the process, be it as one that has ended and
// was not waited for.
func (i Identity) Exists() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// ExitCode is what a shell says of how a command ended, by its state and the error of
// waiting for it.
func ExitCode(state *os.ProcessState, err error) (int, error) {
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		return 0, err
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return state.ExitCode(), nil
}

type whoKey struct{}

// As is a context for what is done to processes in the name of somebody, such as a fault
// by its id; see [By].
func As(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

// By is in whose name something is done to a process. Default: the runner's.
func By(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return cmp.Or(who, history.Runner)
}

// tree is what descends from a process: of a guard all that it guards, else the process
// itself too.
type tree struct {
	root    int
	guarded bool
}

// member is a process of a tree at the time of a look.
type member struct{ pid, parent int }

// members are those of now, parents first.
func (t tree) members() ([]member, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent := parentOf(pid); parent != 0 {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var out []member
	if !t.guarded && Letter(t.root) != "" {
		out = append(out, member{t.root, parentOf(t.root)})
	}
	for todo := []int{t.root}; len(todo) > 0; todo = todo[1:] {
		for _, pid := range children[todo[0]] {
			out = append(out, member{pid, todo[0]})
			todo = append(todo, pid)
		}
	}
	return out, nil
}

// signal sends a signal, unless the number has become another process's meanwhile.
func (m member) signal(sig syscall.Signal) error {
	p, err := os.FindProcess(m.pid) // from here on it is this one process
	if err != nil {
		return err
	}
	defer p.Release()
	if parentOf(m.pid) != m.parent {
		return os.ErrProcessDone // or it is an orphan by now, and found by the next look
	}
	return p.Signal(sig)
}

// gone: what was asked about is no more.
func gone(err error) bool {
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// signal sends a signal to every member, children first: without a guard they are lost
// when their parent is gone.
func (t tree) signal(sig syscall.Signal) error {
	members, err := t.members()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(members) {
		if err := m.signal(sig); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("process %d: %w", m.pid, err))
		}
	}
	return errors.Join(errs...)
}

// cleanLooks is how often in a row all must be found standing. A process that starts
// another and ends, both between the look at its parent and that at itself, is missed by
// one look: the other is an orphan at the next.
const cleanLooks = 2

// stop stops all members and returns when every thread of every one stands. A process
// stands before its children are stopped, so that in the end no more come.
func (t tree) stop(ctx context.Context) error {
	for clean := 0; clean < cleanLooks; clean++ {
		members, err := t.members()
		if err != nil {
			return err
		}
		for _, m := range members {
			if stands(m.pid) {
				continue
			}
			clean = -1
			if err = m.signal(syscall.SIGSTOP); err == nil {
				err = AwaitStopped(ctx, m.pid, true)
			}
			if err != nil && !gone(err) {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("its processes do not stand still: %w", err)
		}
	}
	return nil
}

// resume lets all members go on and returns when no thread stands any more. Children go
// first: a parent may look after them.
func (t tree) resume(ctx context.Context) error {
	members, err := t.members()
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(members) {
		err := m.signal(syscall.SIGCONT)
		if err == nil {
			err = AwaitStopped(ctx, m.pid, false)
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// standing returns how many processes there are, all of which stand with every thread; an
// error names the first that does not.
func (t tree) standing() (int, error) {
	members, err := t.members()
	if err != nil {
		return 0, err
	}
	for _, m := range members {
		stopped, running, err := threadStates(m.pid)
		if err != nil && !gone(err) {
			return 0, err
		}
		if running > 0 {
			return 0, fmt.Errorf("process %d: %d threads stand still, %d do not", m.pid, stopped, running)
		}
	}
	if len(members) == 0 {
		return 0, os.ErrProcessDone
	}
	return len(members), nil
}

// Standing says that a process and all that descends from it stand still, every thread of
// them, by an error if not.
func Standing(pid int) error {
	_, err := tree{pid, false}.standing()
	return err
}

// parentOf is a process's parent, 0 if there is none.
func parentOf(pid int) int {
	stat, err := statOf(procDir(pid))
	if err != nil || len(stat) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(stat[1])
	return parent
}
