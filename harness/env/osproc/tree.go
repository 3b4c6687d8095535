package osproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
)

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
