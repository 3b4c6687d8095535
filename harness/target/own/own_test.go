package own

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

// TestMain doubles as a program whose task its argument describes.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	switch os.Args[1] {
	case "offers":
		fmt.Fprintln(os.Stderr, "made the table")
		fmt.Printf(`{"points":["holding"]}`)
	case "says nothing":
	case "chats":
		fmt.Println("connecting …")
	case "fails":
		fmt.Fprintln(os.Stderr, "no keyspace "+os.Getenv("FENCEPOST_KEYSPACE"))
		os.Exit(3)
	case "hangs":
		select {}
	}
	os.Exit(0)
}

func program(t *testing.T, how string) Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Program{Words: []string{exe, how}, Dir: t.TempDir()}
}

func TestOffer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                              "",
		" \n":                           "",
		`{}`:                            "",
		`{"points":["holding"]}`:        "",
		`{"promises":["P1","P13"]}`:     "",
		`{"points":["holding"]} {}`:     "more than one value",
		`hello`:                         "messages belong to standard error",
		`{"point":["holding"]}`:         `unknown field "point"`,
		`{"points":["half-way"]}`:       `the point "half-way"; the points of locks are acquire-sent, effect-sent, holding, release-sent, renew-sent`,
		`{"points":["claim-sent"]}`:     `the point "claim-sent"`,
		`{"points":["renew-answered"]}`: `the point "renew-answered"; the points of locks are acquire-sent, effect-sent, holding`,
		`{"promises":["P5"]}`:           `it promises "P5"; what a program can promise is P1, P2`,
		`{"promises":[]}`:               "it promises nothing",
		`{"promises":["P1","exactly"]}`: `it promises "exactly"`,
	} {
		o, err := parseOffer([]byte(text))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case want == "" && len(o.Promises) == 0:
			t.Errorf("%q: no promises", text)
		}
	}
	if o, _ := parseOffer(nil); !slices.Equal(o.Promises, DefaultPromises) || len(o.Points) != 0 {
		t.Errorf("by default %+v", o)
	}
}

func TestTasks(t *testing.T) {
	t.Parallel()
	vars := []string{"FENCEPOST_TASK=setup", "FENCEPOST_KEYSPACE=fp_1"}
	for how, want := range map[string]string{
		"offers":       "",
		"says nothing": "",
		"chats":        `it is "connecting …\n"`,
		"fails":        "ended with exit status 3, not with exit status 0\n  from its log ",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			o, err := program(t, how).RunSetup(t.Context(), vars, logs)
			if want == "" {
				if err != nil || how == "offers" && !slices.Equal(o.Points, []control.Point{control.Holding}) {
					t.Errorf("%+v, %v", o, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %q", err, want)
			}
			if how == "fails" && !strings.Contains(err.Error(), "no keyspace fp_1") {
				t.Errorf("its words are missing: %v", err)
			}
			life, err := program(t, "fails").RunSeal(t.Context(), vars, logs)
			if err == nil || !strings.Contains(err.Error(), "task seal") || life.Name != "seal" || life.Unplanned() == "" {
				t.Errorf("seal: %v, %+v", err, life)
			}
		})
	}
}

func TestInterruptedTaskIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := program(t, "hangs").RunSetup(ctx, []string{"FENCEPOST_TASK=setup"}, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"./mine --fast":                 "",
		filepath.Join(dir, "mine"):      "",
		"sh":                            "",
		"./yours":                       "exec:./yours: the program cannot be started",
		"./text x":                      "permission denied",
		"no-such-program-of-fencepost":  "executable file not found",
		"no-such-program-of-fencepost ": "executable file not found",
	} {
		p, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.Dir = dir
		if err := p.Look(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := Parse(" "); err == nil {
		t.Error("no words are a program")
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	c := workload.Config{Run: "r", Worker: "w1", Life: "w1.2", History: "/h", Seed: 7, Clients: 3, Locks: []string{"a", "b"}, TTL: 6 * time.Second,
		Hold: 20 * time.Millisecond, Think: 10 * time.Millisecond, AcquireTimeout: 30 * time.Second, DriftBound: 0.01, MarginBase: 100 * time.Millisecond, Keyspace: "fp"}
	at := Places{Nodes: []string{"127.0.0.1:1", "127.0.0.1:2"}, Sink: "http://s", Control: "http://c/w1.2"}
	want := map[Task]string{
		Setup: "TASK=setup RUN=r SEED=7 KEYSPACE=fp STORE=cassandra NODES=127.0.0.1:1,127.0.0.1:2 LOCKS=a,b TTL_MS=6000 MARGIN_MS=220",
		Work: "TASK=work RUN=r SEED=7 KEYSPACE=fp STORE=cassandra NODES=127.0.0.1:1,127.0.0.1:2 LOCKS=a,b TTL_MS=6000 MARGIN_MS=220 LIFE=w1.2 HISTORY=/h " +
			"WORKER=w1 CLIENTS=3 PICK=any HOLD_MS=20 THINK_MS=10 ACQUIRE_TIMEOUT_MS=30000 SINK=http://s CONTROL=http://c/w1.2",
		Seal: "TASK=seal RUN=r SEED=7 KEYSPACE=fp STORE=cassandra NODES=127.0.0.1:1,127.0.0.1:2 LOCKS=a,b TTL_MS=6000 MARGIN_MS=220 LIFE=w1.2 HISTORY=/h",
	}
	for task, w := range want {
		if got := strings.ReplaceAll(strings.Join(Variables(task, c, at), " "), Prefix, ""); got != w {
			t.Errorf("%s:\n%s, want\n%s", task, got, w)
		}
	}
	c.Own, c.Store, at.Secret = true, "etcd", "/pass"
	if all := Variables(Setup, c, at); !slices.Contains(all, Prefix+"STORE=etcd") || !slices.Contains(all, Prefix+"SECRET=/pass") {
		t.Errorf("of another store: %q", all)
	}
	if !slices.Contains(Variables(Work, c, at), Prefix+"PICK=own") {
		t.Error("a lock for each client is not told")
	}
	// Every variable is in the page for authors, and none that there is not.
	page, err := os.ReadFile("../../../docs/own-system.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variables(Work, c, at) {
		name, _, _ := strings.Cut(v, "=")
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/own-system.md does not have %s", name)
		}
	}
	for _, word := range strings.FieldsFunc(string(page), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
		if strings.HasPrefix(word, Prefix) && !slices.ContainsFunc(Variables(Work, c, at), func(v string) bool { return strings.HasPrefix(v, word+"=") }) {
			t.Errorf("docs/own-system.md has %s, which no program is told", word)
		}
	}
}

// life is an attached agent with the harness's end of its channel.
func life(t *testing.T) (desk *Control, a *Agent, conn *control.Conn, file string) {
	t.Helper()
	desk, err := NewControl("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "w1.1.jsonl")
	rec, err := history.NewRecorder(file, history.Header{Run: "r", Proc: "w1.1"})
	if err != nil {
		t.Fatal(err)
	}
	rec.Close()
	conn, theirs, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = desk.Attach("w1.1", file, []control.Point{control.Holding}, theirs, func(err error) { t.Error(err); conn.Close() }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		a.Close()
		if err := desk.Close(); err != nil {
			t.Error(err)
		}
	})
	return desk, a, conn, file
}

func TestControl(t *testing.T) {
	t.Parallel()
	desk, _, conn, _ := life(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(url, body string) (int, string) {
		resp, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		var v map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
			t.Error(err)
		}
		return resp.StatusCode, fmt.Sprint(v)
	}
	url := desk.URL("w1.1")
	for range 2 { // the second time says nothing new
		if status, _ := ask(url+"/ready", ""); status != 200 {
			t.Errorf("ready: %d", status)
		}
	}
	if m := receive(t, conn, control.CmdReady); m.Cmd != control.CmdReady {
		t.Fatalf("%+v", m)
	}
	at := `{"point":"holding","proc":"w1.1/c2","key":"l"}`
	if status, a := ask(url+"/point", at); status != 200 || a != "map[hold_ms:0]" {
		t.Errorf("not armed: %d %s", status, a)
	}
	if err := conn.Send(control.Message{Cmd: control.CmdArm, ID: 4, Point: control.Holding}); err != nil {
		t.Fatal(err)
	}
	held := make(chan string)
	go func() {
		for { // until it is armed
			if _, a := ask(url+"/point", at); a != "map[hold_ms:0]" {
				held <- a
				return
			}
		}
	}()
	if m := receive(t, conn, control.CmdHit); m.ID != 4 || m.Proc != "w1.1/c2" || m.Key != "l" || m.Point != control.Holding {
		t.Errorf("hit %+v", m)
	}
	select {
	case a := <-held:
		t.Errorf("it went on by itself: %s", a)
	default:
	}
	if err := conn.Send(control.Message{Cmd: control.CmdGo, ID: 4, Hold: 9 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if a := <-held; a != "map[hold_ms:9000]" {
		t.Errorf("go: %s", a)
	}
	for body, want := range map[string]string{
		`holding`: "not a request such as",
		`{"point":"renew-sent","proc":"w1.1/c2"}`: `point "renew-sent" was not among the points that setup offered`,
		`{"point":"holding","proc":"w2.1/c2"}`:    `proc "w2.1/c2" is no client of w1.1`,
		`{"point":"holding","proc":"w1.1"}`:       `no client of w1.1`,
	} {
		if status, a := ask(url+"/point", body); status != 400 || !strings.Contains(a, want) {
			t.Errorf("%s: %d %s, want %q", body, status, a, want)
		}
	}
	if status, a := ask(desk.URL("w9.1")+"/point", at); status != 404 || !strings.Contains(a, `no life "w9.1"`) {
		t.Errorf("%d %s", status, a)
	}
	if status, a := ask(url+"/points", at); status != 404 || !strings.Contains(a, "there are POST") {
		t.Errorf("%d %s", status, a)
	}
}

// receive waits for a message of the kind; totals come in between.
func receive(t *testing.T, conn *control.Conn, cmd string) control.Message {
	t.Helper()
	for {
		m, err := conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m.Cmd == cmd {
			return m
		}
	}
}

// The totals come from the file as it is written; a line that was begun and never ended,
// as its writer died, is no error.
func TestFollow(t *testing.T) {
	t.Parallel()
	_, _, conn, file := life(t)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	version := `{"fence":1,"beat":0,"attempt":"x","holder":"","ttl_ms":1}`
	fmt.Fprintf(f, `{"ts":1,"proc":"w1.1/c1","id":1,"type":"invoke","op":"release","key":"l","from":%s,"to":%s}`+"\n", version, version)
	fmt.Fprintln(f, `{"ts":2,"proc":"w1.1/c1","id":1,"type":"ok","op":"release","key":"l"}`)
	fmt.Fprintln(f, `{"ts":3,"proc":"w1.1/c1","id":2,"type":"invoke","op":"raise","key":"r","issuer":"l","token":1}`)
	fmt.Fprintln(f, `{"ts":4,"proc":"w1.1/c1","id":2,"type":"fail","op":"raise","key":"r","result":"stale","seen":2}`)
	fmt.Fprintln(f, `{"ts":5,"proc":"w1.1/c1","type":"note","op":"lease-lost","key":"l","token":1}`)
	fmt.Fprint(f, `{"ts":6,"proc":"w1`)
	want := control.Stats{Cycles: 1, Stale: 1, LeasesLost: 1, Operations: 2}
	for {
		if m := receive(t, conn, control.CmdStats); *m.Stats == want {
			return
		}
	}
}
