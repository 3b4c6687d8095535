package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"

	"fencepost/core/forward"
)

// Headers.
const (
	requestIDHeader   = "X-Request-Id"
	idempotencyHeader = "Idempotency-Key"
)

type requestKey struct{}

// requestID is the id of a request.
func requestID(r *http.Request) string {
	id, _ := r.Context().Value(requestKey{}).(string)
	return id
}

// requestIDs that are taken from clients.
var requestIDs = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// outermost gives each request an id, logs it, and answers what no route does.
func (s *server) outermost(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.o.Now()
		id := r.Header.Get(requestIDHeader)
		if !requestIDs.MatchString(id) {
			id = s.o.NewID().String()
		}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, id))
		w.Header().Set(requestIDHeader, id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		seen := &seenWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				s.o.Logger.Error("request handler panicked", "request_id", id, "panic", p, "stack", string(debug.Stack()))
				s.refuse(seen, r, problem{Status: http.StatusInternalServerError, Code: "internal", Detail: "a mistake of this program; its log has more under the request's id"})
			}
			took := s.o.Now().Sub(began)
			level := slog.LevelInfo
			if s.quiet[r.Pattern] {
				level = slog.LevelDebug
			}
			s.o.Logger.Log(r.Context(), level, "request", "request_id", id, "method", r.Method, "route", r.Pattern, "path", r.URL.Path, "status", seen.status,
				"bytes", seen.bytes, "duration_ms", float64(took.Microseconds())/1000, "remote", r.RemoteAddr)
			if s.o.Observe != nil {
				s.o.Observe(r.Method, r.Pattern, seen.status, took)
			}
		}()
		if h, pattern := mux.Handler(r); pattern == "" {
			s.noRoute(seen, r, h)
			return
		}
		mux.ServeHTTP(seen, r)
	})
}

// noRoute says as a problem what the mux would say as text.
func (s *server) noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	said := &headOnly{header: http.Header{}}
	h.ServeHTTP(said, r)
	p := problem{Status: http.StatusNotFound, Code: "no-route", Detail: "there is nothing at this path: see /openapi.yaml"}
	if allow := said.header.Get("Allow"); said.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		p = problem{Status: said.status, Code: "method", Detail: "this path is for " + allow}
	}
	s.refuse(w, r, p)
}

// serve is the handler of one route.
func (s *server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !rt.open {
			if p := s.admit(w, r); p != nil {
				s.refuse(w, r, *p)
				return
			}
		}
		if rt.raw != nil {
			rt.raw.ServeHTTP(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.o.MaxBody)
		ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeout)
		defer cancel()
		out, err := rt.do(r.WithContext(ctx))
		if err != nil {
			p := problemOf(err)
			if p.Status >= http.StatusInternalServerError {
				s.o.Logger.Warn("request failed", "request_id", requestID(r), "route", r.Pattern, "code", p.Code, "error", cmp.Or(p.cause, err))
			}
			s.refuse(w, r, p)
			return
		}
		if out.location != "" {
			w.Header().Set("Location", out.location)
		}
		answer(w, max(out.status, http.StatusOK), "application/json", out.body)
	})
}

// admit asks for the token and takes the request out of the rate; a problem says why
// it is not let in.
func (s *server) admit(w http.ResponseWriter, r *http.Request) *problem {
	if s.o.Token != "" && !forward.Shows(r, s.o.Token) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="scheduler"`)
		return &problem{Status: http.StatusUnauthorized, Code: "token", Detail: "the request has to show the token: Authorization: Bearer TOKEN"}
	}
	// Without a token a page of another site, open in somebody's browser, could ask for what
	// needs no body: a queue to be paused, a job to be cancelled.
	if s.o.Token == "" && s.foreign.Check(r) != nil {
		return &problem{Status: http.StatusForbidden, Code: "cross-site", Detail: "the request comes from a page of another site: set a token (WORKER_API_TOKEN) for those"}
	}
	return s.within()
}

// within takes one request, or a job of a batch, out of the rate; a problem says that there is none left.
func (s *server) within() *problem {
	if s.limit != nil && !s.limit.AllowN(s.o.Now(), 1) {
		return &problem{Status: http.StatusTooManyRequests, Code: "rate", Detail: fmt.Sprintf("this process answers %g requests per second: try again later", s.o.Rate), retryAfter: 1}
	}
	return nil
}

// refuse answers with a problem.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, p problem) {
	p = s.complete(r, p)
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(p.retryAfter))
	}
	answer(w, p.Status, "application/problem+json", p)
}

// complete is a problem with what follows from its code and its request.
func (s *server) complete(r *http.Request, p problem) problem {
	p.Type, p.Title, p.RequestID = "urn:fencepost:problem:"+p.Code, http.StatusText(p.Status), requestID(r)
	return p
}

func answer(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // the client is gone
}

// seenWriter remembers what was answered.
type seenWriter struct {
	http.ResponseWriter
	status, bytes int
}

func (w *seenWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *seenWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// headOnly takes a head and drops the body.
type headOnly struct {
	header http.Header
	status int
}

func (h *headOnly) Header() http.Header         { return h.header }
func (h *headOnly) WriteHeader(status int)      { h.status = status }
func (h *headOnly) Write(b []byte) (int, error) { return len(b), nil }

// status is the answer to a probe.
type status struct {
	Status string `json:"status"`
}

// probeTimeout bounds what a probe waits for the database, probeAge how old an answer
// may be that a probe is given.
const (
	probeTimeout = 2 * time.Second
	probeAge     = time.Second
)

// pulse is whether the database answers, by a quorum. However many ask, it is asked once
// at a time and at most once in probeAge: probes cannot load it.
type pulse struct {
	ask    func(context.Context) error
	flight singleflight.Group
	// Of the last answer, when it was asked for; only what is in flight touches them.
	asked time.Time
	err   error
}

// check does not end what is in flight when ctx ends: others wait for it, too.
func (p *pulse) check(ctx context.Context) error {
	answer := p.flight.DoChan("", func() (any, error) {
		if p.asked.IsZero() || time.Since(p.asked) >= probeAge {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			p.asked = time.Now()
			p.err = p.ask(ctx)
		}
		return nil, p.err
	})
	select {
	case a := <-answer:
		return a.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// health is whether the database answers.
func (s *server) health(r *http.Request) (reply, error) {
	if err := s.pulse.check(r.Context()); err != nil {
		p := problemOf(err)
		if why := s.o.Why(err); why != "" {
			p.Detail = "the database does not answer as it should: " + why
		}
		p.cause = err
		return reply{}, p
	}
	return reply{body: status{"ok"}}, nil
}

// ready is whether this process should be given requests.
func (s *server) ready(r *http.Request) (reply, error) {
	if err := s.o.Ready(); err != nil {
		return reply{}, problem{Status: http.StatusServiceUnavailable, Code: "not-ready", Detail: err.Error()}
	}
	return s.health(r)
}
