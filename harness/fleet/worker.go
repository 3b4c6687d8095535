package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/control"
	"fencepost/harness/history"
	"fencepost/harness/link"
	"fencepost/harness/osproc"
	"fencepost/harness/own"
	"fencepost/harness/workload"
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

	mu    sync.Mutex
	lives int
	cur   *life
	past  control.Stats // of the lives that ended
}

// life is one process.
type life struct {
	worker *Worker
	name   string
	cmd    *exec.Cmd
	conn   *control.Conn
	agent  *own.Agent // of a user's own program; nil for fencepost's worker
	log    *os.File
	ready  chan struct{}
	done   chan struct{} // closed when the process has been waited for
	mu     sync.Mutex
	stats  control.Stats
	told   bool   // to stop
	killed string // by whom
	fault  string // the worker's own last words
	err    error  // after done
	clocks chan control.Reading
}

// listen finds an address for the worker's processes, which all of its lives use
// (nobody listens while none runs, so that others are refused), and makes the link to it.
func (w *Worker) listen(cfg Config, number int) error {
	free, err := net.Listen("tcp", ownIP(cfg.ListenIP, number)+":0")
	if err != nil {
		return fmt.Errorf("an address for %s: %w", w.name, err)
	}
	w.serves = free.Addr().String()
	if err := free.Close(); err != nil {
		return fmt.Errorf("an address for %s: %w", w.name, err)
	}
	l, err := cfg.Links.Add(link.Spec{
		From: Peers, To: w.name, Purpose: PeerPurpose, Listen: cfg.ListenIP + ":0", Upstream: w.serves, Seed: cfg.Worker.Seed,
	})
	if err != nil {
		return fmt.Errorf("link %s->%s: %w", Peers, w.name, err)
	}
	w.peers = l.Addr()
	return nil
}

// linkSink makes the worker's link to a sink that is a service.
func (w *Worker) linkSink(cfg Config) error {
	l, err := cfg.Links.Add(link.Spec{
		From: w.name, To: SinkHost, Purpose: SinkPurpose, Listen: cfg.ListenIP + ":0", Upstream: cfg.Sink, Seed: cfg.Worker.Seed, Tap: cfg.SinkTap,
	})
	if err != nil {
		return fmt.Errorf("link %s->%s: %w", w.name, SinkHost, err)
	}
	w.service = l.Addr()
	return nil
}

// ownIP is the address at which the worker of a number listens. On the one from which
// everybody connects, an outgoing connection may be given the worker's port while none
// of its lives holds it; on loopback there are enough for one each.
func ownIP(listen string, number int) string {
	if listen == "127.0.0.1" && number < 255 {
		return fmt.Sprintf("127.0.1.%d", number)
	}
	return listen
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
		return l.cmd.Process.Pid
	}
	return 0
}

// ProcessState is the letter of /proc/PID/stat: R, S, T (stopped) …, "" if none runs.
func (w *Worker) ProcessState() string {
	pid := w.PID()
	if pid == 0 {
		return ""
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	s := string(b)
	if i := strings.LastIndexByte(s, ')'); i >= 0 && i+2 < len(s) {
		return s[i+2 : i+3]
	}
	return ""
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

// Stats are the worker's totals.
func (w *Worker) Stats() control.Stats { return w.stats() }

func (w *Worker) stats() control.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.past
	if w.cur != nil {
		add(&s, w.cur.totals())
	}
	return s
}

func (l *life) totals() control.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func add(sum *control.Stats, s control.Stats) {
	sum.Cycles += s.Cycles
	sum.Stale += s.Stale
	sum.Unknown += s.Unknown
	sum.LeasesLost += s.LeasesLost
	sum.Enqueuing += s.Enqueuing
	sum.Operations += s.Operations
}

func (l *life) running() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// Start starts the worker's next life and waits until it is ready.
func (w *Worker) Start(ctx context.Context) error {
	if w.PID() != 0 {
		return fmt.Errorf("%s runs already", w.name)
	}
	l, err := w.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", w.name, err)
	}
	if shown := w.fleet.cfg.Login; shown != nil {
		if err := l.conn.Send(control.Message{Cmd: control.CmdLogin, Login: shown}); err != nil && l.running() {
			return fmt.Errorf("start %s: hand its login over: %w", w.name, errors.Join(err, w.Kill("runner")))
		}
	}
	limit := w.fleet.cfg.ReadyTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-l.ready:
		return nil
	case <-l.done:
		return fmt.Errorf("%s ended before it was ready: %w%s", l.name, l.ending(), l.lastWords())
	case <-ctx.Done():
		_ = w.Kill("runner")
		return fmt.Errorf("%s was not ready within %s: %w%s", l.name, limit, ctx.Err(), l.lastWords())
	}
}

