package schedulers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

const (
	// readyWithin bounds a start: a schema that is created on a cold cluster takes seconds.
	readyWithin = 90 * time.Second
	readyPoll   = 100 * time.Millisecond
	// restartAfter keeps a process that cannot run from being started all the time.
	restartAfter = 2 * time.Second
	// drain is for how long handlers may go on at the end, stopWithin how long a process
	// may take for all of that: less than kept gives a command.
	drain      = 10 * time.Second
	stopWithin = 16 * time.Second
	// httpPort is that of each process, at an address of its own.
	httpPort = "8080"
	// MaxCount is how many there may be.
	MaxCount = 16
)

// Options say what runs. All are needed.
type Options struct {
	// Program is schedulerd.
	Program string
	// ContactPoints are the nodes' addresses, with commas between; CQLPort is their port.
	ContactPoints, CQLPort string
	// Listeners are where people reach the processes, one each, in their order. Run
	// closes them.
	Listeners []net.Listener
	// PeerPort is that of the first process for the others; the next ones follow.
	PeerPort int
	// LogDir is where s1.log and so on go.
	LogDir string
	// Env is the environment; what it sets of schedulerd's settings holds.
	Env []string
	// Say tells a person what happens, line by line; it is called by several goroutines.
	Say func(string)
}

// process is one schedulerd and its restarts.
type process struct {
	o       *Options
	name    string
	address string // inside
	peer    int
	log     string
}

// Run starts the processes, passes connections on to them, and restarts those that end,
// until ctx does; then it ends them in order. The error is that of one that did not
// become ready, or did not end.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	errs := make([]error, len(o.Listeners))
	ready := make(chan struct{}, len(o.Listeners))
	for i, l := range o.Listeners {
		name := fmt.Sprint("s", i+1)
		p := &process{o: &o, name: name, address: net.JoinHostPort(fmt.Sprint("127.0.1.", i+1), httpPort), peer: o.PeerPort + i, log: filepath.Join(o.LogDir, name+".log")}
		all.Go(func() { pass(ctx, l, p.address) })
		all.Go(func() {
			if errs[i] = p.keep(ctx, func() { ready <- struct{}{} }); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	all.Go(func() {
		for range o.Listeners {
			select {
			case <-ready:
			case <-ctx.Done():
				return
			}
		}
		for i, l := range o.Listeners {
			o.Say(fmt.Sprintf("s%d  http://%s/  log %s", i+1, l.Addr(), filepath.Join(o.LogDir, fmt.Sprintf("s%d.log", i+1))))
		}
	})
	all.Wait()
	return errors.Join(errs...)
}

// command is the process's command line.
func (p *process) command() *exec.Cmd {
	host, _, _ := net.SplitHostPort(p.address)
	cmd := exec.Command(p.o.Program, "--name="+p.name, "--http-host="+host, "--http-port="+httpPort,
		fmt.Sprint("--peer-port=", p.peer), fmt.Sprint("--advertise=127.0.0.1:", p.peer),
		"--cassandra-contact-point="+p.o.ContactPoints, "--cassandra-port="+p.o.CQLPort)
	// There is nothing else in their network; and a test that kills one need not wait for long.
	cmd.Env = append([]string{"WORKER_HTTP_HOSTS=*", fmt.Sprint("WORKER_DRAIN_MS=", drain.Milliseconds()), "WORKER_LEASE_TTL_MS=10000"}, p.o.Env...)
	return cmd
}

// keep runs the process until ctx ends. It fails if the first one does not become ready.
func (p *process) keep(ctx context.Context, ready func()) error {
	if err := os.WriteFile(p.log, nil, 0o644); err != nil {
		return fmt.Errorf("schedulers: %w", err)
	}
	for first := true; ; first = false {
		// A group of its own: a Ctrl-C for this program would be their second signal.
		l, err := osproc.Start(osproc.Spec{Kind: history.LifeProgram, Name: p.name, Command: p.command(), Log: p.log})
		if err != nil {
			return fmt.Errorf("schedulers: %s: %w", p.name, err)
		}
		if err := p.life(ctx, l, first, ready); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// life sees one process through; an error ends all.
func (p *process) life(ctx context.Context, l *osproc.Process, first bool, ready func()) error {
	up, late := make(chan struct{}), make(<-chan time.Time)
	if first {
		late = time.After(readyWithin)
		poll, stop := context.WithCancel(ctx)
		defer stop()
		go p.awaitReady(poll, up)
	}
	for {
		select {
		case <-up:
			up, late = nil, nil
			ready()
		case <-late:
			return errors.Join(fmt.Errorf("schedulers: %s is not ready after %v: %s", p.name, readyWithin, p.lastWords()), p.stop(l))
		case <-ctx.Done():
			return p.stop(l)
		case <-l.Done():
			end := l.Life()
			if first && up != nil {
				return fmt.Errorf("schedulers: %s ended before it was ready (%s): %s", p.name, end.Ending(), p.lastWords())
			}
			p.o.Say(fmt.Sprintf("%s ended (%s); it is started again in %v", p.name, end.Ending(), restartAfter))
			return nil
		}
	}
}

// stop ends the process by SIGTERM, or in the end by SIGKILL.
func (p *process) stop(l *osproc.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	err := l.End(ctx, syscall.SIGTERM)
	if errors.Is(err, osproc.ErrOverdue) {
		return fmt.Errorf("schedulers: %s did not end within %v, and was killed: %s", p.name, stopWithin, p.lastWords())
	}
	// By the signal itself: it had hardly begun.
	end := l.Life()
	if end.Signal == "SIGTERM" || end.Code != nil && *end.Code == 0 {
		return nil
	}
	return fmt.Errorf("schedulers: %s did not end in order: %s: %s", p.name, end.Ending(), p.lastWords())
}

func (p *process) awaitReady(ctx context.Context, up chan<- struct{}) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		if Ready(ctx, client, p.address) {
			close(up)
			return
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return
		}
	}
}

// Ready asks a scheduler whether it is.
func Ready(ctx context.Context, client *http.Client, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// lastWords are the end of the log.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n") + "\n(" + p.log + ")"
}

// pass hands every connection to l on to an address, until ctx ends. What is refused
// there is closed here.
func pass(ctx context.Context, l net.Listener, address string) {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		from, err := l.Accept()
		if err != nil {
			return // closed
		}
		open.Go(func() {
			defer from.Close()
			to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return
			}
			defer to.Close()
			// Both sides are closed when it ends, so that streams that nobody ends do.
			defer context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })()
			var way sync.WaitGroup
			way.Go(func() { relay(to, from) })
			way.Go(func() { relay(from, to) })
			way.Wait()
		})
	}
}

// relay copies until one end is over, and says so to the other.
func relay(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
