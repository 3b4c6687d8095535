package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"fencepost/harness/env/kept"
)

// TestSchedulersInput: what cannot be is bad input, and said before anything is begun.
func TestSchedulersInput(t *testing.T) {
	t.Setenv("FENCEPOST_CACHE", t.TempDir())
	t.Setenv(kept.EnvContactPoints, "") // as outside
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"schedulers --count=0", exitUsage, "--count=0: want 1 to 16"},
		{"schedulers --count=17", exitUsage, "--count=17"},
		{"schedulers --port=0", exitUsage, "--port=0: want 1 to"},
		{"schedulers --port=65000", exitUsage, "--port=65000"},
		{"schedulers --inside", exitUsage, "run fencepost schedulers"},
		{"schedulers --count=1 --port=" + taken, exitNotDone, "address already in use; --port takes others"},
		{"up --schedulers=-1", exitUsage, "--schedulers=-1: want 0 to 16"},
		{"up --schedulers=3 --port=0", exitUsage, "--port=0"},
	} {
		root := newRootCmd()
		root.SetArgs(strings.Fields(c.args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		var said strings.Builder
		if code := exitCode(root.ExecuteContext(t.Context()), &said); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, code, c.code, said.String())
		}
	}
	o := upOptions{nodes: nodeChoice{paxos: "v2"}, heapMiB: 512, cluster: "local", schedulers: schedulersOptions{count: 3, port: 9000}}
	if args := strings.Join(o.args(), " "); !strings.HasSuffix(args, " --schedulers=3 --port=9000") {
		t.Error(args)
	}
	if got := o.schedulers.urls(); got != "http://127.0.0.1:9000/  http://127.0.0.1:9001/  http://127.0.0.1:9002/" {
		t.Error(got)
	}
}
