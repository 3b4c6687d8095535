package livepage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

// runTests is replaced where the pages are opened in a browser.
var runTests = func(m *testing.M) int { return m.Run() }

func TestMain(m *testing.M) {
	code := runTests(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is a store's contents and a clock that a test sets.
type world struct {
	mu     sync.Mutex
	owners []string // of the queue's shards
	addrs  map[string]string
	err    error
	at     time.Time
}

func (w *world) Queues() []store.Queue { return []store.Queue{{Name: "default"}} }

func (w *world) ShardsOf(context.Context, string) (out []query.Shard, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, o := range w.owners {
		out = append(out, query.Shard{Shard: i, Owner: o, Addr: w.addrs[o]})
	}
	return out, w.err
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func newWorld() *world {
	return &world{at: time.Unix(1_800_000_000, 0), addrs: map[string]string{}}
}

var shard = store.ShardID{Queue: "default", Shard: 1}

// run lets a recorder see a run that was late and took some time.
func (w *world) run(r *Recorder, n int, became engine.StepKind, err error) {
	id, run := job.ID(fmt.Sprint("1-", n)), job.RunID(n)
	r.Step(engine.Step{Kind: engine.StepStart, Shard: shard, Job: id, Run: run, Attempt: 1, Due: w.now().UnixMilli() - 40})
	w.pass(250 * time.Millisecond)
	r.Step(engine.Step{Kind: engine.StepFinish, Shard: shard, Job: id, Run: run, Err: err})
	r.Step(engine.Step{Kind: became, Shard: shard, Job: id, Run: run})
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := NewRecorder("a.1", w.now)
	r.Step(engine.Step{Kind: engine.StepEnqueue, Shard: shard})
	w.run(r, 1, engine.StepComplete, nil)
	w.run(r, 2, engine.StepRetry, errors.New(strings.Repeat("é", 200)))
	w.run(r, 3, engine.StepDLQ, errors.New("on purpose"))
	// A job that is cancelled while its handler is at work: listed when that returns.
	r.Step(engine.Step{Kind: engine.StepStart, Shard: shard, Job: "1-4", Run: 4, Due: w.now().UnixMilli() + 99})
	r.Step(engine.Step{Kind: engine.StepCancel, Shard: shard, Job: "1-4", Run: 4})
	if p := r.Now(); p.Running != 1 || len(p.Runs) != 3 {
		t.Errorf("%d at work, %d listed", p.Running, len(p.Runs))
	}
	r.Step(engine.Step{Kind: engine.StepFinish, Shard: shard, Job: "1-4", Run: 4})
	// One whose shard is lost while it is at work, and one that was never begun.
	r.Step(engine.Step{Kind: engine.StepStart, Shard: shard, Job: "1-5", Run: 5})
	r.Step(engine.Step{Kind: engine.StepLost, Shard: shard})
	r.Step(engine.Step{Kind: engine.StepFinish, Shard: shard, Job: "1-5", Run: 5})
	r.Step(engine.Step{Kind: engine.StepFinish, Shard: shard, Job: "1-6", Run: 6})
	// What another process began is counted, not listed; what is refused is neither.
	r.Step(engine.Step{Kind: engine.StepRescue, Shard: shard, Job: "1-7", Run: 7})
	r.Step(engine.Step{Kind: engine.StepComplete, Shard: shard, Job: "1-8", Run: 8, Err: errors.New("refused")})
	p := r.Now()
	if want := (Counts{Enqueued: 1, Completed: 1, Retried: 2, Dead: 1, Other: 1}); p.Totals != want || p.Running != 0 || len(r.begun) != 0 {
		t.Errorf("%+v, %d at work, %d begun, want %+v", p.Totals, p.Running, len(r.begun), want)
	}
	var said []string
	for _, run := range p.Runs {
		said = append(said, fmt.Sprint(run.Job, " ", run.Outcome, " ", run.Took, " ", min(run.Late, 1000)))
	}
	if got := strings.Join(said, ", "); got != "1-5 lost 0 1000, 1-4 cancelled 0 0, 1-3 dlq 250 40, 1-2 retry 250 40, 1-1 completed 250 40" {
		t.Error(got)
	}
	if e := p.Runs[3].Error; len(e) > longestError+4 || !strings.HasSuffix(e, "é…") {
		t.Errorf("the error is %q", e)
	}
	// A minute later the seconds are forgotten, and the ring's places are not added to.
	w.pass(time.Hour)
	if p := r.Now(); len(p.Seconds) != 0 {
		t.Errorf("%+v", p.Seconds)
	}
	for n := range 100 {
		w.run(r, 10+n, engine.StepComplete, nil)
	}
	p = r.Now()
	var sum int64
	for _, s := range p.Seconds {
		sum += s.Completed
	}
	if sum != 100 || len(p.Runs) != lastRuns || p.Runs[0].Job != "1-109" {
		t.Errorf("%d within the last minute, %d runs, the last %s", sum, len(p.Runs), p.Runs[0].Job)
	}
}

// peer serves a recorder to other processes.
func peer(t *testing.T, w *world, r *Recorder) {
	srv := httptest.NewServer(forward.Guard("0123456789abcdef", r.Peer()))
	t.Cleanup(srv.Close)
	w.addrs[r.Name()] = srv.Listener.Addr().String()
}

// TestView: all that own something are asked and added up; of those that do not answer it
// is said.
func TestView(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a, b, old := NewRecorder("a.1", w.now), NewRecorder("b.1", w.now), NewRecorder("c.1", w.now)
	peer(t, w, b)
	peer(t, w, old)
	w.addrs["c.2"], w.addrs["e.1"] = w.addrs["c.1"], "127.0.0.1:1"
	w.owners = []string{"a.1", "b.1", "", "b.1", "c.2", "d.1", "e.1"}
	depths(a, 1, 7, 1, 0)
	depths(b, 2, 5, 0, 3)
	w.run(a, 1, engine.StepComplete, nil)
	w.run(b, 2, engine.StepRetry, errors.New("on purpose"))
	w.pass(2 * time.Second)
	c := &collector{self: a, reader: w, secret: "0123456789abcdef", now: w.now, client: &http.Client{}}
	defer c.client.CloseIdleConnections()
	defer c.reading.end()
	var v View
	said := func() (out []string) {
		v = c.view(t.Context())
		for _, p := range v.Processes {
			out = append(out, fmt.Sprintf("%s %d shards, %d and %d: %s", p.Name, p.Shards, p.Totals.Completed, p.Totals.Retried, p.Unknown))
		}
		return out
	}
	want := []string{"a.1 1 shards, 1 and 0: ", "b.1 2 shards, 0 and 1: ", "c.2 1 shards, 0 and 0: another process is at its address: c.1",
		"d.1 1 shards, 0 and 0: no address for other processes (WORKER_PEER_PORT=0)", "e.1 1 shards, 0 and 0: it does not answer"}
	got := said()
	for try := 0; try < 20 && (v.Queues == nil || !slices.Equal(got, want)); try++ { // a busy machine
		got = said()
	}
	if !slices.Equal(got, want) {
		t.Error(strings.Join(got, "\n"))
	}
	var sum Second
	for _, s := range v.Seconds {
		sum.add(s)
	}
	if len(v.Seconds) != span-1 || sum.Completed != 1 || sum.Retried != 1 || sum.Late != 40 || len(v.Runs) != 2 || v.Runs[0].By != "b.1" {
		t.Errorf("%+v in %d seconds, runs %+v", sum, len(v.Seconds), v.Runs)
	}
	// Of seven shards one has no owner, and three owners do not answer.
	if fmt.Sprint(v.States) != "map[dlq:{3 true} pending:{12 true} running:{1 true}]" || v.Uncounted != 4 || len(v.Problems) != 0 {
		t.Errorf("%v, %d shards are not counted: %v", v.States, v.Uncounted, v.Problems)
	}
	// The wrong secret is refused, and said.
	c.secret = "another"
	if v := c.view(t.Context()); v.Processes[1].Unknown != "it answers with status 401" {
		t.Errorf("%+v", v.Processes[1])
	}
	// The store fails: what was read last is still shown.
	w.pass(time.Minute)
	w.mu.Lock()
	w.err = errors.New("too few replicas")
	w.mu.Unlock()
	v = c.view(t.Context())
	for range 20 { // a busy machine
		if len(v.Problems) == 1 {
			break
		}
		v = c.view(t.Context())
	}
	if len(v.Problems) != 1 || len(v.Queues) != 1 || v.States["pending"].Jobs != 7 || !strings.Contains(v.Problems[0], "too few replicas") {
		t.Errorf("%+v", v)
	}
}

// depths makes a recorder's process own so many shards with so many jobs.
func depths(r *Recorder, shards, pending, running, dlq int) {
	r.CountBy(func() []engine.Depth {
		return []engine.Depth{{Queue: "default", Shards: shards, Pending: engine.Count{Jobs: pending}, Running: engine.Count{Jobs: running}, DLQ: engine.Count{Jobs: dlq}}}
	})
}

// TestCountedByOwners: jobs are counted exactly if every shard has an owner that answers;
// if no owner does, how many there are is not known.
func TestCountedByOwners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owners    []string
		counted   int
		states    string
		uncounted int
	}{
		"all":  {[]string{"a.1", "a.1"}, 2, "map[dlq:{0 false} pending:{4 false} running:{0 false}]", 0},
		"some": {[]string{"a.1", ""}, 1, "map[dlq:{0 true} pending:{4 true} running:{0 true}]", 1},
		"none": {[]string{"", ""}, 0, "map[]", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRecorder("a.1", nil)
			depths(r, c.counted, 4, 0, 0)
			v := View{Queues: []QueueView{{Name: "default", Owners: c.owners}}}
			v.count([]answer{{Process: r.Now()}})
			if fmt.Sprint(v.States) != c.states || v.Uncounted != c.uncounted {
				t.Errorf("%v, %d shards are not counted", v.States, v.Uncounted)
			}
		})
	}
}

