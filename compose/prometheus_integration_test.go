//go:build integration

package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// process runs a program for the test, whose log is shown if it fails.
func process(t *testing.T, name string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return cmd
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// schedulers starts three on a keyspace of their own, and returns where they are.
func schedulers(t *testing.T) (addresses []string, first *exec.Cmd) {
	t.Helper()
	cfg := cassandratest.Config(t)
	cfg.Keyspace = fmt.Sprintf("it_stack_%x", rand.Uint32())
	t.Cleanup(func() {
		if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	bin := filepath.Join(t.TempDir(), "schedulerd")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, "../core/cmd/schedulerd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := append(os.Environ(), "CASSANDRA_CONTACT_POINT="+os.Getenv(cassandratest.ContactPointsEnv), "CASSANDRA_KEYSPACE="+cfg.Keyspace,
		"CASSANDRA_REPLICATION_FACTOR="+strconv.Itoa(min(3, len(cfg.ContactPoints))), "WORKER_BUCKETS=6", "WORKER_LEASE_TTL_MS=3000", "WORKER_POLL_INTERVAL_MS=500",
		"WORKER_HTTP_HOSTS=*", "WORKER_MAX_IN_PROGRESS=2", "WORKER_BACKOFF_BASE_MS=100", "WORKER_BACKOFF_MAX_MS=200", "WORKER_API_TOKEN=")
	if p := os.Getenv(cassandratest.PortEnv); p != "" {
		env = append(env, "CASSANDRA_PORT="+p)
	}
	migrate := exec.Command(bin, "migrate")
	migrate.Env = env
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	var probes [][]string
	for n := range 3 {
		port := freePort(t)
		args := []string{fmt.Sprint("--name=s", n+1), "--http-host=127.0.0.1", "--http-port=" + port, "--peer-port=" + freePort(t)}
		cmd := exec.Command(bin, args...)
		cmd.Env = env
		process(t, fmt.Sprint("s", n+1), cmd)
		if n == 0 {
			first = cmd
		}
		addresses, probes = append(addresses, "127.0.0.1:"+port), append(probes, append([]string{"probe"}, args...))
	}
	for _, args := range probes { // that of the containers
		until(t, "ready", 60*time.Second, func() bool {
			probe := exec.Command(bin, args...)
			probe.Env = env
			return probe.Run() == nil
		})
	}
	return addresses, first
}

func until(t *testing.T, what string, limit time.Duration, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen: ", what)
		}
	}
}

