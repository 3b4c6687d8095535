//go:build integration

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// receiver takes the requests of http jobs and remembers their tokens by job.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	tokens   map[string][]int64
	schedule map[string]int // nominal times, by how often they came
	broken   bool
	hold     chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{tokens: map[string][]int64{}, schedule: map[string]int{}, broken: true, hold: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		token, err := strconv.ParseInt(q.Header.Get("Fencing-Token"), 10, 64)
		if err != nil {
			t.Errorf("token: %v", err)
		}
		r.mu.Lock()
		id := q.Header.Get("Idempotency-Key")
		r.tokens[id] = append(r.tokens[id], token)
		if key := q.Header.Get("Schedule-Key"); key != "" {
			r.schedule[q.Header.Get("Schedule-Time")]++
		}
		broken := r.broken
		r.mu.Unlock()
		switch {
		case q.URL.Path == "/slow":
			<-r.hold
		case q.URL.Path == "/broken" && broken:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) times(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tokens[id])
}

// daemon is a schedulerd process.
type daemon struct {
	*testing.T
	base string
	cmd  *exec.Cmd
	log  string
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "schedulerd")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// given are the ports that freePort has returned. The kernel may name one again until somebody
// listens there.
var given sync.Map

func freePort(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if _, twice := given.LoadOrStore(port, true); !twice {
			return port
		}
	}
}

func start(t *testing.T, bin, name string, env ...string) *daemon {
	t.Helper()
	d := &daemon{T: t, log: filepath.Join(t.TempDir(), name+".log")}
	out, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	d.base = fmt.Sprintf("http://127.0.0.1:%d", port)
	d.cmd = exec.Command(bin, "--name="+name, fmt.Sprint("--http-port=", port), fmt.Sprint("--peer-port=", freePort(t)))
	d.cmd.Env = append(os.Environ(), env...)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_, _ = d.cmd.Process.Wait()
		_ = out.Close()
		if t.Failed() {
			text, _ := os.ReadFile(d.log)
			t.Logf("%s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return d
}

// ask makes a request and decodes the answer.
func (d *daemon) ask(method, path, body string, headers ...string) (int, map[string]any) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.base+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return res.StatusCode, out
}

// must is ask until the status comes; 503 says that nobody is known yet to own the shard,
// 202 that an inbox took the job therefore: as good as 201, and not yet a 200.
func (d *daemon) must(status int, method, path, body string, headers ...string) map[string]any {
	d.Helper()
	var out map[string]any
	eventually(d.T, fmt.Sprintf("%d of %s %s", status, method, path), func() (bool, any) {
		var got int
		got, out = d.ask(method, path, body, headers...)
		switch got {
		case status:
			return true, nil
		case http.StatusAccepted:
			return status == http.StatusCreated, out
		case 0, http.StatusServiceUnavailable:
			return false, out
		}
		d.Fatalf("%s %s: %d %v, want %d", method, path, got, out, status)
		return false, nil
	})
	return out
}

func eventually(t *testing.T, what string, f func() (bool, any)) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ok, got := f()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %v", what, got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *daemon) state(id, want string) {
	d.Helper()
	eventually(d.T, want+" "+id, func() (bool, any) {
		_, got := d.ask("GET", "/api/v1/jobs/"+id, "")
		return got["state"] == want, got
	})
}

// stop sends SIGTERM and waits for the end.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return d.cmd.Wait()
}

