package own

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Agent is a program's life as the fleet knows workers: it takes the commands of the
// control channel and answers for the program.
type Agent struct {
	control *Control
	life    string
	points  []control.Point
	conn    *control.Conn
	gate    *control.Gate
	once    sync.Once // ready

	cycles, stale, unknown, lost, operations atomic.Int64

	ended chan struct{} // the process is gone: the file grows no more
	wg    sync.WaitGroup
}

// Attach makes the agent of a life whose program is about to be started. file is its
// history, which has its header; theirs the program's end of the control channel. broken is
// called if the file turns out to be malformed. Close it when the process is gone.
func (c *Control) Attach(life, file string, points []control.Point, theirs *os.File, broken func(error)) (*Agent, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	header, err := headerOf(file)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a := &Agent{control: c, life: life, points: points, conn: control.NewConn(theirs), ended: make(chan struct{})}
	a.gate = control.NewGate(a.conn.Send)
	c.mu.Lock()
	c.lives[life] = a
	c.mu.Unlock()
	a.wg.Go(a.commands)
	a.wg.Go(a.report)
	a.wg.Go(func() {
		defer f.Close()
		err := history.Follow(&tail{file: f, ended: a.ended}, file, a.count)
		// Whatever else is wrong with a file that was opened again follows from that.
		if now, e := headerOf(file); e == nil && now != header {
			err = &history.FormatError{File: file, Line: 1, Reason: "its header is gone, which the harness had written: open the file for appending"}
		}
		if err != nil {
			broken(err)
		}
	})
	return a, nil
}

// headerOf is the first line of a file.
func headerOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// Close waits until everything that the program wrote has been read. The runner's end of
// the control channel must be closed.
func (a *Agent) Close() {
	close(a.ended)
	a.wg.Wait()
	a.control.mu.Lock()
	delete(a.control.lives, a.life)
	a.control.mu.Unlock()
}

// commands serves the runner until it closes the channel. Stopping is by signal, and
// clocks are the program's own.
func (a *Agent) commands() {
	defer a.conn.Close()
	for {
		m, err := a.conn.Receive()
		if err != nil {
			return
		}
		switch m.Cmd {
		case control.CmdArm:
			a.gate.Arm(m.ID, m.Point, m.Key)
		case control.CmdDisarm:
			a.gate.Disarm(m.ID)
		case control.CmdGo:
			a.gate.Go(m)
		}
	}
}

// count is what live progress wants of an event.
func (a *Agent) count(e *history.Event) {
	switch {
	case e.Type == history.Invoke:
		a.operations.Add(1)
	case e.Type == history.OK && e.Op == history.OpRelease:
		a.cycles.Add(1)
	case e.Type == history.Unknown:
		a.unknown.Add(1)
	case e.Result == "stale":
		a.stale.Add(1)
	case e.Type == history.Note && e.Op == history.NoteLeaseLost:
		a.lost.Add(1)
	}
}

// report sends totals five times a second.
func (a *Agent) report() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-a.ended:
			return
		case <-t.C:
			_ = a.conn.Send(control.Message{Cmd: control.CmdStats, Stats: &control.Stats{
				Cycles: a.cycles.Load(), Stale: a.stale.Load(), Unknown: a.unknown.Load(), LeasesLost: a.lost.Load(), Operations: a.operations.Load(),
			}})
		}
	}
}

var errCutDown = errors.New("the file has become shorter")

// look is how long the end of a file that grows is left alone.
const look = 20 * time.Millisecond

// tail reads a file that grows, until its writer is gone.
type tail struct {
	file  *os.File
	at    int64
	ended <-chan struct{}
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		over := false
		select {
		case <-t.ended:
			over = true
		default:
		}
		n, err := t.file.Read(p)
		t.at += int64(n)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if st, err := t.file.Stat(); err == nil && st.Size() < t.at {
			return 0, errCutDown
		}
		if over {
			return 0, io.EOF
		}
		select {
		case <-t.ended:
		case <-time.After(look):
		}
	}
}

// maxBody bounds a request.
const maxBody = 64 << 10

// Control is where programs report that they are ready, and ask at points:
//
//	POST /LIFE/ready
//	POST /LIFE/point    {"point": "holding", "proc": "w1.1/c2", "key": "lock-01"}
//
// A point is answered, {"hold_ms": 0}, when the client may go on; hold_ms above 0 keeps it in
// its critical section for so long.
type Control struct {
	addr string
	http *http.Server
	done chan error

	mu    sync.Mutex
	lives map[string]*Agent
}

// NewControl listens at a free port of ip. Close it.
func NewControl(ip string) (*Control, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	c := &Control{addr: ln.Addr().String(), lives: map[string]*Agent{}, done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{life}/ready", c.ready)
	mux.HandleFunc("POST /{life}/point", c.point)
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("%s %s: there are POST $FENCEPOST_CONTROL/ready and POST $FENCEPOST_CONTROL/point", req.Method, req.URL.Path))
	})
	c.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { c.done <- c.http.Serve(ln) }()
	return c, nil
}

// URL is what a life is told as its control address.
func (c *Control) URL(life string) string { return "http://" + c.addr + "/" + life }

// Close ends it with all connections; clients that stand at a point are let go.
func (c *Control) Close() error {
	err := c.http.Close()
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (c *Control) agent(w http.ResponseWriter, req *http.Request) *Agent {
	name := req.PathValue("life")
	c.mu.Lock()
	a := c.lives[name]
	c.mu.Unlock()
	if a == nil {
		refuse(w, http.StatusNotFound, fmt.Errorf("no life %q runs", name))
	}
	return a
}

func (c *Control) ready(w http.ResponseWriter, req *http.Request) {
	a := c.agent(w, req)
	if a == nil {
		return
	}
	a.once.Do(func() { _ = a.conn.Send(control.Message{Cmd: control.CmdReady}) }) // it is gone: then so is the run
	reply(w, http.StatusOK, struct{}{})
}

func (c *Control) point(w http.ResponseWriter, req *http.Request) {
	a := c.agent(w, req)
	if a == nil {
		return
	}
	var at struct {
		Point control.Point `json:"point"`
		Proc  string        `json:"proc"`
		Key   string        `json:"key"`
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &at)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, fmt.Errorf(`not a request such as {"point": "holding", "proc": "w1.1/c1", "key": "LOCK"}: %w`, err))
		return
	case !slices.Contains(a.points, at.Point):
		refuse(w, http.StatusBadRequest, fmt.Errorf("point %q was not among the points that setup offered", at.Point))
		return
	case history.Life(at.Proc) != a.life || at.Proc == a.life:
		refuse(w, http.StatusBadRequest, fmt.Errorf("proc %q is no client of %s", at.Proc, a.life))
		return
	}
	hold, _ := a.gate.Reach(req.Context(), at.Point, at.Proc, at.Key)
	reply(w, http.StatusOK, struct {
		HoldMS int64 `json:"hold_ms"`
	}{hold.Milliseconds()})
}

func refuse(w http.ResponseWriter, status int, err error) {
	reply(w, status, struct {
		Error string `json:"error"`
	}{err.Error()})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who does not get it is gone
}