// TestARunThatStartsTooLate: between the look at the clock and the call of its handler a
// run's shard is lost. The run is listed as that, and forgotten.
func TestARunThatStartsTooLate(t *testing.T) {
	t.Parallel()
	for _, end := range []engine.StepKind{engine.StepLost, engine.StepHanded} {
		r := NewRecorder("a.1", nil)
		for fence := int64(1); fence <= 3; fence++ {
			k := engine.Step{Shard: shard, Fence: fence, Job: "1-1", Run: job.NewRunID(fence, 1)}
			for _, kind := range []engine.StepKind{end, engine.StepStart, engine.StepFinish} {
				k.Kind = kind
				r.Step(k)
			}
		}
		// The next ownership's runs are not.
		next := engine.Step{Kind: engine.StepStart, Shard: shard, Fence: 4, Job: "1-2", Run: job.NewRunID(4, 1)}
		r.Step(next)
		if p := r.Now(); len(r.begun) != 1 || len(p.Runs) != 3 || p.Runs[0].Outcome != "lost" || p.Running != 1 {
			t.Errorf("%s: %d are kept, %+v", end, len(r.begun), p)
		}
	}
}

// TestSilentStore: what processes say is shown while the store does not answer.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := NewRecorder("a.1", w.now)
		w.run(r, 1, engine.StepComplete, nil)
		ctx, cancel := context.WithCancel(t.Context())
		c := &collector{self: r, reader: silent{w}, now: w.now, client: &http.Client{}}
		began := time.Now()
		v := c.view(ctx)
		if took := time.Since(began); took > 2*lookWait || len(v.Processes) != 1 || v.Processes[0].Totals.Completed != 1 {
			t.Errorf("after %v: %+v", took, v)
		}
		time.Sleep(readTimeout)
		if v := c.view(ctx); len(v.Problems) != 1 {
			t.Errorf("%v", v.Problems)
		}
		w.pass(time.Minute)
		c.view(ctx) // asked again
		cancel()
		c.reading.end()
	})
}

