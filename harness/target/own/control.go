package own

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

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
