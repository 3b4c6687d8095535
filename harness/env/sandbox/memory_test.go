package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tl := start(t, "memory:"+dir)
	if out := tl.rest(t); out != "" {
		t.Error(out)
	}
	if code := tl.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the mount left %v on the host (%v)", names, err)
	}
}

func TestMemoryOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := MountMemory(dir, 1<<20); !errors.Is(err, ErrOutside) {
		t.Errorf("mount: %v", err)
	}
	if err := Unmount(dir); !errors.Is(err, ErrOutside) {
		t.Errorf("unmount: %v", err)
	}
}

// tryMemory runs inside: what is written is in memory, bounded, and gone with the mount.
func tryMemory(dir string) error {
	if err := Unmount(dir); err != nil {
		return fmt.Errorf("unmount of nothing: %w", err)
	}
	if err := Unmount(filepath.Join(dir, "nowhere")); err != nil {
		return fmt.Errorf("unmount of a directory that does not exist: %w", err)
	}
	if err := MountMemory(filepath.Join(dir, "nowhere"), 1<<20); !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("mount on nothing: %w", err)
	}
	if err := MountMemory(dir, 1<<20); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("type %#x, want a tmpfs (%w)", fs.Type, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 1<<19), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(file, make([]byte, 1<<21), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("twice its size: %w, want no space", err)
	}
	if err := Unmount(dir); err != nil {
		return err
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the file is there without the mount: %w", err)
	}
	return nil
}
