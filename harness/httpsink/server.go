package httpsink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/sink"
)

// maxBody bounds a request.
const maxBody = 64 << 10

// Sink is the sink of one run.
type Sink struct {
	log func(resource string, e sink.Entry)

	mu        sync.Mutex
	resources map[string]*resource
	shut      bool // for requests from outside
}

// errShut answers a request that came when the run was over.
var errShut = errors.New("the run is over: the sink takes nothing any more")

// New returns an empty sink. log gets every entry of the ledger, in the order of the
// decisions and before their answers; it is not called concurrently.
func New(log func(resource string, e sink.Entry)) *Sink {
	return &Sink{log: log, resources: map[string]*resource{}}
}

func (s *Sink) decide(name string, c call, effect, outside bool) (sink.Answer, error) {
	if err := c.check(effect); err != nil {
		return sink.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut && outside {
		return sink.Answer{}, errShut
	}
	r := s.resources[name]
	if r == nil {
		r = &resource{keys: map[string]accepted{}}
		s.resources[name] = r
	}
	return r.decide(name, c, effect, func(e sink.Entry) { s.log(name, e) })
}

// Raise is the harness's own raise, past all links.
func (s *Sink) Raise(_ context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.decide(resource, call{Issuer: issuer, Token: token}, false, false)
}

// Read is the harness's own read; which keys were accepted it does not tell.
func (s *Sink) Read(_ context.Context, resource string, _ ...string) (sink.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[resource]
	if r == nil {
		return sink.State{}, nil
	}
	return sink.State{Value: r.value, Seen: r.highest, Seq: r.seq, Issuer: r.issuer}, nil
}

// Resources are the names of those that were ever called, in order.
func (s *Sink) Resources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.resources))
}

// Handler serves the sink; see the package comment.
func (s *Sink) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{resource}", s.get)
	mux.HandleFunc("POST /{resource}/raise", func(w http.ResponseWriter, req *http.Request) { s.post(w, req, false) })
	mux.HandleFunc("POST /{resource}/effect", func(w http.ResponseWriter, req *http.Request) { s.post(w, req, true) })
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		answer(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf("%s %s: the sink has GET /NAME, POST /NAME/raise and POST /NAME/effect", req.Method, req.URL.Path)})
	})
	return mux
}

func (s *Sink) get(w http.ResponseWriter, req *http.Request) {
	st, _ := s.Read(req.Context(), req.PathValue("resource")) // cannot fail
	answer(w, http.StatusOK, map[string]int64{"value": st.Value, "seen": st.Seen, "seq": st.Seq})
}

func (s *Sink) post(w http.ResponseWriter, req *http.Request, effect bool) {
	refuse := func(err error) { answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()}) }
	// The whole body first: half a request that a fault let through decides nothing.
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("too large: %d bytes are enough", maxBody)
	}
	if err != nil {
		refuse(fmt.Errorf("the request's body: %w", err))
		return
	}
	var c call
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		refuse(fmt.Errorf("not the JSON of a request: %w", err))
		return
	}
	if dec.Decode(new(json.RawMessage)) != io.EOF {
		refuse(errors.New("data after the request"))
		return
	}
	a, err := s.decide(req.PathValue("resource"), c, effect, true)
	if err != nil {
		refuse(err)
		return
	}
	status := http.StatusOK
	if a.Result == sink.Stale || a.Result == sink.Conflict {
		status = http.StatusConflict
	}
	answer(w, status, struct {
		Result string `json:"result"`
		Seen   int64  `json:"seen"`
		Seq    int64  `json:"seq"`
	}{a.Result.String(), a.Seen, a.Seq})
}

// answer writes v as JSON. Who does not get it is on its own: that is what links are for.
func answer(w http.ResponseWriter, status int, v any) {
	var b strings.Builder
	_ = json.NewEncoder(&b).Encode(v) // plain data
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, b.String())
}

// Server is a sink that listens.
type Server struct {
	*Sink
	addr string
	http *http.Server
	done chan error
	once sync.Once
	err  error // of Close
}

// Listen serves the sink at a free port of ip. Close it.
func Listen(s *Sink, ip string) (*Server, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	srv := &Server{Sink: s, addr: ln.Addr().String(), http: &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}, done: make(chan error, 1)}
	go func() { srv.done <- srv.http.Serve(ln) }()
	return srv, nil
}

// Addr is where it listens, "ip:port".
func (s *Server) Addr() string { return s.addr }

// Close ends it with all connections. No request is decided when it has returned; what
// the harness itself asks is answered as before. Closing again does nothing.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		s.err = s.http.Close()
		if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
			s.err = errors.Join(s.err, served)
		}
	})
	return s.err
}