// silent is a store that answers nothing.
type silent struct{ *world }

func (silent) ShardsOf(ctx context.Context, _ string) ([]query.Shard, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// stream reads events of a page.
func stream(t *testing.T, url string) (next func() View, leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/live/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(); _ = res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatal(kind)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() (v View) {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				v = View{}
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				if v.Queues == nil {
					continue // the store has not answered yet
				}
				return v
			}
		}
		t.Fatal("the stream is over: ", lines.Err())
		return v
	}, leave
}

func serve(t *testing.T, w *world, o Options, limit time.Duration) (*httptest.Server, *Page) {
	stop, cancel := context.WithCancel(context.Background())
	o.Reader, o.Stop = w, stop
	if o.Recorder == nil {
		o.Recorder = NewRecorder("a.1", nil)
	}
	p := New(o)
	srv := httptest.NewUnstartedServer(p.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the API") })))
	srv.Config.WriteTimeout = limit
	srv.Start()
	t.Cleanup(func() {
		cancel()
		srv.Close() // would wait for a stream
		p.mu.Lock()
		ended := p.ended
		p.mu.Unlock()
		if ended != nil {
			<-ended
		}
	})
	return srv, p
}

// TestStream: the page is told every second, two lookers cost no more than one, and when
// nobody looks nothing is read.
func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.owners = []string{"a.1", ""}
	srv, p := serve(t, w, Options{}, 500*time.Millisecond) // streams must outlive it
	first, leave1 := stream(t, srv.URL)
	if v := first(); v.Self != "a.1" || len(v.Queues[0].Owners) != 2 {
		t.Errorf("%+v", v)
	}
	second, leave2 := stream(t, srv.URL)
	if second().At == 0 || first().At == 0 {
		t.Error("no time")
	}
	w.mu.Lock()
	w.owners = []string{"a.1", "a.1"}
	w.mu.Unlock()
	for second().Queues[0].Owners[1] != "a.1" {
	}
	leave1()
	leave2()
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it is still read for nobody")
	}
	// And again.
	third, _ := stream(t, srv.URL)
	if third().Self != "a.1" {
		t.Error("a later looker sees nothing")
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestPage(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, newWorld(), Options{Token: "let me in"}, 0)
	get := func(path string, header ...string) (int, string, http.Header) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(header) == 1:
			req.SetBasicAuth("me", header[0])
		case len(header) == 2:
			req.Header.Set(header[0], header[1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text), res.Header
	}
	for _, path := range []string{"/", "/live/page.css", "/live/page.js", "/live/events"} {
		for _, wrong := range [][]string{nil, {"guess"}, {""}, {"Authorization", "Bearer guess"}} {
			if code, text, h := get(path, wrong...); code != 401 || !strings.HasPrefix(h.Get("WWW-Authenticate"), "Basic ") || strings.Contains(text, "<") {
				t.Errorf("%s with %q: %d", path, wrong, code)
			}
		}
	}
	for path, part := range map[string]string{"/": "<h1>Schedulers</h1>", "/live/page.css": "prefers-color-scheme:dark", "/live/page.js": "EventSource"} {
		for _, right := range [][]string{{"let me in"}, {"Authorization", "Bearer let me in"}} {
			if code, text, h := get(path, right...); code != 200 || !strings.Contains(text, part) || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s: %d %.100s", path, code, text)
			}
		}
	}
	if code, _, _ := get("/live/other", "let me in"); code != 404 {
		t.Errorf("there is something at /live/other: %d", code)
	}
	for _, path := range []string{"/jobs", "/healthz", "/api/v1/queues"} {
		if _, text, _ := get(path); text != "the API" {
			t.Errorf("%s: %.100s", path, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
