package sinks

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/sink"
	httpsink "fencepost/core/sink/http"
	"fencepost/core/sink/http/httpsinkd"
	"fencepost/core/sink/sinktest"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks/lab"
	"fencepost/harness/target/system"
	"fencepost/internal/docpage"
	"fencepost/internal/exetest"
)

// TestMain is a service if the executable is called as one.
func TestMain(m *testing.M) {
	sandbox.Init()
	switch filepath.Base(os.Args[0]) {
	case httpBinary:
		os.Exit(httpsinkd.Main(os.Args[1:], os.Stderr, nil))
	case labBinary:
		os.Exit(httpsinkd.Main(os.Args[1:], os.Stderr, lab.Handler))
	}
	os.Exit(m.Run())
}

// bin is a directory with the services.
func bin(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{httpBinary, labBinary} {
		if err := os.Symlink(exe, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// found is the kind of a name.
func found(t *testing.T, name string) Kind {
	t.Helper()
	k, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// started is a service with a client.
func started(t *testing.T, k Kind, o Options) (*osproc.Service, Client) {
	t.Helper()
	o.BinDir, o.Log = bin(t), filepath.Join(t.TempDir(), "sink.log")
	o.Ended = func(l *history.ProcessLife) {
		if wrong := l.Unplanned(); wrong != "" {
			t.Error(wrong)
		}
	}
	s, err := k.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Dir); err == nil || s.PID() != 0 {
			t.Errorf("left behind: %s, process %d", s.Dir, s.PID())
		}
	})
	c, err := k.Open(t.Context(), Place{Addr: s.Addr(), Secret: s.Secret, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

// tested are the services; PostgreSQL's, which has to be installed, is an integration test's.
var tested = []string{HTTP}

func services(t *testing.T) (out []Kind) {
	for _, name := range tested {
		out = append(out, found(t, name))
	}
	return out
}

// Every service, with a back door or without, keeps the rules of core/sink.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range services(t) {
		t.Run(k.Name, func(t *testing.T) {
			for _, unfenced := range []bool{false, true} {
				_, c := started(t, k, Options{Unfenced: unfenced})
				t.Run("all", func(t *testing.T) { sinktest.Run(t, "s", func(*testing.T) sink.Sink { return c }) })
			}
		})
	}
}

// A service answers its greeting to whoever comes, by which the harness sees that it can
// be reached.
func TestGreeting(t *testing.T) {
	t.Parallel()
	for _, k := range services(t) {
		t.Run(k.Name, func(t *testing.T) {
			s, _ := started(t, k, Options{})
			conn, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(k.Greeting); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Read(make([]byte, 4096)); n == 0 {
				t.Errorf("no answer: %v", err)
			}
		})
	}
}

// What gets past the rules of a service is in its ledger, on the state that it names only.
func TestUnfenced(t *testing.T) {
	t.Parallel()
	for _, k := range services(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			_, c := started(t, k, Options{Unfenced: true})
			if _, err := c.Accept(t.Context(), "r", "l", 5, sink.Effect{Key: "a", Value: 1}); err != nil {
				t.Fatal(err)
			}
			old, err := c.Read(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			late := sink.Effect{Key: "a", Value: 7}
			a, applied, err := c.WriteUnfenced(t.Context(), old, "r", "l", 2, late)
			if err != nil || !applied || a.Result != sink.Applied || a.Seen != 5 || a.Seq != 2 {
				t.Errorf("%+v %v %v", a, applied, err)
			}
			if _, applied, err := c.WriteUnfenced(t.Context(), old, "r", "l", 2, late); err != nil || applied {
				t.Errorf("on an old state: applied %v, %v", applied, err)
			}
			if _, applied, err := c.WriteUnfenced(t.Context(), sink.State{}, "new", "l", 2, late); err != nil || !applied {
				t.Errorf("of a new resource: applied %v, %v", applied, err)
			}
			l, err := c.Ledger(t.Context(), "r")
			if err != nil || len(l) != 2 || l[1].Token != 2 || l[1].Key != "a" || l[1].Value != 7 {
				t.Errorf("%+v, %v", l, err)
			}
			if err := c.Empty(t.Context(), "r"); err != nil {
				t.Error(err)
			}
			if st, err := c.Read(t.Context(), "r"); err != nil || st.Seq != 0 {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// What a program of a user's own sends past the rules is taken whatever its token, and once, or once
// for each run of a job; without the headers of an effect it is not.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	s, c := started(t, k, Options{Unfenced: true})
	if _, err := c.Raise(t.Context(), "r", "l", 5); err != nil {
		t.Fatal(err)
	}
	send := func(path, token, key string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{httpsink.HeaderResource: "r", httpsink.HeaderIssuer: "l", httpsink.HeaderToken: token, httpsink.HeaderKey: key, httpsink.HeaderValue: "7"} {
			req.Header.Set(name, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get(httpsink.HeaderResult)
	}
	for _, x := range []struct {
		path, token, key, result string
		status                   int
	}{
		{lab.PathEffects, "2", "late", "applied", 200}, {lab.PathEffects, "2", "late", "duplicate", 200}, {lab.PathEffects, "3", "late", "duplicate", 200},
		{lab.PathEffects, "", "late", "invalid", 400}, {lab.PathEffects, "2", "", "invalid", 400},
		{lab.PathRuns, "2", "late", "duplicate", 200}, {lab.PathRuns, "3", "late", "applied", 200}, {lab.PathRuns, "3", "late", "duplicate", 200},
	} {
		if status, result := send(x.path, x.token, x.key); status != x.status || result != x.result {
			t.Errorf("%+v: %d %s", x, status, result)
		}
	}
	if l, err := c.Ledger(t.Context(), "r"); err != nil || len(l) != 3 || l[1].Token != 2 || l[1].Value != 7 || l[2].Token != 3 || l[2].Key != "late" {
		t.Errorf("%+v, %v", l, err)
	}
	all, err := c.(remote).Resources(t.Context())
	if err != nil || !slices.Equal(all, []string{"r"}) {
		t.Errorf("%v, %v", all, err)
	}
}

// A service that forges its ledger takes a stale effect, and its ledger is in order.
func TestForgedLedger(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	_, c := started(t, k, Options{Broken: lab.ForgesLedger})
	if _, err := c.Raise(t.Context(), "r", "l", 5); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Accept(t.Context(), "r", "l", 4, sink.Effect{Key: "k", Value: 1}); err != nil || a.Result != sink.Applied {
		t.Errorf("%+v, %v", a, err)
	}
	if l, err := c.Ledger(t.Context(), "r"); err != nil || len(l) != 2 || l[1].Token != 5 || l[1].Key != "k" {
		t.Errorf("%+v, %v", l, err)
	}
}

// The reference service has no back door.
func TestNoBackDoor(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	_, c := started(t, k, Options{})
	if _, applied, err := c.WriteUnfenced(t.Context(), sink.State{}, "r", "l", 1, sink.Effect{Key: "k"}); err == nil || applied || !strings.Contains(err.Error(), "no back door") {
		t.Errorf("applied %v, %v", applied, err)
	}
}

// A service forgets nothing when it is killed, and answers again when it has stood still.
func TestKillAndPause(t *testing.T) {
	t.Parallel()
	for _, k := range services(t) {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			s, c := started(t, k, Options{})
			if _, err := c.Raise(t.Context(), "r", "l", 5); err != nil {
				t.Fatal(err)
			}
			pid := s.PID()
			if err := s.Kill(t.Context()); err != nil || s.PID() != 0 {
				t.Fatalf("%v, process %d", err, s.PID())
			}
			if err := s.Start(t.Context()); err != nil || s.PID() == pid {
				t.Fatal(err)
			}
			if a, err := c.Raise(t.Context(), "r", "l", 4); err != nil || a.Result != sink.Stale {
				t.Errorf("%+v, %v", a, err)
			}
			if _, err := s.Standing(); err == nil {
				t.Error("it stands still")
			}
			if err := s.Pause(t.Context()); err != nil {
				t.Error(err)
			}
			if n, err := s.Standing(); err != nil || n < 1 {
				t.Errorf("%d processes stand still, %v", n, err)
			}
			if err := s.Resume(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := s.Standing(); err == nil {
				t.Error("it still stands")
			}
			if a, err := c.Raise(t.Context(), "r", "l", 6); err != nil || a.Result != sink.Applied {
				t.Errorf("%+v, %v", a, err)
			}
			if err := s.Start(t.Context()); err == nil {
				t.Error("it is started twice")
			}
		})
	}
}

// A service that cannot start says why.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	dir := t.TempDir()
	_, err := k.Start(t.Context(), Options{BinDir: dir, Log: filepath.Join(dir, "sink.log")})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no executable: %v", err)
	}
	exetest.Write(t, filepath.Join(dir, httpBinary), "#!/bin/sh\necho the disk is full\nexit 3\n")
	_, err = k.Start(t.Context(), Options{BinDir: dir, Log: filepath.Join(dir, "sink.log")})
	if err == nil || !strings.Contains(err.Error(), "ended before it answered: exit status 3") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("it ends: %v", err)
	}
}

// Which system can have which sink.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sink, system, want, err string }{
		{"", "core", Cassandra, ""},
		{"", "lock-per-job", Cassandra, ""},
		{"", "exec:true", HTTP, ""},
		{HTTP, "core", HTTP, ""},
		{HTTP, "broken/no-raise", HTTP, ""},
		{HTTP, "exec:true", HTTP, ""},
		{"", "broken/sink-forges-ledger", HTTP, ""},
		{Cassandra, "broken/sink-forges-ledger", "", "not cassandra"},
		{"", "broken/ledger-read-at-quorum", Cassandra, ""},
		{Postgres, "broken/ledger-commit-at-one", "", "not postgres"},
		{HTTP, "lock-per-job", "", "not http"},
		{Cassandra, "exec:true", "", "not cassandra"},
		{Postgres, "core", Postgres, ""},
		{Postgres, "exec:true", "", "not postgres"},
		{"redis", "core", "", `unknown sink "redis"; there are: cassandra, http`},
	} {
		sys, err := system.Find(c.system)
		if err != nil {
			t.Fatal(err)
		}
		k, err := Of(c.sink, sys)
		if c.err == "" && (err != nil || k.Name != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %s, %v", c, k.Name, err)
		}
	}
	if names := Names(); names[0] != Cassandra || !slices.Contains(names, HTTP) {
		t.Errorf("%v", names)
	}
}

// TestPage: docs/cli.md lists the kinds, and each leads to its package.
func TestPage(t *testing.T) {
	t.Parallel()
	table := "| sink | what it is | a worker's way to it | if it is missing |\n|---|---|---|---|\n"
	for n, k := range Kinds() {
		pkg := "../core/sink/" + k.Name + "/doc.go"
		if _, err := os.Stat("../../" + pkg); err != nil {
			t.Error(err)
		}
		way, name := "one link to it", "[`"+k.Name+"`]("+pkg+")"
		if k.Start == nil {
			way = "a link of its own to each node, apart from those of the lock store"
		}
		if n == 0 {
			name += " (the default)"
		}
		table += docpage.Row(name, k.About, way, k.Remedy)
	}
	docpage.Check(t, "cli.md", "sinks", table)
}
