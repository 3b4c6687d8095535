package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStandby: a standby is told whom to follow, whatever its directory is called.
func TestStandby(t *testing.T) {
	t.Parallel()
	args := Files{Program: Program{Dir: "/bin"}, Dir: `/a 'dir'\`}.Standby("10.77.0.12", "5432", "10.77.0.11").Args
	if want := `primary_conninfo=host=10.77.0.11 port=5432 user=harness passfile='/a \'dir\'\\/adminpass' sslmode=disable`; !slices.Contains(args, want) {
		t.Errorf("%q lacks %q", args, want)
	}
}

// TestFollow: one that has followed until now goes on; one that was a primary asks the new one for a copy, and keeps
// what it has if there is none.
func TestFollow(t *testing.T) {
	t.Parallel()
	f := Files{Dir: t.TempDir()}
	must(t, os.MkdirAll(f.data(""), 0o700))
	must(t, os.WriteFile(f.data("kept"), nil, 0o600))
	if err := f.Follow(t.Context(), "127.0.0.1:1", t.TempDir()); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("without a primary: %v", err)
	}
	if _, err := os.Stat(f.data("kept")); err != nil {
		t.Error(err)
	}
	must(t, os.WriteFile(f.data(standbySignal), nil, 0o600))
	must(t, f.Follow(t.Context(), "127.0.0.1:1", t.TempDir()))
}

// TestCopyRunning: a base copy has all but the log, which comes later, and what says that a server runs. A file that
// is gone by then is left out.
func TestCopyRunning(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"PG_VERSION", "base/1/1259", "postmaster.pid", "postmaster.opts", "pg_wal/000000010000000000000001", "pg_wal/archive_status/a"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o600))
	}
	must(t, os.Symlink("nowhere", filepath.Join(from, "gone")))
	must(t, copyRunning(from, to, notInBackup))
	for name, want := range map[string]bool{"PG_VERSION": true, "base/1/1259": true, "pg_wal": true, "postmaster.pid": false, "postmaster.opts": false,
		"pg_wal/000000010000000000000001": false, "gone": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s: %v, want there: %t", name, err, want)
		}
	}
	if err := copyRunning(filepath.Join(from, "none"), to, notInBackup); err == nil {
		t.Error("nothing is copied")
	}
}
