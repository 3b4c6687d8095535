package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/internal/exetest"
	"fencepost/scripts"
)

func TestCacheDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, tc := range []struct{ name, own, xdg, want string }{
		{"own", "/own", "/xdg", "/own"},
		{"XDG", "", "/xdg", "/xdg/fencepost"},
		{"home", "", "", home + "/.cache/fencepost"},
		{"relative", "own", "", ""},
		{"relative XDG", "", "xdg", ""},
	} {
		t.Setenv(CacheEnv, tc.own)
		t.Setenv("XDG_CACHE_HOME", tc.xdg)
		got, err := CacheDir()
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestScratchSparesTheLiving(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	alive, err := NewScratch(cache)
	must(t, err)
	dead, err := NewScratch(cache)
	must(t, err)
	for _, s := range []*Scratch{alive, dead} {
		must(t, os.WriteFile(filepath.Join(s.Dir, "data"), []byte("x"), 0o600))
	}
	// As the kernel does when the owner dies. A child of another test, which has all files until it
	// executes its program, would have the lock.
	syscall.ForkLock.RLock()
	err = dead.lock.Close()
	syscall.ForkLock.RUnlock()
	must(t, err)
	third, err := NewScratch(cache)
	must(t, err)
	for dir, want := range map[string]bool{alive.Dir: true, dead.Dir: false, third.Dir: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", dir, err == nil, want)
		}
	}
	for _, s := range []*Scratch{alive, third} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(cache, "scratch"))
	must(t, err)
	if len(left) != 1 || left[0].Name() != "guard" {
		t.Errorf("left behind: %v", left)
	}
}

func TestTemplatesLock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	unfinished := filepath.Join(root, "abc"+making)
	must(t, os.Mkdir(unfinished, 0o700))
	first, err := lockTemplates(context.Background(), root, func(string) { t.Error("waits although nobody holds it") })
	must(t, err)
	if _, err := os.Stat(unfinished); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead maker has left is still there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = lockTemplates(ctx, root, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("while it is held: %v", err)
	}
	must(t, first.Close())
	second, err := lockTemplates(context.Background(), root, func(string) {})
	must(t, err)
	second.Close()
}

func TestKeepNewest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i, name := range []string{"oldest", "old", "new"} {
		dir := filepath.Join(root, name)
		must(t, os.Mkdir(dir, 0o700))
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		must(t, os.Chtimes(dir, at, at))
	}
	must(t, os.WriteFile(filepath.Join(root, "guard"), nil, 0o600))
	must(t, keepNewest(root, 2, func(string) bool { return false }))
	entries, err := os.ReadDir(root)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"guard", "new", "old"}) {
		t.Errorf("left: %v", names)
	}
}

// TestLogsOfTheLiving: the logs of a cluster that is kept up stay, however many others have
// been started since, and go when it is gone.
func TestLogsOfTheLiving(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	c := LocalConfig{CacheDir: cache}
	kept, err := NewScratch(cache)
	must(t, err)
	id := filepath.Base(kept.Dir)
	logs, err := c.MakeLogDir(id)
	must(t, err)
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(logs, long, long))
	others := func(from int) {
		for i := range logDirsKept + 1 {
			_, err := c.MakeLogDir(fmt.Sprintf("other-%d", from+i))
			must(t, err)
		}
	}
	others(0)
	if _, err := os.Stat(logs); err != nil {
		t.Errorf("while it is up: %v", err)
	}
	must(t, kept.Close())
	others(100)
	if _, err := os.Stat(logs); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("when it is gone: %v", err)
	}
}

func TestCopyTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	must(t, os.MkdirAll(filepath.Join(from, "a", "b"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "a", "b", "f"), []byte("text"), 0o444))
	must(t, CopyTree(from, to))
	b, err := os.ReadFile(filepath.Join(to, "a", "b", "f"))
	if err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if err := CopyTree(from, to); err == nil {
		t.Error("a second copy over the first is not refused")
	}
	must(t, os.Symlink("f", filepath.Join(from, "link")))
	if err := CopyTree(from, filepath.Join(t.TempDir(), "to")); err == nil {
		t.Error("a symbolic link is copied silently")
	}
}

func TestCheckJarsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	_, err := CheckJars(cache, DefaultRelease)
	var je *JarsError
	if !errors.As(err, &je) || len(je.Missing) != strings.Count(scripts.CassandraSums(DefaultRelease), "\n") {
		t.Fatalf("an empty cache: %v", err)
	}
	if !strings.Contains(err.Error(), "run scripts/fetch-cassandra") {
		t.Errorf("%q does not say what to run", err)
	}
	must(t, os.MkdirAll(LibDir(cache, DefaultRelease), 0o700))
	first := je.Missing[0]
	for name, text := range map[string]string{first: "not a jar", "evil.jar": "x"} {
		must(t, os.WriteFile(filepath.Join(LibDir(cache, DefaultRelease), name), []byte(text), 0o600))
	}
	_, err = CheckJars(cache, DefaultRelease)
	if !errors.As(err, &je) || !slices.Equal(je.Damaged, []string{first}) || !slices.Equal(je.Extra, []string{"evil.jar"}) {
		t.Errorf("a damaged and an unknown jar: %v", err)
	}
}

// fakeJava writes a program that answers as `java -version` does.
func fakeJava(t *testing.T, home, version string, exit string) {
	t.Helper()
	text := "#!/bin/sh\necho 'openjdk version \"" + version + "\" 2025-04-15' >&2\necho 'OpenJDK 64-Bit Server VM (build " + version + ")' >&2\nexit " + exit + "\n"
	exetest.Write(t, filepath.Join(home, "bin", "java"), text)
}

func TestAskJava(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		version, exit string
		good          bool
		says          string
	}{
		{"17.0.15", "0", true, ""},
		{"17", "0", true, ""},
		{"11.0.2", "0", false, `version "11.0.2"`},
		{"21.0.1", "0", false, `version "21.0.1"`},
		{"170.1", "0", false, `version "170.1"`},
		{"17.0.15", "1", false, "does not run"},
	} {
		home := t.TempDir()
		fakeJava(t, home, tc.version, tc.exit)
		java, err := askJava(context.Background(), filepath.Join(home, "bin", "java"))
		if (err == nil) != tc.good || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc, err)
		}
		if err == nil && (java.Version != tc.version || !strings.Contains(java.Runtime, "build "+tc.version)) {
			t.Errorf("%+v", java)
		}
	}
	if _, err := askJava(context.Background(), filepath.Join(t.TempDir(), "java")); err == nil {
		t.Error("a missing java is found")
	}
}

func TestFindJavaPrefersJavaHome(t *testing.T) {
	home := t.TempDir()
	fakeJava(t, home, "17.9.9", "0")
	t.Setenv("JAVA_HOME", home)
	java, err := FindJava(context.Background())
	if err != nil || java.Version != "17.9.9" {
		t.Errorf("%+v, %v", java, err)
	}
}

func TestJavaErrorSaysWhatWasTried(t *testing.T) {
	t.Parallel()
	err := &JavaError{Tried: []string{`/usr/bin/java is version "11.0.2"`}}
	for _, want := range []string{"no Java 17", "scripts/ensure-tools", "JAVA_HOME", `/usr/bin/java is version "11.0.2"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
