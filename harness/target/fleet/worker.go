package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
	"fencepost/harness/target/workload"
)

// DefaultReadyTimeout bounds a worker's start: connecting two sessions to a busy cluster.
const DefaultReadyTimeout = 45 * time.Second

// Worker is one worker over all its lives.
type Worker struct {
	fleet *Fleet
	name  string
	lock  map[string]string // node IP -> link address
	sink  map[string]string
	beat  map[string]string // empty without jobs
	// serves is where the process listens for other workers, peers the link by
	// which they reach it; "" for workers that none talk to.
	serves, peers string
	service       string // its link to a sink that is one; "" if the sink is on the nodes

	number int // from 0

	mu    sync.Mutex
	lives int
	cur   *life
	past  control.Stats // of the lives that ended
	load  control.Load  // what all lives enqueue
}

// listen finds an address for the worker's processes, which all of its lives use
// (nobody listens while none runs, so that others are refused), and makes the link to it.
func (w *Worker) listen(cfg Config, number int) error {
	free, err := net.Listen("tcp", ownIP(number)+":0")
	if err != nil {
		return fmt.Errorf("an address for %s: %w", w.name, err)
	}
	w.serves = free.Addr().String()
	if err := free.Close(); err != nil {
		return fmt.Errorf("an address for %s: %w", w.name, err)
	}
	w.peers, err = cfg.link(link.Spec{From: Peers, To: w.name, Purpose: PeerPurpose, Upstream: w.serves})
	return err
}

// ownIP is the address at which the worker of a number listens. On the one from which
// everybody connects, an outgoing connection may be given the worker's port while none
// of its lives holds it; on loopback there are enough for one each.
func ownIP(number int) string {
	if number < 255 {
		return fmt.Sprintf("127.0.1.%d", number)
	}
	return listenIP
}

// Name is "w1".
func (w *Worker) Name() string { return w.name }

// Life is the current life's name ("w1.2"), "" before the first.
func (w *Worker) Life() string {
	if l := w.current(); l != nil {
		return l.name
	}
	return ""
}

// PID is the current life's process id, 0 if none runs.
func (w *Worker) PID() int {
	if l := w.current(); l != nil && l.running() {
		return l.proc.PID()
	}
	return 0
}

// ProcessState is the letter of /proc/PID/stat: R, S, T (stopped) …, "" if none runs.
func (w *Worker) ProcessState() string {
	if pid := w.PID(); pid != 0 {
		return osproc.Letter(pid)
	}
	return ""
}

// Recorded is how many bytes the history of the current life has.
func (w *Worker) Recorded() int64 {
	info, err := os.Stat(w.fleet.historyFile(w.Life()))
	if err != nil {
		return 0 // nothing yet
	}
	return info.Size()
}

// live is the current life, or the error that none runs.
func (w *Worker) live() (*life, error) {
	if l := w.current(); l != nil && l.running() {
		return l, nil
	}
	return nil, fmt.Errorf("%s does not run", w.name)
}

func (w *Worker) current() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cur
}

// Fell says whether the current life ended otherwise than planned.
func (w *Worker) Fell() bool {
	l := w.current()
	if l == nil || l.running() {
		return false
	}
	end := l.proc.Life()
	return end.Unplanned() != ""
}

// Stats are the worker's totals.
func (w *Worker) Stats() control.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.past
	if w.cur != nil {
		s.Add(w.cur.totals())
	}
	return s
}

// Start starts the worker's next life and waits until it is ready. One that is not ready in
// time is given up. The error is an *EndedError if it ended before.
func (w *Worker) Start(ctx context.Context) error {
	if w.PID() != 0 {
		return fmt.Errorf("%s runs already", w.name)
	}
	l, err := w.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", w.name, err)
	}
	if shown := w.fleet.cfg.Login; shown != nil {
		if err := l.send(control.Message{Cmd: control.CmdLogin, Login: shown}); err != nil {
			return fmt.Errorf("start %s: hand its login over: %w", w.name, errors.Join(err, w.Kill(ctx)))
		}
	}
	limit := time.NewTimer(w.fleet.cfg.ReadyTimeout)
	defer limit.Stop()
	select {
	case <-l.ready:
		return w.offer(l)
	case <-l.done:
		return &EndedError{l.name, l.ending()}
	case <-limit.C:
		late := fmt.Sprintf("was not ready within %s", w.fleet.cfg.ReadyTimeout)
		return errors.Join(fmt.Errorf("%s %s%s", l.name, late, l.lastWords()), l.proc.GiveUp(ctx, late))
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s is not ready: %w", l.name, context.Cause(ctx)), w.Kill(ctx))
	}
}

// Load has the worker enqueue something else, from now on or from when it runs again; the zero
// value is what its workload says.
func (w *Worker) Load(to control.Load) error {
	w.mu.Lock()
	w.load = to
	w.mu.Unlock()
	l, err := w.live()
	if err != nil {
		return nil // its next life will be told
	}
	return l.tell(to)
}

