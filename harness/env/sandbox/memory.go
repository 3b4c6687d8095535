package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// MountMemory mounts a file system in memory (tmpfs) of so many bytes on dir. It
// goes with the sandbox, or with Unmount. The error is an [UnavailableError].
func MountMemory(dir string, bytes int64) error {
	if !Inside() {
		return ErrOutside
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf("size=%d,mode=0700", bytes))
	if err != nil {
		return unavailable("mount a tmpfs on "+dir, err)
	}
	return nil
}

// Unmount ends what MountMemory mounted. A dir on which nothing is mounted, or
// that does not exist, is no error.
func Unmount(dir string) error {
	if !Inside() {
		return ErrOutside
	}
	// Detached: the directory is free at once, even if somebody still has a file open.
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("sandbox: unmount %s: %w", dir, err)
	}
	return nil
}
