package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fencepost/reports"
	"fencepost/reports/reporttest"
	"fencepost/reports/serve"
)

func TestReportCommand(t *testing.T) {
	t.Parallel()
	run, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 1, Verdict: "PASS"})
	if err != nil {
		t.Fatal(err)
	}
	torn, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2, Verdict: "PASS"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "history", "w1.1.jsonl"), []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bench := t.TempDir()
	if err := os.WriteFile(filepath.Join(bench, reports.BenchFile), []byte(`{"version":1,"name":"b"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(files, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const one, two = `{"version":1,"name":"one"}` + "\n", `{"version":1,"name":"two"}` + "\n"
	kept, out := write("kept.jsonl", one+two), filepath.Join(files, "out")
	for _, tc := range []struct {
		name string
		args []string
		code int
		out  string // a file that must be written and named
		says string
	}{
		{"a run", []string{run}, 0, filepath.Join(run, "report.html"), ""},
		{"a benchmark", []string{bench}, 0, filepath.Join(bench, "bench.html"), ""},
		{"an unreadable history", []string{torn}, exitNotDone, filepath.Join(torn, "report.html"), "w1.1.jsonl:1"},
		{"a benchmark's file", []string{filepath.Join(bench, "bench.json")}, 0, filepath.Join(bench, "bench.html"), ""},
		{"a file with another name", []string{write("mine.json", one)}, 0, filepath.Join(files, "one", "bench.html"), ""},
		{"kept ones", []string{kept}, 0, filepath.Join(files, "two", "bench.html"), ""},
		{"one of them, elsewhere", []string{kept + "#two", "--out=" + out}, 0, filepath.Join(out, "two", "bench.html"), ""},
		{"a benchmark, elsewhere", []string{bench, "--out=" + out}, 0, filepath.Join(out, "b", "bench.html"), ""},
		{"a run, elsewhere", []string{run, "--out=" + out}, exitUsage, "", "--out is for benchmarks"},
		{"none of that name", []string{kept + "#three"}, exitUsage, "", `unknown result "three"; there are: one, two`},
		{"one of no .jsonl", []string{bench + "#b"}, exitUsage, "", "no such file"},
		{"no kept ones", []string{write("empty.jsonl", "")}, exitUsage, "", "has none"},
		{"a line that is none", []string{write("other.jsonl", one+`{"version":7}`+"\n")}, exitUsage, "", "other.jsonl:2: format version 7"},
		{"a torn line", []string{write("torn.jsonl", one+`{"version"`)}, exitUsage, "", "torn.jsonl:2"},
		{"no JSON", []string{write("no.json", "nonsense")}, exitUsage, "", "no.json"},
		{"a name that leads elsewhere", []string{write("up.jsonl", `{"version":1,"name":"../up"}`+"\n")}, exitUsage, "", "cannot be that of a directory"},
		{"a ceiling that is missing", []string{write("arms.jsonl", `{"version":1,"name":"x","arms":[{"id":"a","ceiling":"b","rounds":[]}]}`+"\n")}, exitUsage, "", `no other arm "b"`},
		{"no such file", []string{filepath.Join(files, "none.jsonl")}, exitUsage, "", "no such file"},
		{"nothing", nil, exitUsage, "", "runs/latest"},
		{"no run", []string{t.TempDir()}, exitUsage, "", "not a run's directory"},
		{"no directory", []string{filepath.Join(t.TempDir(), "none")}, exitUsage, "", "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := newReportCmd()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs(append([]string{}, tc.args...))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			err := cmd.ExecuteContext(context.Background())
			code := exitCode(err, io.Discard)
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q does not say %q", err, tc.says)
			}
			if code != tc.code {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
			if tc.out == "" {
				return
			}
			if !strings.Contains(out.String(), tc.out) {
				t.Errorf("output %q does not name %s", out.String(), tc.out)
			}
			if _, err := os.Stat(tc.out); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBenchSeries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const one, two = `{"version":1,"name":"one","started":"2026-01-02T00:00:00Z"}` + "\n", `{"version":1,"name":"two","started":"2026-01-03T00:00:00Z"}` + "\n"
	first, second := write("a/bench.json", one), write("b/bench.json", two)
	broken := write("broken.jsonl", `{"version":1,"name":"x","arms":[{"id":""}]}`+"\n")
	keep := filepath.Join(dir, "nightly", "bench.jsonl")
	for _, c := range []struct {
		name string
		args []string
		code int
		page string
		says string
	}{
		{"two directories", []string{filepath.Dir(first), filepath.Dir(second), "--out=" + filepath.Join(dir, "two.html")}, 0, "two.html", "2 benchmarks"},
		{"the first is kept", []string{filepath.Dir(first), "--keep=" + keep}, 0, "nightly/bench.html", "1 benchmarks"},
		{"again, and the second", []string{first, second, "--keep=" + keep}, 0, "nightly/bench.html", "2 benchmarks"},
		{"all that are kept", []string{keep}, 0, "nightly/bench.html", "2 benchmarks"},
		{"kept ones, without others", []string{"--keep=" + keep}, 0, "nightly/bench.html", "2 benchmarks"},
		{"nothing", nil, exitUsage, "", "results/bench.jsonl"},
		{"no such directory", []string{filepath.Join(dir, "none")}, exitUsage, "", "no such file"},
		{"a directory without one", []string{dir}, exitUsage, "", "has no bench.json"},
		{"a result that is broken", []string{broken, "--keep=" + keep}, exitUsage, "", "broken.jsonl"},
		{"kept in another kind of file", []string{first, "--keep=" + filepath.Join(dir, "x.json")}, exitUsage, "", ".jsonl"},
	} { // one after the other: each finds what the last has kept
		cmd := newBenchSeriesCmd()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{}, c.args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if code := exitCode(err, io.Discard); code != c.code {
			t.Errorf("%s: exit code %d (%v), want %d", c.name, code, err, c.code)
		}
		said := out.String()
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %q, want %q", c.name, said, c.says)
		}
		if c.page == "" {
			continue
		}
		for _, ending := range []string{".html", ".csv"} {
			if _, err := os.Stat(filepath.Join(dir, strings.TrimSuffix(c.page, ".html")+ending)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// It says where it is, answers there, and ends when it is told to.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, out := io.Pipe()
	var warn bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- serveRuns(ctx, serve.Options{Runs: t.TempDir(), Listen: "127.0.0.1:0"}, out, &warn)
	}()
	b := make([]byte, 200)
	n, err := in.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(string(b[:n]))
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK || warn.Len() > 0 {
		t.Errorf("%s: %s; said %q", url, r.Status, warn.String())
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		runs, listen string
		code         int
		says         string
	}{
		{dir, "7070", exitUsage, "HOST:PORT"},
		{file, "127.0.0.1:0", exitUsage, "not a directory"},
		{filepath.Join(dir, "no-such"), "127.0.0.1:0", exitUsage, "there is no such directory"},
		{dir, l.Addr().String(), exitNotDone, "in use"},
	} {
		if code, said := refused(t, "serve", "--runs="+c.runs, "--listen="+c.listen); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%+v: exit code %d, said %q", c, code, said)
		}
	}
}

// An address that others reach is warned of.
func TestServeWarns(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var warn bytes.Buffer
	err := serveRuns(ctx, serve.Options{Runs: t.TempDir(), Listen: "0.0.0.0:0"}, io.Discard, &warn)
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
	if !strings.Contains(warn.String(), "no login") {
		t.Errorf("said %q", warn.String())
	}
}