// lastWords is what a worker said of its end, and where there is more.
func (l *life) lastWords() string {
	if l.agent != nil {
		return osproc.LastWords(l.log.Name())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	words := ""
	if l.fault != "" {
		words = ": " + l.fault
	}
	return fmt.Sprintf("%s (its log: %s)", words, l.log.Name())
}

// ending is how a process ended that was not to.
func (l *life) ending() error {
	if l.err != nil {
		return l.err
	}
	return errors.New("it ended of itself, with exit code 0")
}

func (w *Worker) spawn() (*life, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != nil {
		add(&w.past, w.cur.totals())
		w.past.Enqueuing = 0 // what a dead process was about it is about no more
	}
	w.lives++
	l := &life{worker: w, name: fmt.Sprintf("%s.%d", w.name, w.lives), ready: make(chan struct{}), done: make(chan struct{}), clocks: make(chan control.Reading, 1)}
	cfg := w.fleet.cfg.Worker
	cfg.Worker, cfg.Life, cfg.LockNodes, cfg.SinkNodes, cfg.SinkAddr, cfg.BeatNodes = w.name, l.name, w.lock, w.sink, w.service, w.beat
	cfg.History, cfg.AwaitLogin = w.fleet.historyFile(l.name), w.fleet.cfg.Login != nil
	if cfg.Jobs != nil {
		j := *cfg.Jobs
		j.Listen, j.Advertise = w.serves, w.peers
		cfg.Jobs = &j
	}
	conn, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	if l.log, err = os.Create(filepath.Join(w.fleet.cfg.LogDir, l.name+".log")); err != nil {
		return nil, errors.Join(err, conn.Close(), theirs.Close())
	}
	l.conn = conn
	start := l.startWorker
	if w.fleet.cfg.Own != nil {
		start = l.startOwn
	}
	if err := start(cfg, theirs); err != nil {
		conn.Close()
		l.log.Close()
		return nil, err
	}
	w.cur = l
	go l.listen()
	go l.wait()
	return l, nil
}

// startWorker starts fencepost's own worker, which inherits its end of the channel.
func (l *life) startWorker(cfg workload.Config, theirs *os.File) error {
	defer theirs.Close()
	env, err := cfg.Encode()
	if err != nil {
		return err
	}
	l.cmd = exec.Command(l.worker.fleet.cfg.Binary)
	l.cmd.Env = append(os.Environ(), workload.ConfigEnv+"="+env)
	l.cmd.Stdout, l.cmd.Stderr = l.log, l.log
	l.cmd.ExtraFiles = []*os.File{theirs}
	// A group of its own: Ctrl-C reaches the runner alone, which ends workers in order.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return l.cmd.Start()
}

// listen handles what the worker says until its channel closes.
func (l *life) listen() {
	for {
		m, err := l.conn.Receive()
		if err != nil {
			return // io.EOF or reset: the process ended; wait has the story
		}
		switch m.Cmd {
		case control.CmdReady:
			close(l.ready)
		case control.CmdHit:
			l.worker.fleet.onHit(l, m)
		case control.CmdStats, control.CmdStopped:
			if m.Stats != nil {
				l.mu.Lock()
				l.stats = *m.Stats
				l.mu.Unlock()
			}
		case control.CmdClock:
			if m.Reading != nil {
				select {
				case l.clocks <- *m.Reading:
				default: // nobody waits for it any more
				}
			}
		case control.CmdError:
			l.mu.Lock()
			l.fault = m.Error
			l.mu.Unlock()
		}
	}
}

// wait reaps the process and records a death that nobody asked for.
func (l *life) wait() {
	l.err = l.cmd.Wait()
	if l.agent != nil {
		l.endOwn()
	}
	close(l.done)
	l.conn.Close()
	l.log.Close()
	l.mu.Lock()
	killed, told := l.killed, l.told
	l.mu.Unlock()
	if killed != "" {
		l.worker.fleet.cfg.Recorder.Record(history.Event{Proc: l.name, Type: history.Note, Op: history.NoteCrash, Error: "SIGKILL by " + killed})
		return
	}
	if !told || l.err != nil {
		err := fmt.Errorf("%w%s", l.ending(), l.lastWords())
		l.worker.fleet.cfg.Recorder.Record(history.Event{Proc: l.name, Type: history.Note, Op: history.NoteCrash, Error: err.Error()})
		if l.worker.fleet.cfg.Unexpected != nil {
			l.worker.fleet.cfg.Unexpected(l.name, err)
		}
	}
}

// Clock sets the worker's clocks (nil: leaves them) and returns what they show.
// One call at a time.
func (w *Worker) Clock(ctx context.Context, to *history.Clock) (control.Reading, error) {
	l, err := w.live()
	if err != nil {
		return control.Reading{}, err
	}
	select {
	case <-l.clocks: // the late answer to a call that gave up
	default:
	}
	if err := l.conn.Send(control.Message{Cmd: control.CmdClock, Clock: to}); err != nil {
		return control.Reading{}, fmt.Errorf("clock of %s: %w", w.name, err)
	}
	select {
	case r := <-l.clocks:
		return r, nil
	case <-l.done:
		return control.Reading{}, fmt.Errorf("clock of %s: the process ended", w.name)
	case <-ctx.Done():
		return control.Reading{}, fmt.Errorf("clock of %s: no answer: %w", w.name, ctx.Err())
	}
}