// offer tells a life that is ready what it is to enqueue, if that is not its workload's own.
func (w *Worker) offer(l *life) error {
	w.mu.Lock()
	to := w.load
	w.mu.Unlock()
	if to == (control.Load{}) {
		return nil
	}
	return l.tell(to)
}

func (l *life) tell(to control.Load) error {
	if err := l.send(control.Message{Cmd: control.CmdLoad, Load: &to}); err != nil {
		return fmt.Errorf("load of %s: %w", l.name, err)
	}
	return nil
}

func (w *Worker) spawn() (*life, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != nil {
		w.past.Add(w.cur.totals())
		w.past.Enqueuing, w.past.Goroutines = 0, 0 // what a dead process was about it is about no more
	}
	w.lives++
	l := &life{worker: w, name: fmt.Sprintf("%s.%d", w.name, w.lives), ready: make(chan struct{}), heard: make(chan struct{}), done: make(chan struct{}), clocks: make(chan control.Reading, 1)}
	l.log = filepath.Join(w.fleet.cfg.LogDir, l.name+".log")
	cfg := w.fleet.cfg.Worker.At(w.serves, w.peers)
	cfg.Worker, cfg.Life, cfg.LockNodes, cfg.SinkNodes, cfg.SinkAddr, cfg.BeatNodes = w.name, l.name, w.lock, w.sink, w.service, w.beat
	cfg.History, cfg.AwaitLogin = w.fleet.historyFile(l.name), w.fleet.cfg.Login != nil
	conn, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	l.conn = conn
	if all := w.fleet.cfg.Binaries; len(all) > 0 {
		n := (w.number + w.lives - 1) % len(all)
		if l.binary = all[n]; n > 0 {
			cfg.Variant = "" // a mistake of the first
		}
	}
	start := l.startWorker
	if w.fleet.cfg.Own != nil {
		start = l.startOwn
	}
	if err := start(cfg, theirs); err != nil {
		conn.Close()
		return nil, err
	}
	w.cur = l
	go l.listen()
	go l.wait()
	return l, nil
}

// startWorker starts fencepost's own worker, which inherits its end of the channel.
func (l *life) startWorker(cfg workload.Config, theirs *os.File) (err error) {
	defer theirs.Close()
	env, err := cfg.Encode()
	if err != nil {
		return err
	}
	cmd := exec.Command(l.binary)
	cmd.Env = append(os.Environ(), workload.ConfigEnv+"="+env)
	cmd.ExtraFiles = []*os.File{theirs}
	l.proc, err = osproc.Start(osproc.Spec{Kind: history.LifeWorker, Name: l.name, Command: cmd, Log: l.log, Traces: true})
	return err
}

// startOwn starts a user's own program. Its history has its header, and its end of the
// control channel is an agent's, before it runs.
func (l *life) startOwn(cfg workload.Config, theirs *os.File) (err error) {
	w, prog := l.worker, l.worker.fleet.cfg.Own
	if err := w.writeHeader(cfg); err != nil {
		theirs.Close()
		return err
	}
	at := own.Places{Sink: "http://" + w.service, Control: prog.Control.URL(l.name), Secret: prog.Secret}
	for _, n := range w.fleet.cfg.Nodes {
		at.Nodes = append(at.Nodes, w.lock[n.IP])
	}
	if cfg.Own { // each of its clients has one
		first := workload.ClientNumber(cfg, 0)
		cfg.Locks = cfg.Locks[first : first+cfg.Clients]
	}
	cmd, err := prog.Program.Command(own.Variables(own.Work, cfg, at))
	if err != nil {
		theirs.Close()
		return err
	}
	l.agent, err = prog.Control.Attach(l.name, cfg.History, prog.Offer.Points, theirs, func(err error) {
		if w.fleet.cfg.Broken != nil {
			w.fleet.cfg.Broken(l.name, fmt.Errorf("its history is malformed: %w%s", err, osproc.LastWords(l.log, 0)))
		}
	})
	if err != nil {
		theirs.Close()
		return err
	}
	l.proc, err = osproc.Start(osproc.Spec{Kind: history.LifeProgram, Name: l.name, Command: cmd, Log: l.log, Guarded: true})
	if err != nil {
		l.conn.Close()
		l.agent.Close()
	}
	return err
}

// writeHeader makes a life's history file with its header.
func (w *Worker) writeHeader(cfg workload.Config) error {
	rec, err := history.NewRecorder(cfg.History, history.Header{
		Run: cfg.Run, Proc: cfg.Life, System: w.fleet.cfg.Own.Name, DriftBound: cfg.DriftBound, MarginBaseMS: cfg.MarginBase.Milliseconds(), Promises: w.fleet.cfg.Own.Offer.Promises,
	})
	if err != nil {
		return err
	}
	return rec.Close()
}

// endOwn waits until all that a program that is gone has written is read.
func (l *life) endOwn() {
	l.conn.Close()
	l.agent.Close()
}
