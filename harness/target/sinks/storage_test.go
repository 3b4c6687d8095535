package sinks

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"fencepost/core/sink"
	"fencepost/harness/env/sandbox"
)

// TestStorageInMemory: in the sandbox a service's file is in memory, outlives the service's process,
// and nothing of it is left.
func TestStorageInMemory(t *testing.T) {
	const insideEnv = "FENCEPOST_SINKS_TEST_INSIDE"
	if os.Getenv(insideEnv) == "" {
		if sandbox.Inside() {
			t.Skip("needs a sandbox of its own, and this is inside one: run it outside")
		}
		if err := sandbox.Available(); err != nil {
			t.Skipf("this machine cannot run the sandbox: %v", err)
		}
		t.Setenv(insideEnv, "1")
		code, err := sandbox.Run(t.Context(), []string{"-test.run=^TestStorageInMemory$", "-test.v=true", "-test.timeout=1m"})
		if err != nil || code != 0 {
			t.Errorf("exit code %d, %v", code, err)
		}
		return
	}
	if _, err := sandbox.NewNetwork(); err != nil {
		t.Fatal(err)
	}
	s, c := started(t, found(t, HTTP), Options{})
	if _, err := c.Raise(t.Context(), "r", "l", 5); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Join(s.Dir, "sink.db"), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("type %#x, want a tmpfs (%v)", fs.Type, err)
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Raise(t.Context(), "r", "l", 4); err != nil || a.Result != sink.Stale {
		t.Errorf("%+v, %v", a, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %s (%v)", s.Dir, err)
	}
	for mib, full := range map[int]bool{8: false, 20: true} { // of 40
		dir, free, err := makeStorage(40)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sink.db"), make([]byte, mib<<20), 0o600); err != nil {
			t.Error(err)
		}
		if err := free(); (err != nil) != full {
			t.Errorf("%d MiB: %v", mib, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
}