// TestTwo walks through what docs/core.md promises, with two processes on a real
// cluster.
func TestTwo(t *testing.T) {
	const first, shards = 4, 6 // before and after there are more
	seen := newTraces(t)
	cfg, env := onCluster(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+seen.URL, "WORKER_BUCKETS="+strconv.Itoa(first), "WORKER_LEASE_TTL_MS=3000", "WORKER_POLL_INTERVAL_MS=500", "WORKER_HTTP_HOSTS=127.0.0.1")
	bin, r := build(t), newReceiver(t)
	var late sync.Map // what the webhook was told of, by job
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var e struct{ Job, State string }
		if err := json.NewDecoder(q.Body).Decode(&e); err != nil {
			t.Errorf("the webhook: %v", err)
		}
		if _, twice := late.Swap(e.Job, e.State); twice {
			t.Errorf("the webhook is told of job %q twice", e.Job)
		}
	}))
	t.Cleanup(hook.Close)
	began := time.Now()
	phase := func(name string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), name) }
	env = append(env, "WORKER_LATE_AFTER_MS=3600000", "WORKER_LATE_WEBHOOK="+hook.URL)
	migrate := exec.Command(bin, "migrate")
	migrate.Env = append(os.Environ(), env...)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	phase("migrated")
	a, b := start(t, bin, "a", env...), start(t, bin, "b", env...)
	both := []*daemon{a, b}
	for _, d := range both {
		d.must(200, "GET", "/readyz", "")
	}
	owners := func() map[any]int {
		out := map[any]int{}
		_, got := b.ask("GET", "/api/v1/queues", "")
		items, _ := got["items"].([]any)
		for _, q := range items {
			for _, s := range q.(map[string]any)["shards"].([]any) {
				owner, _ := s.(map[string]any)["owner"].(string)
				name, _, _ := strings.Cut(owner, ".")
				out[name]++
			}
		}
		return out
	}
	eventually(t, "owner of all shards", func() (bool, any) { o := owners(); return o["a"]+o["b"] == first, o })
	phase(fmt.Sprintf("owners: %v", owners()))

	job := func(path string, more string) string {
		return fmt.Sprintf(`{"kind": "http", "payload": {"url": "%s%s", "body": {"n": 1}}%s}`, r.URL, path, more)
	}
	// Enqueued by either, run, completed; asked again by the other one: the same job.
	var ids []string
	for n := range 12 {
		key := fmt.Sprintf("Idempotency-Key: k%d", n)
		parent, _ := traceparent(n)
		status, got := both[n%2].ask("POST", "/jobs", job("/ok", ""), key, parent)
		if status != 201 && status != 202 {
			t.Fatalf("%d %v", status, got)
		}
		ids = append(ids, got["id"].(string))
	}
	for n, id := range ids {
		both[(n+1)%2].state(id, "completed")
		if got := both[(n+1)%2].must(200, "POST", "/jobs", job("/ok", ""), fmt.Sprintf("Idempotency-Key: k%d", n)); got["duplicate"] != true || got["id"] != id {
			t.Errorf("again: %v", got)
		}
		if n := r.times(id); n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	phase("jobs ran")
	// Cancelled by whoever.
	for n := range 4 {
		id := both[n%2].must(201, "POST", "/jobs", job("/ok", `, "schedule": "2100-01-01T00:00:00Z"`))["id"].(string)
		both[(n+1)%2].must(200, "POST", "/api/v1/jobs/"+id+"/cancel", "")
		both[n%2].state(id, "cancelled")
	}
	phase("cancelled")
	// Brought forward by whoever.
	for n := range 4 {
		id := both[n%2].must(201, "POST", "/jobs", job("/ok", `, "schedule": "2100-01-01T00:00:00Z"`))["id"].(string)
		both[(n+1)%2].must(200, "POST", "/jobs/"+id+"/run", "")
		both[n%2].state(id, "completed")
	}
	phase("brought forward")
	// A key stands for one request, for either.
	a.must(422, "POST", "/jobs", job("/other", ""), "Idempotency-Key: k0")
	b.must(422, "POST", "/jobs", job("/other", ""), "Idempotency-Key: k0")
	// Paused by one, resumed by the other.
	a.must(200, "POST", "/api/v1/queues/default/pause", "")
	var waiting []string
	for n := range 4 {
		waiting = append(waiting, both[n%2].must(201, "POST", "/jobs", job("/ok", ""))["id"].(string))
	}
	eventually(t, "paused queue with what waits", func() (bool, any) {
		_, got := b.ask("GET", "/api/v1/queues/default", "")
		return got["state"] == "paused" && strings.Contains(fmt.Sprint(got["depth"]), "pending:map[jobs:4 "), got
	})
	for _, id := range waiting {
		if n := r.times(id); n != 0 {
			t.Errorf("%s came %d times while the queue was paused", id, n)
		}
	}
	b.must(200, "POST", "/api/v1/queues/default/resume", "")
	for _, id := range waiting {
		a.state(id, "completed")
	}
	phase("paused and resumed")
	// One that was due long ago is late.
	old := a.must(201, "POST", "/jobs", job("/ok", `, "schedule": "2020-01-01T00:00:00Z"`))["id"].(string)
	eventually(t, "word of the late job", func() (bool, any) { state, ok := late.Load(old); return ok && state != "", old })
	b.state(old, "completed")
	phase("told of a late one")
	// To the dead letter queue and back.
	dead := a.must(201, "POST", "/jobs", job("/broken", `, "max_attempts": 1`))["id"].(string)
	b.state(dead, "dlq")
	if got := b.must(200, "GET", "/api/v1/dlq", ""); fmt.Sprint(got["items"].([]any)[0].(map[string]any)["id"]) != dead {
		t.Errorf("dlq: %v", got)
	}
	r.mu.Lock()
	r.broken = false
	r.mu.Unlock()
	b.must(200, "POST", "/api/v1/dlq/"+dead+"/redrive", "")
	a.state(dead, "completed")
	r.mu.Lock()
	if got := r.tokens[dead]; len(got) != 2 || got[0] >= got[1] {
		t.Errorf("tokens of the redriven job: %v", got)
	}
	r.mu.Unlock()
	phase("redriven")
	// A schedule fires, once each time.
	schedule := fmt.Sprintf(`{"timing": {"kind": "fixed_rate", "every_seconds": 1}, "job": {"kind": "http", "payload": {"url": "%s/ok"}}}`, r.URL)
	b.must(200, "PUT", "/api/v1/schedules/every-second", schedule)
	eventually(t, "three occurrences", func() (bool, any) { r.mu.Lock(); defer r.mu.Unlock(); return len(r.schedule) >= 3, r.schedule })
	a.must(200, "POST", "/api/v1/schedules/every-second/disable", "")
	phase("fired")
	// More shards, by either. Keys have the jobs that they had.
	for n, d := range both {
		if got := d.must(200, "PUT", "/api/v1/queues/default", fmt.Sprintf(`{"shards": %d}`, shards)); got["first_shards"] != float64(first) || got["duplicate"] != (n > 0) {
			t.Errorf("more shards: %v", got)
		}
	}
	eventually(t, "owners of the new shards", func() (bool, any) { o := owners(); return o["a"]+o["b"] == shards, o })
	for n, id := range ids {
		if got := both[n%2].must(200, "POST", "/jobs", job("/ok", ""), fmt.Sprintf("Idempotency-Key: k%d", n)); got["duplicate"] != true || got["id"] != id {
			t.Errorf("after the raise: %v, want %s", got, id)
		}
	}
	phase("more shards")
	// One stops while jobs are at work, and nothing is lost.
	var slow []string
	for n := range 12 {
		slow = append(slow, both[n%2].must(201, "POST", "/jobs", job("/slow", ""))["id"].(string))
	}
	for _, id := range slow {
		eventually(t, "request of "+id, func() (bool, any) { return r.times(id) > 0, id })
	}
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	eventually(t, "503 of a's /readyz", func() (bool, any) { s, _ := a.ask("GET", "/readyz", ""); return s == 503, s })
	_, got := b.ask("POST", "/jobs", job("/slow", "")) // into a shard of either
	last, _ := got["id"].(string)
	close(r.hold)
	if err := <-stopped; err != nil {
		t.Errorf("a ended with %v", err)
	}
	phase("a has stopped")
	for _, id := range append(slow, last) {
		b.state(id, "completed")
		if n := r.times(id); n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	eventually(t, "shards of b alone", func() (bool, any) { o := owners(); return o["b"] == shards, o })
	if n := len(r.schedule); n < 3 {
		t.Errorf("%d occurrences", n)
	}
	for at, n := range r.schedule {
		if n != 1 {
			t.Errorf("%s was fired %d times", at, n)
		}
	}
	res, err := http.Get(b.base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if !bytes.Contains(text, []byte(fmt.Sprintf("\nshards_owned %d\n", shards))) || !bytes.Contains(text, []byte(`jobs_processed_total{status="completed"}`)) {
		t.Errorf("%.2000s", text)
	}
	if err := b.stop(); err != nil {
		t.Errorf("b ended with %v", err)
	}
	phase("b has stopped")
	crossed := 0
	for n := range 12 {
		_, id := traceparent(n)
		crossed += seen.whole(t, id) - 1
	}
	if crossed == 0 {
		t.Error("no trace goes over both processes: twelve jobs, and each ran where it was asked for")
	}
	db := cassandratest.Open(t, cfg)
	for n := range shards {
		h, err := cassandra.NewShards(db).Look(t.Context(), store.ShardID{Queue: "default", Shard: n}, true)
		if err != nil || h == nil || h.Owner != "" {
			t.Errorf("shard %d: %+v, %v", n, h, err)
		}
	}
}
