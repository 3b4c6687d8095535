package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/rundir"
)

// What is asked for must be a known file of a run; nothing else below or above the
// directory of runs is to be had, by no spelling.
func TestOnlyFilesOfRuns(t *testing.T) {
	top := t.TempDir()
	runs := filepath.Join(top, "runs")
	dir := makeRun(t, runs, spec{name: "r1", verdict: "PASS"})
	const secret = "not for browsers"
	write(t, filepath.Join(top, "secret.json"), secret)
	write(t, filepath.Join(runs, "stray.json"), secret)
	write(t, filepath.Join(dir, "key.pem"), secret)
	write(t, filepath.Join(dir, ".hidden.json"), secret)
	must(t, os.MkdirAll(filepath.Join(dir, "deep", "er"), 0o755))
	write(t, filepath.Join(dir, "deep", "a.json"), secret)
	must(t, os.Symlink(filepath.Join(top, "secret.json"), filepath.Join(dir, "link.json")))
	must(t, os.Symlink("run.json", filepath.Join(dir, "alias.json")))
	must(t, os.Symlink(top, filepath.Join(runs, "outside")))
	linked := makeRun(t, runs, spec{name: "r2", verdict: "PASS"})
	must(t, os.RemoveAll(filepath.Join(linked, rundir.LogDir)))
	must(t, os.Symlink(top, filepath.Join(linked, rundir.LogDir)))
	s := handler(t, runs)

	for _, path := range []string{
		"/runs/r1/../../secret.json", "/runs/../secret.json", "/runs/r1/..\\..\\secret.json", "/runs/r1//etc/passwd",
		"/runs/r1/history/../../../secret.json",
		"/runs/r1/history/../run.json", "/runs//r1/run.json", "/runs/r1/./run.json", "/runs/stray.json", "/runs/r1/key.pem",
		"/runs/r1/.hidden.json",
		"/runs/r1/deep/a.json", "/runs/r1/history/er/a.jsonl", "/runs/r1/link.json", "/runs/r1/alias.json", "/runs/outside/secret.json",
		"/runs/outside/", "/runs/r2/logs/secret.json",
		"/runs/r1/run.json\x00.html", "/runs/r1/logs/\x00", "/runs/./r1/run.json", "/runs/%2e%2e/secret.json", "/assets/../serve.go",
		"/runs/r1/logs/..", "/events/../secret.json", "/events/outside",
	} {
		w := get(t, s, path)
		if w.Code == http.StatusOK {
			t.Errorf("GET %q is answered: %.200s", path, w.Body)
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("GET %q shows what is not a run's file", path)
		}
	}
	// By the wire too: there the mux cleans paths, and escapes are decoded.
	srv := httptest.NewServer(s)
	defer srv.Close()
	for _, path := range []string{"/runs/r1/%2e%2e/%2e%2e/secret.json", "/runs/r1/..%2f..%2fsecret.json",
		"/runs/r1/history%2f..%2f..%2fkey.pem", "/runs/..%2fsecret.json"} {
		r, err := srv.Client().Get(srv.URL + path)
		must(t, err)
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Errorf("GET %s is answered", path)
		}
	}
	has(t, page(t, s, "/runs/r1/run.json"), `"scenario":"kill-worker"`)
	has(t, page(t, s, "/runs/r1/logs/w1.1.log"), "killed")
	text := page(t, s, "/runs/r2/")
	hasNot(t, text, "secret")
	hasNot(t, page(t, s, "/"), "outside")
	hasNot(t, page(t, s, "/runs/r1/"), "link.json", "alias.json", "key.pem", ".hidden")
}

func TestHost(t *testing.T) {
	runs := t.TempDir()
	name, err := os.Hostname()
	must(t, err)
	for _, c := range []struct {
		listen, host string
		want         bool
	}{
		{"127.0.0.1:7070", "127.0.0.1:7070", true},
		{"127.0.0.1:7070", "localhost:7070", true},
		{"127.0.0.1:7070", "LOCALHOST", true},
		{"127.0.0.1:7070", "[::1]:9000", true}, // a forwarded port
		{"127.0.0.1:7070", "evil.example:7070", false},
		{"127.0.0.1:7070", "localhost.evil.example", false},
		{"127.0.0.1:7070", "127.0.0.1.evil.example", false},
		{"127.0.0.1:7070", "192.168.1.5:7070", false},
		{"127.0.0.1:7070", "", false},
		{"localhost:7070", "127.0.0.1:7070", true},
		{"localhost:7070", "evil.example", false},
		{"0.0.0.0:7070", "192.168.1.5:7070", true},
		{"0.0.0.0:7070", "evil.example:7070", false},
		{"0.0.0.0:7070", name + ":7070", true},
		{"lab.example:7070", "lab.example:7070", true},
		{"lab.example:7070", "evil.example:7070", false},
		{":7070", "evil.example:7070", false},
	} {
		s, err := New(Options{Runs: runs, Listen: c.listen})
		must(t, err)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Code == http.StatusOK; got != c.want {
			t.Errorf("listening at %s, Host %q: %d, want answered: %v", c.listen, c.host, w.Code, c.want)
		}
	}
}

func TestOnlyShows(t *testing.T) {
	s := handler(t, t.TempDir())
	for _, m := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "TRACE"} {
		r := httptest.NewRequest(m, "http://127.0.0.1/", nil)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", m, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodHead, "http://127.0.0.1/", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// Our pages may run our scripts; a run's pages, which may be anybody's, have an
// origin of their own and can load nothing.
func TestPolicies(t *testing.T) {
	runs := t.TempDir()
	dir := makeRun(t, runs, spec{name: "r1", verdict: "PASS"})
	write(t, filepath.Join(dir, "plots", "strip.svg"), "<svg/>")
	s := handler(t, runs)
	own := get(t, s, "/").Header()
	has(t, own.Get("Content-Security-Policy"), "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'")
	hasNot(t, own.Get("Content-Security-Policy"), "script-src 'unsafe-inline'", "sandbox")
	for path, ct := range map[string]string{"report.html": "text/html; charset=utf-8", "plots/strip.svg": "image/svg+xml"} {
		h := get(t, s, "/runs/r1/"+path).Header()
		has(t, h.Get("Content-Security-Policy"), "sandbox allow-scripts", "default-src 'none'")
		hasNot(t, h.Get("Content-Security-Policy"), "allow-same-origin", "connect-src")
		if h.Get("Content-Type") != ct || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
	// What a process logged is text, whatever it looks like.
	write(t, filepath.Join(dir, "logs", "odd.html.log"), "<script>")
	if ct := get(t, s, "/runs/r1/logs/odd.html.log").Header().Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("a log is %s", ct)
	}
}

// Text of runs is text: nothing of it becomes part of a page.
func TestEscapes(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "r1", scenario: `<script>alert(1)</script>`, system: `"><img src=x>`, verdict: "PASS"})
	makeRun(t, runs, spec{name: "r2", verdict: "PASS"})
	s := handler(t, runs)
	for _, path := range []string{"/", "/runs/r1/", "/compare?run=r1&run=r2", "/?q=%22%3E%3Cimg%20src=x%3E",
		"/?scenario=%3Cscript%3Ealert(1)%3C/script%3E"} {
		hasNot(t, page(t, s, path), "<script>alert", "<img src=x>")
	}
	w := get(t, s, "/runs/<script>alert(1)</script>")
	hasNot(t, w.Body.String(), "<script>alert")
}
