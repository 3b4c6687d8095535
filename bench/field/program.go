package field

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// task is what a program is started for here.
const task own.Task = "bench"

const (
	// readyTime is for a program to connect, endTime to end when nobody asks for anything more.
	readyTime = time.Minute
	endTime   = 10 * time.Second
)

// order is a line to a program: a client takes a lock, once, or gives it back.
type order struct {
	Client  int    `json:"client"`
	Acquire string `json:"acquire,omitempty"`
	Release string `json:"release,omitempty"`
}

// answer is a line from it.
type answer struct {
	Client int    `json:"client"` // -1: all are connected
	Done   bool   `json:"done"`
	Error  string `json:"error"`
}

// errGone is that of a program that has ended.
var errGone = errors.New("the program has ended")

// program is a process that takes and gives back locks.
type program struct {
	name    string
	proc    *osproc.Process
	answers [clients]chan answer
	ready   chan struct{}
	gone    chan struct{} // closed when its output has ended

	mu sync.Mutex
	in *os.File
}

// startProgram starts a system's program, for the servers of a store or for none, and returns when its
// clients are connected. run is the name of what it keeps in the store.
func startProgram(ctx context.Context, name, run, binDir, logDir string, store *servers.Cluster) (_ *program, err error) {
	if err := os.MkdirAll(logDir, 0o755); err != nil {
		return nil, err
	}
	names := make([]string, shared+1)
	for n := range names {
		names[n] = lockName(n)
	}
	at := own.Places{}
	if store != nil {
		at.Secret = store.Secret()
		for _, n := range store.Nodes() {
			at.Nodes = append(at.Nodes, cluster.AddrOf(store, n))
		}
	}
	vars := own.Variables(task, workload.Config{Run: run, Keyspace: run, Locks: names, TTL: ttl}, at)
	words := system.System{Binary: system.Locks, Command: []string{name}}.Words(binDir)
	cmd, err := own.Program{Words: words}.Command(append(vars, own.Prefix+"CLIENTS="+strconv.Itoa(clients)))
	if err != nil {
		return nil, err
	}
	proc, in, out, err := bench.StartPiped(osproc.Spec{Kind: history.LifeWorker, Name: run, Command: cmd, Log: filepath.Join(logDir, run+".log"), Traces: true})
	if err != nil {
		return nil, err
	}
	p := &program{name: name, proc: proc, in: in, ready: make(chan struct{}), gone: make(chan struct{})}
	for i := range p.answers {
		p.answers[i] = make(chan answer, 1)
	}
	go p.read(out)
	select {
	case <-p.ready:
		return p, nil
	case <-p.gone:
		err = errGone
	case <-time.After(readyTime):
		err = fmt.Errorf("its clients are not connected after %s", readyTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("%w%s", err, p.proc.LastWords())
	return nil, errors.Join(err, p.end(context.WithoutCancel(ctx)))
}

// read hands out the answers.
func (p *program) read(out *os.File) {
	defer out.Close()
	defer close(p.gone)
	in := json.NewDecoder(out)
	for {
		var a answer
		if in.Decode(&a) != nil || a.Client >= len(p.answers) {
			return
		}
		if a.Client < 0 {
			close(p.ready)
			continue
		}
		p.answers[a.Client] <- a
	}
}

// ask implements asked.
func (p *program) ask(client int, o order) (bool, error) {
	o.Client = client
	line, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	_, err = p.in.Write(append(line, '\n'))
	p.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case a := <-p.answers[client]:
		if a.Error != "" {
			return false, fmt.Errorf("%s: %s", p.name, a.Error)
		}
		return a.Done, nil
	case <-p.gone:
		return false, fmt.Errorf("%s: %w%s", p.name, errGone, p.proc.LastWords())
	}
}

// end ends the program: it does so by itself when nobody can ask for anything more.
func (p *program) end(ctx context.Context) error {
	err := p.in.Close()
	select {
	case <-p.proc.Done():
		if code := p.proc.Life().Code; code == nil || *code != 0 {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, p.proc.Ending()))
		}
		return err
	case <-time.After(endTime):
		return errors.Join(err, fmt.Errorf("%s did not end within %s", p.name, endTime), p.proc.Kill(ctx))
	}
}
