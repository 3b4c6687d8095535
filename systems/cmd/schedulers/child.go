package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"fencepost/systems/drive"
	"fencepost/systems/lines"
)

// child is a scheduler in another language: a process with its library, which speaks lines of JSON on its
// standard input and output. It has this process's environment, its standard error is the worker's log, and
// it ends when its standard input does.
type child struct {
	*lines.Process
	name  string
	run   drive.Run
	ready chan struct{}

	mu      sync.Mutex // of what follows
	stopped bool
	last    int64
	answers map[int64]chan error
	runs    map[int64]context.CancelFunc
}

// message is a line, in either direction.
type message struct {
	// Op: put, done or stop for the child; ready, answer, run or cancel from it.
	Op    string `json:"op"`
	ID    int64  `json:"id,omitempty"` // of the put, or of the run
	Lock  string `json:"lock,omitempty"`
	N     int64  `json:"n"`
	Token int64  `json:"token,omitempty"` // of a run
	Error string `json:"error,omitempty"` // of an answer or a run; "": there is none
}

// through opens a queue whose library is another language's.
func through(l library) func(context.Context, drive.Place, int, drive.Run) (drive.Queue, error) {
	return func(ctx context.Context, _ drive.Place, slots int, run drive.Run) (drive.Queue, error) {
		cmd, err := l.command()
		if err != nil {
			return nil, err
		}
		return openChild(ctx, l.name, cmd, slots, run)
	}
}

// openChild starts a program, with the number of jobs that it may run at once as its last argument.
func openChild(ctx context.Context, name string, cmd *exec.Cmd, slots int, run drive.Run) (*child, error) {
	c := &child{name: name, run: run, ready: make(chan struct{}), answers: map[int64]chan error{}, runs: map[int64]context.CancelFunc{}}
	cmd.Args, cmd.Stderr = append(cmd.Args, strconv.Itoa(slots)), os.Stderr
	c.mu.Lock() // its first run waits for Process
	var err error
	c.Process, err = lines.Start(cmd, c.hear)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-c.ready:
	case <-c.Ended():
		return nil, c.end()
	case <-ctx.Done():
		c.Kill()
		<-c.Ended()
		return nil, fmt.Errorf("%s is not ready: %w", c.name, ctx.Err())
	}
	go c.watch()
	return c, nil
}

// watch ends this process with the child's, unless that was told to stop: jobs that it ran go on nowhere.
func (c *child) watch() {
	<-c.Ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		fmt.Fprintln(os.Stderr, c.end())
		os.Exit(1)
	}
}

func (c *child) end() error {
	return fmt.Errorf("%s ended by itself: %w", c.name, cmp.Or(c.How(), errors.New("exit status 0")))
}

// hear carries out what the child says.
func (c *child) hear(line []byte) error {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Op {
	case "ready":
		select {
		case <-c.ready:
			return errors.New("it was ready before")
		default:
		}
		close(c.ready)
	case "answer":
		if answer, ok := c.answers[m.ID]; ok { // else nobody waits any more
			answer <- said(m)
			delete(c.answers, m.ID)
		}
	case "run":
		if c.runs[m.ID] != nil || c.run == nil {
			return errors.New("no such run can begin")
		}
		ctx, cancel := context.WithCancel(context.Background())
		c.runs[m.ID] = cancel
		go c.carryOut(ctx, m)
	case "cancel":
		if cancel, ok := c.runs[m.ID]; ok { // else it is over
			cancel()
		}
	default:
		return errors.New("there is no such op")
	}
	return nil
}

func said(m message) error {
	if m.Error != "" {
		return errors.New(m.Error)
	}
	return nil
}

// carryOut is one run of a job. That the child is gone by then is no matter here: see watch.
func (c *child) carryOut(ctx context.Context, m message) {
	done := message{Op: "done", ID: m.ID}
	if err := c.run(ctx, drive.Job{Lock: m.Lock, N: m.N, Token: m.Token}); err != nil {
		done.Error = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[m.ID]()
	delete(c.runs, m.ID)
	_ = c.Say(done)
}

func (c *child) Put(ctx context.Context, j drive.Job) error {
	answer := make(chan error, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.answers[id] = answer
	err := c.Say(message{Op: "put", ID: id, Lock: j.Lock, N: j.N})
	c.mu.Unlock()
	if err == nil {
		select {
		case err = <-answer:
			return err
		case <-c.Ended():
			err = c.end()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.answers, id)
	return err
}

// Close waits for the child to end in order. A stop is the last thing that it is told but for ends of runs
// and what they put.
func (c *child) Close(ctx context.Context) error {
	c.mu.Lock()
	err := c.Say(message{Op: "stop"})
	c.stopped = true
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s cannot be told to stop: %w", c.name, err)
	}
	select {
	case <-c.Ended():
		if how := c.How(); how != nil {
			return fmt.Errorf("%s did not stop in order: %w", c.name, how)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w", c.name, ctx.Err())
	}
}
