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

	"fencepost/reports/serve"
)

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
