package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestSecondSignal: the first signal ends the context, the second the process, whatever
// it is doing.
func TestSecondSignal(t *testing.T) {
	const child = "SCHEDULERD_TEST_CHILD"
	if os.Getenv(child) != "" {
		ctx, _ := stopOnSignal(slog.New(slog.NewTextHandler(io.Discard, nil)))
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("stops")
		select {}
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "stops"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v", err)
	}
}

// TestProbe: what a container's health check is told.
func TestProbe(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		fmt.Fprintln(w, "because")
	}))
	host, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(env ...string) (int, string) {
		var out, errs strings.Builder
		code := run([]string{"probe"}, func(name string) string {
			for _, e := range env {
				if value, ok := strings.CutPrefix(e, name+"="); ok {
					return value
				}
			}
			return ""
		}, &out, &errs)
		return code, errs.String()
	}
	for _, c := range []struct {
		status, code int
		env, says    string
	}{
		{200, 0, "WORKER_HTTP_HOST=" + host, ""},
		{200, 0, "WORKER_HTTP_HOST=0.0.0.0", ""},
		{200, 0, "X=", ""}, // all addresses
		{503, 1, "X=", "not ready: status 503: because"},
		{200, 64, "WORKER_BUCKETS=none", "WORKER_BUCKETS"},
	} {
		status = c.status
		if code, said := ask("WORKER_HTTP_PORT="+port, c.env); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%+v: exit code %d: %s", c, code, said)
		}
	}
	srv.Close()
	if code, said := ask("WORKER_HTTP_PORT=" + port); code != 1 || !strings.Contains(said, "it does not answer") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
