package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/query"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// described is the document, and finds its operations.
var described = sync.OnceValues(func() (*openapi3.T, routers.Router) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err != nil {
		panic(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return doc, router
})

// world is a scheduler on a store in memory, and its API.
type world struct {
	*testing.T
	http.Handler
	store   *sim.Store
	session *sim.Session
	log     *bytes.Buffer
	// gate holds the runs of kind slow.
	gate chan struct{}
	// stop ends the scheduler before its time.
	stop func()
}

var queues = []engine.Queue{{Name: "main", Shards: 3}, {Name: "other", Shards: 1}}

// inWorld calls f beside a scheduler that owns all shards, in virtual time.
func inWorld(t *testing.T, f func(*world), change ...func(*api.Options)) {
	t.Helper()
	described()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: sim.New(), log: &bytes.Buffer{}, gate: make(chan struct{})}
		w.session = w.store.Connect("a", 1)
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		s, err := scheduler.New(scheduler.Options{
			Shards: w.session, Runs: w.session, Handlers: map[string]worker.Handler{
				"log":  func(context.Context, *worker.Task) error { return nil },
				"bad":  func(context.Context, *worker.Task) error { return errors.New("on purpose") },
				"slow": w.slow,
			},
			Engine: engine.Options{Name: "a", Queues: queues, AllQueues: true, Ownership: engine.Ownership{TTL: 30 * time.Second}, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet}},
		})
		if err != nil {
			t.Fatal(err)
		}
		o := api.Options{
			Scheduler: s, Reader: query.New(query.Options{Shards: w.session, Runs: w.session, Queues: s}),
			Check: func(kind string, payload []byte) error {
				if kind == "log" || kind == "bad" || kind == "slow" {
					return nil
				}
				return &job.InvalidError{Field: "kind", Reason: fmt.Sprintf("%q has no handler", kind)}
			},
			Logger: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		for _, c := range change {
			c(&o)
		}
		w.Handler = api.Handler(o)
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		w.stop = sync.OnceFunc(func() {
			stop()
			if err := <-end; err != nil {
				t.Error(err)
			}
		})
		f(w)
		w.stop()
	})
}

func (w *world) slow(ctx context.Context, _ *worker.Task) error {
	select {
	case <-w.gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   []byte
	body   map[string]any
}

// at follows names and numbers into the body.
func (a answer) at(path ...any) any {
	var v any = a.body
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[fmt.Sprint(p)]
		case []any:
			n, _ := p.(int)
			if n >= len(x) {
				return nil
			}
			v = x[n]
		default:
			return nil
		}
	}
	return v
}

func (a answer) text1(path ...any) string { s, _ := a.at(path...).(string); return s }

// do makes a request, with "Name: value" headers, and holds it and its answer against
// the document: every answer must be in it, and every request that was not refused.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.Helper()
	return exchange(w.T, w.Handler, method, path, body, headers...)
}

func exchange(t testing.TB, h http.Handler, method, path, body string, headers ...string) answer {
	t.Helper()
	newRequest := func() *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		return r
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, newRequest())
	a := answer{status: rec.Code, header: rec.Result().Header, text: rec.Body.Bytes()}
	_ = json.Unmarshal(a.text, &a.body)
	if err := conforms(newRequest(), a); err != nil {
		t.Errorf("%s %s: %d %s: %v", method, path, a.status, a.text, err)
	}
	return a
}

func conforms(r *http.Request, a answer) error {
	_, router := described()
	route, params, err := router.FindRoute(r)
	if err != nil {
		if a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed {
			return nil
		}
		return err
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if a.status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return fmt.Errorf("the document refuses a request that was accepted: %w", err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options}
	if err := openapi3filter.ValidateResponse(context.Background(), out.SetBodyBytes(a.text)); err != nil {
		return fmt.Errorf("the answer is not as described: %w", err)
	}
	return nil
}

// want checks status and, of a problem, its code.
func (a answer) want(t testing.TB, status int, code ...string) answer {
	t.Helper()
	got, _ := a.body["code"].(string)
	if a.status != status || len(code) > 0 && got != code[0] {
		t.Errorf("%d %s, want %d %v", a.status, a.text, status, code)
	}
	if status >= 400 && a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d with %s", a.status, a.header.Get("Content-Type"))
	}
	return a
}
