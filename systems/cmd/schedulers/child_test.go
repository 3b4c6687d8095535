package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fencepost/systems/drive"
)

// bash is a child that is a script.
func bash(t *testing.T, script string, slots int, run drive.Run) (*child, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return openChild(ctx, "fake", exec.Command("bash", "-c", script), slots, run)
}

const ready = `echo '{"op":"ready"}'` + "\n"

func TestChildRuns(t *testing.T) {
	t.Parallel()
	var seen []drive.Job
	began := make(chan struct{})
	run := func(ctx context.Context, j drive.Job) error {
		seen = append(seen, j)
		if len(seen) == 1 {
			return errors.New("once more")
		}
		close(began)
		<-ctx.Done() // it is told that it lost the job
		return ctx.Err()
	}
	// Each line that it is told is as it must be, or it ends with 9.
	c, err := bash(t, `[ "$0" = 3 ] || exit 8
want() { read -r line && [ "$line" = "$1" ] || { echo "got $line" >&2; exit 9; }; }
`+ready+`
want '{"op":"put","id":1,"lock":"lock-1","n":1}'
echo '{"op":"answer","id":1}'
want '{"op":"put","id":2,"lock":"lock-1","n":2}'
echo '{"op":"answer","id":2,"error":"no"}'
echo '{"op":"run","id":1,"lock":"lock-1","n":1,"token":0}'
want '{"op":"done","id":1,"n":0,"error":"once more"}'
echo '{"op":"run","id":2,"lock":"lock-1","n":1,"token":7}'
want '{"op":"stop","n":0}'
echo '{"op":"cancel","id":2}'
want '{"op":"done","id":2,"n":0,"error":"context canceled"}'
echo '{"op":"cancel","id":2}'`, 3, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), drive.Job{Lock: "lock-1", N: 1}); err != nil {
		t.Error(err)
	}
	if err := c.Put(t.Context(), drive.Job{Lock: "lock-1", N: 2}); err == nil || err.Error() != "no" {
		t.Errorf("a put that the library refuses: %v", err)
	}
	<-began
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(seen) != 2 || seen[0] != (drive.Job{Lock: "lock-1", N: 1}) || seen[1] != (drive.Job{Lock: "lock-1", N: 1, Token: 7}) {
		t.Errorf("%+v", seen)
	}
}

// TestChildDoesNotAnswer: a put ends with its context, and an answer after that is nobody's.
func TestChildDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c, err := bash(t, ready+`read -r; read -r; echo '{"op":"answer","id":1}'; echo '{"op":"answer","id":2}'; read -r`, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Put(ctx, drive.Job{Lock: "l", N: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := c.Put(t.Context(), drive.Job{Lock: "l", N: 1}); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestChildDoesNotBegin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, want string }{
		{"exit 3", "fake ended by itself: exit status 3"},
		{"exit 0", "fake ended by itself: exit status 0"},
		{"kill -9 $$", "fake ended by itself: signal: killed"},
		{"echo hello; sleep 9", `said "hello"`},
		{`echo '{"op":"jump"}'; sleep 9`, "there is no such op"},
		{`echo '{"op":"run","id":1,"lock":"l","n":1}'; sleep 9`, "no such run can begin"}, // it may only put
	} {
		if _, err := bash(t, c.script, 0, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.script, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := openChild(ctx, "fake", exec.Command("sleep", "60"), 0, nil); err == nil || !strings.Contains(err.Error(), "fake is not ready") {
		t.Error(err)
	}
}

func TestChildDoesNotStop(t *testing.T) {
	t.Parallel()
	c, err := bash(t, ready+`read -r; exit 5`, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err == nil || err.Error() != "fake did not stop in order: exit status 5" {
		t.Error(err)
	}
	if c, err = bash(t, ready+`read -r; read -r`, 0, nil); err != nil {
		t.Fatal(err)
	}
	defer c.CloseInput()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); err == nil || !strings.Contains(err.Error(), "fake does not stop") {
		t.Error(err)
	}
}

// TestChildDies: a child that ends while it works takes this process with it.
func TestChildDies(t *testing.T) {
	t.Parallel()
	const parent = "FENCEPOST_TEST_PARENT"
	if os.Getenv(parent) != "" {
		if _, err := bash(t, ready+"sleep 0.2; kill -9 $$", 1, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildDies$")
	cmd.Env = append(os.Environ(), parent+"=1")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "fake ended by itself: signal: killed") || time.Since(began) > 30*time.Second {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLibraries: the script puts libraries where they are looked for, and what is missing is named with
// its remedy.
func TestLibraries(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("FENCEPOST_CACHE", cache)
	for name, l := range libraries {
		dir, err := l.dir()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("../../../scripts/fetch-library", "--check", name)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), name+" is not in "+dir+"\n") {
			t.Errorf("it is looked for in %s, and the script says %s", dir, out)
		}
		fake := t.TempDir()
		t.Setenv("PATH", fake+":/bin:/usr/bin")
		for _, c := range []struct{ version, want string }{
			{"v3.9.0", "is the oldest that will do: run scripts/fetch-library " + name},
			{"none", "--version fails or names none: run scripts/fetch-library " + name},
			{fmt.Sprintf("v%d.99.0", l.oldest[0]-1), "is the oldest that will do: "},
			{fmt.Sprintf("v%d.%d.0", l.oldest[0], l.oldest[1]), "its library is not in " + dir + ": run scripts/fetch-library " + name},
		} {
			if err := os.WriteFile(fake+"/"+l.program, []byte("#!/bin/sh\necho "+c.version+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := l.look(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v, want %q", l.program, c.version, err, c.want)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if found, err := l.look(); err != nil || !strings.HasPrefix(found, dir+" with ") {
			t.Errorf("%q, %v", found, err)
		}
		t.Setenv("PATH", t.TempDir())
		if _, err := l.look(); err == nil || err.Error() != l.program+" is not in PATH: run scripts/fetch-library "+name {
			t.Error(err)
		}
		t.Setenv("PATH", "/bin:/usr/bin")
	}
}