// load has jobs enqueued that succeed slowly, so that others are late, that fail and are
// tried again, and that go to the dead letter queue; and a schedule every second.
func load(t *testing.T, ctx context.Context, addresses []string) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Idempotency-Key")]++
		n := seen[r.Header.Get("Idempotency-Key")]
		mu.Unlock()
		switch r.URL.Path {
		case "/slow":
			time.Sleep(150 * time.Millisecond)
		case "/once":
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/never":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	var client http.Client
	post := func(address, path, body string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if res, err := client.Do(req); err == nil { // one of them is killed meanwhile
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	post(addresses[1], "/api/v1/jobs", `{"taskId": "log", "cron": "* * * * * *", "idempotency_key": "each-second"}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			address := addresses[n%len(addresses)]
			for _, path := range []string{"/slow", "/slow", "/once", "/never"} {
				post(address, "/jobs", fmt.Sprintf(`{"kind": "http", "max_attempts": 2, "payload": {"url": "%s%s"}}`, receiver.URL, path))
			}
			select {
			case <-time.After(150 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { <-done; client.CloseIdleConnections(); receiver.Close() })
}

// prometheus starts a real one with the shipped configuration, which scrapes other
// addresses, and more often.
func prometheus(t *testing.T, addresses []string) (base string) {
	t.Helper()
	bin, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("NOT TESTED: dashboard and alerts on a real Prometheus, as it is missing: scripts/ensure-tools --prometheus")
	}
	dir, port := t.TempDir(), freePort(t)
	config := read(t, "prometheus/prometheus.yaml")
	shipped := `["schedulerd-1:8080", "schedulerd-2:8080", "schedulerd-3:8080"]`
	if !strings.Contains(config, shipped) {
		t.Fatal("the configuration scrapes something else")
	}
	config = strings.Replace(config, shipped, `["`+strings.Join(addresses, `", "`)+`"]`, 1)
	config = regexp.MustCompile(`_interval: 5s`).ReplaceAllString(config, "_interval: 1s")
	config = strings.Replace(config, "localhost:9090", "127.0.0.1:"+port, 1)
	for name, text := range map[string]string{"prometheus.yaml": config, "alerts.yaml": read(t, "prometheus/alerts.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process(t, "prometheus", exec.Command(bin, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:"+port))
	return "http://127.0.0.1:" + port
}

// ask returns the values of a query, by their labels.
func ask(base, query string) (map[string]float64, error) {
	res, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	out := map[string]float64{}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out[fmt.Sprint(r.Metric)] = v
	}
	return out, nil
}

// mayBeZero are the queries for what does not happen under this load; all others have to
// show something.
var mayBeZero = []string{"Shards without an owner A", "Schedules A", "Schedules B", "Schedules C", "Takeovers C", "Takeovers D",
	"Renewals and hand-overs B", "Renewals and hand-overs C", "Renewals and hand-overs D", "Takeovers A", "Takeovers B"}

// TestPrometheus: a real Prometheus with the shipped configuration scrapes three real
// schedulers under load; each query of the dashboard has an answer that is a number and,
// but for what does not happen, above zero; alerts fire upon dead letters and a scheduler
// that is killed.
func TestPrometheus(t *testing.T) {
	began := time.Now()
	phase := func(what string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), what) }
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("NOT TESTED: dashboard and alerts on a real Prometheus, as it is missing: scripts/ensure-tools --prometheus")
	}
	addresses, first := schedulers(t)
	base := prometheus(t, addresses)
	phase("three schedulers are ready")
	ctx, cancel := context.WithCancel(t.Context())
	load(t, ctx, addresses)
	t.Cleanup(cancel)
	until(t, "all are scraped", 30*time.Second, func() bool {
		got, err := ask(base, `sum(up{job="schedulerd"})`)
		return err == nil && got["map[]"] == 3
	})
	phase("they are scraped")
	queries := loadDashboard(t).queries("10s")
	answered := map[string]bool{}
	var last string
	for end := time.Now().Add(40 * time.Second); len(answered) < len(queries); time.Sleep(250 * time.Millisecond) {
		for name, query := range queries {
			if answered[name] {
				continue
			}
			got, err := ask(base, query)
			if err == nil && shows(got, slices.Contains(mayBeZero, name)) {
				answered[name] = true
			} else {
				last = fmt.Sprintf("%s: %s: %v, %v", name, query, got, err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d queries show something; not, for one, %s", len(answered), len(queries), last)
		}
	}
	phase(fmt.Sprintf("all %d queries of the dashboard show something", len(queries)))
	// Rules are evaluated beside the scrapes: what a query shows an alert may not know yet.
	until(t, "the alert upon dead letters", 20*time.Second, func() bool {
		got, err := ask(base, `ALERTS{alertname="SchedulerDeadLetters", alertstate="firing"}`)
		return err == nil && len(got) == 1
	})
	if got, err := ask(base, `ALERTS{alertname=~"SchedulerDown|SchedulerNoneUp"}`); err != nil || len(got) != 0 {
		t.Errorf("an alert while all are up: %v, %v", got, err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the alert upon a scheduler that is killed", 20*time.Second, func() bool {
		got, err := ask(base, `ALERTS{alertname="SchedulerDown", instance="`+addresses[0]+`"}`)
		return err == nil && len(got) == 1
	})
	phase("a scheduler that is killed is noticed")
	// The query for what is not there shows nothing: the check can fail.
	if got, err := ask(base, `sum(rate(jobs_no_such_total[10s]))`); err != nil || shows(got, true) {
		t.Errorf("%v, %v", got, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// shows reports whether an answer has a number, above zero unless that may be.
func shows(got map[string]float64, zero bool) bool {
	for _, v := range got {
		if !math.IsNaN(v) && (v > 0 || zero && v == 0) {
			return true
		}
	}
	return false
}
