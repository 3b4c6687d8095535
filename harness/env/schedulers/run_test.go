package schedulers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// fake is set for the test binary to be a process that Run starts, and says how it
// behaves.
const fake = "SCHEDULERS_TEST_FAKE"

func TestMain(m *testing.M) {
	if how := os.Getenv(fake); how != "" {
		os.Exit(behave(how))
	}
	goleak.VerifyTestMain(m)
}

// behave serves as schedulerd does, as far as Run can tell.
func behave(how string) int {
	if how == "broken" {
		fmt.Fprintln(os.Stderr, "no connection to Cassandra")
		return 1
	}
	value := func(flag string) string {
		for _, a := range os.Args {
			if v, ok := strings.CutPrefix(a, "--"+flag+"="); ok {
				return v
			}
		}
		return ""
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	l, err := net.Listen("tcp", net.JoinHostPort(value("http-host"), value("http-port")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/die":
			os.Exit(9)
		case "/stream":
			fmt.Fprintln(w, "begins")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, "%s %s %s", value("name"), value("cassandra-contact-point"), os.Getenv("WORKER_LEASE_TTL_MS"))
		}
	}))
	<-stop
	if how == "unruly" {
		return 3
	}
	return 0
}

type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) say(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *told) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(s string) bool { return strings.Contains(s, part) })
}

// start runs n processes; end ends them, if they do not by themselves within after, and
// returns Run's error.
func start(t *testing.T, n int, how string, after time.Duration) (urls []string, l *told, end func() error) {
	t.Helper()
	l = &told{}
	o := Options{Program: os.Args[0], ContactPoints: "10.77.0.11", CQLPort: "9042", PeerPort: 9000, LogDir: t.TempDir(), Env: append(os.Environ(), fake+"="+how, "WORKER_LEASE_TTL_MS=7000"), Say: l.say}
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "http://"+listener.Addr().String())
		o.Listeners = append(o.Listeners, listener)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	end = sync.OnceValue(func() error {
		defer time.AfterFunc(after, cancel).Stop()
		return <-done
	})
	t.Cleanup(func() { _ = end() })
	return urls, l, end
}

func get(t *testing.T, url string) (string, error) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen: ", what)
		}
	}
}

// They share the processes' addresses, so one after the other.
func TestRun(t *testing.T) {
	t.Run("to the end", func(t *testing.T) {
		urls, l, end := start(t, 2, "well", 0)
		until(t, "both are told of", func() bool { return l.has("s1  "+urls[0]) && l.has("s2  "+urls[1]) })
		for i, url := range urls {
			// What the environment says holds, what it leaves out has a default.
			if got, err := get(t, url+"/x"); err != nil || got != fmt.Sprintf("s%d 10.77.0.11 7000", i+1) {
				t.Errorf("%s answers %q, %v", url, got, err)
			}
		}
		// One that is killed comes back; the other one is there meanwhile.
		if _, err := get(t, urls[0]+"/die"); err == nil {
			t.Error("it did not die")
		}
		if _, err := get(t, urls[1]); err != nil {
			t.Error(err)
		}
		until(t, "it is started again", func() bool { _, err := get(t, urls[0]); return err == nil })
		if !l.has("s1 ended (exit status 9)") {
			t.Errorf("told: %q", l.lines)
		}
		// A stream that nobody ends does not keep it from ending.
		res, err := http.Get(urls[1] + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(urls[0], "http://")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("somebody still listens: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	t.Run("one that cannot start", func(t *testing.T) {
		_, _, end := start(t, 2, "broken", 30*time.Second)
		if err := end(); err == nil || !strings.Contains(err.Error(), "ended before it was ready (exit status 1): no connection to Cassandra") {
			t.Error(err)
		}
	})
	t.Run("one that does not end in order", func(t *testing.T) {
		_, l, end := start(t, 1, "unruly", 0)
		until(t, "ready", func() bool { return l.has("s1  ") })
		if err := end(); err == nil || !strings.Contains(err.Error(), "s1 did not end in order: exit status 3") {
			t.Error(err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		err = Run(t.Context(), Options{Program: filepath.Join(t.TempDir(), "schedulerd"), Listeners: []net.Listener{listener}, LogDir: t.TempDir(), Say: (&told{}).say})
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}
