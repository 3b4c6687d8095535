package main

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
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/systems/drive"
	"fencepost/systems/lines"
)

// child is a program in whatever language that carries out locks: a line of JSON on its standard
// input is a request, a line on its standard output the answer, in any order. It ends when its
// input is closed. What it writes to standard error is this process's own. SIGTERM reaches it too, and
// it must ignore that: what is under way is still to be finished.
type child struct {
	*lines.Process
	name string
	last *tail // of what it writes to standard error

	mu      sync.Mutex
	ids     int64
	waiting map[int64]chan answer
}

type request struct {
	ID      int64  `json:"id"`
	Op      string `json:"op"` // open, acquire, renew, release, holder, seal, close
	Client  int    `json:"client"`
	Name    string `json:"name,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	TTL     int64  `json:"ttl_ms,omitempty"`
	Within  int64  `json:"within_ms,omitempty"` // how long the answer is waited for; 0: for ever
}

type answer struct {
	ID     int64  `json:"id"`
	Done   bool   `json:"done"`
	Token  int64  `json:"token"`
	Holder string `json:"holder"`
	Error  string `json:"error"`
}

func startChild(program string, args ...string) (_ *child, err error) {
	c := &child{name: filepath.Base(filepath.Dir(program)), last: &tail{}, waiting: map[int64]chan answer{}}
	cmd := exec.Command(program, args...)
	cmd.Stderr, cmd.WaitDelay = io.MultiWriter(os.Stderr, c.last), time.Second
	c.Process, err = lines.Start(cmd, c.hear)
	return c, err
}

// hear hands an answer to who waits for it.
func (c *child) hear(line []byte) error {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waits := c.waiting[a.ID]; waits != nil {
		waits <- a
		delete(c.waiting, a.ID) // one answer each
	}
	return nil
}

// ask waits for the answer to one request as long as ctx allows.
func (c *child) ask(ctx context.Context, r request) (answer, error) {
	if until, ok := ctx.Deadline(); ok {
		r.Within = max(1, time.Until(until).Milliseconds())
	}
	waits := make(chan answer, 1)
	c.mu.Lock()
	c.ids++
	r.ID = c.ids
	c.waiting[r.ID] = waits
	c.mu.Unlock()
	_ = c.Say(r) // without a reader it has ended, and says why
	defer func() {
		c.mu.Lock()
		delete(c.waiting, r.ID)
		c.mu.Unlock()
	}()
	select {
	case a := <-waits:
		if a.Error != "" {
			return a, fmt.Errorf("%s: %s", c.name, a.Error)
		}
		return a, nil
	case <-c.Ended():
		return answer{}, fmt.Errorf("%w: %s ended (%v); its last lines:\n%s", drive.ErrGone, c.name, c.How(), c.last)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// end closes its input and waits until it has ended.
func (c *child) end() error {
	c.CloseInput()
	select {
	case <-c.Ended():
		return nil
	case <-time.After(5 * time.Second):
		c.Kill()
		return fmt.Errorf("%s does not end, though its input is closed", c.name)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// openChild opens locks that a program carries out: NAME/run beside this executable. Its arguments
// are the servers' addresses, with commas between, what names begin with, and the time of a session in ms.
func openChild(name string) func(context.Context, drive.Place) (drive.Locker, error) {
	return (&family{program: func() (string, error) {
		self, err := os.Executable()
		return filepath.Join(filepath.Dir(self), name, "run"), err
	}}).open
}

// startTime is how long a child may take to begin.
const startTime = 30 * time.Second

// family is the clients of this process, all of the same place, that share a child.
type family struct {
	program func() (string, error)

	mu      sync.Mutex
	child   *child
	clients int // that are open
	numbers int // of clients there have been
}

func (f *family) open(ctx context.Context, at drive.Place) (drive.Locker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients == 0 {
		program, err := f.program()
		if err != nil {
			return nil, err
		}
		session := strconv.FormatInt(sessionFor(at.TTL).Milliseconds(), 10)
		if f.child, err = startChild(program, strings.Join(at.Nodes, ","), "/"+at.Name+".", session); err != nil {
			return nil, err
		}
	}
	f.clients++
	f.numbers++
	l := &childLock{f, f.child, f.numbers}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime) // SIGTERM ends what has begun
	defer cancel()
	if _, err := l.ask(ctx, request{Op: "open"}); err != nil {
		return nil, errors.Join(err, f.leave())
	}
	return l, nil
}

// leave ends the child after its last client.
func (f *family) leave() error {
	if f.clients--; f.clients > 0 {
		return nil
	}
	return f.child.end()
}

// childLock is one client's lock.
type childLock struct {
	family *family
	child  *child
	client int
}

func (l *childLock) ask(ctx context.Context, r request) (answer, error) {
	r.Client = l.client
	return l.child.ask(ctx, r)
}

func (l *childLock) Acquire(ctx context.Context, name, id string, ttl time.Duration) (int64, bool, error) {
	a, err := l.ask(ctx, request{Op: "acquire", Name: name, Attempt: id, TTL: ttl.Milliseconds()})
	return a.Token, a.Done, err
}

func (l *childLock) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	a, err := l.ask(ctx, request{Op: "renew", Name: name, Attempt: id, TTL: ttl.Milliseconds()})
	return a.Done, err
}

func (l *childLock) Release(ctx context.Context, name, id string) (bool, error) {
	a, err := l.ask(ctx, request{Op: "release", Name: name, Attempt: id})
	return a.Done, err
}

func (l *childLock) Holder(ctx context.Context, name string) (string, error) {
	a, err := l.ask(ctx, request{Op: "holder", Name: name})
	return a.Holder, err
}

func (l *childLock) Seal(ctx context.Context, name, id string) (bool, error) {
	a, err := l.ask(ctx, request{Op: "seal", Name: name, Attempt: id})
	return a.Done, err
}

// Close ends the client's session. One that cannot be ended now expires.
func (l *childLock) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := l.ask(ctx, request{Op: "close"})
	if !errors.Is(err, drive.ErrGone) {
		err = nil
	}
	l.family.mu.Lock()
	defer l.family.mu.Unlock()
	return errors.Join(err, l.family.leave())
}
