package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CacheEnv overrides [CacheDir].
const CacheEnv = "FENCEPOST_CACHE"

// CacheDir is where jars, templates and scratch data live: $FENCEPOST_CACHE, or
// fencepost in the user's cache directory. scripts/fetch-cassandra uses the same.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s=%s is not an absolute path", CacheEnv, dir)
		}
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w (set %s)", err, CacheEnv)
	}
	return filepath.Join(dir, "fencepost"), nil
}

// Scratch is a directory for the data of one cluster or one server. A lock
// on a file beside it tells that its owner lives; the kernel drops the lock however
// the owner dies.
type Scratch struct {
	Dir  string
	lock *os.File
}

const (
	lockSuffix  = ".lock"
	scratchName = "scratch"
)

// NewScratch removes what dead owners have left and makes a new directory.
func NewScratch(cacheDir string) (*Scratch, error) {
	root := filepath.Join(cacheDir, scratchName)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: scratch: %w", err)
	}
	// One at a time, so that a directory is never seen without its lock.
	guard, err := LockFile(filepath.Join(root, "guard"), true)
	if err != nil {
		return nil, fmt.Errorf("cluster: scratch: %w", err)
	}
	defer guard.Close()
	if err := sweep(root); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, time.Now().UTC().Format("20060102T150405")+"-"+NewID())
	lock, err := LockFile(dir+lockSuffix, false)
	if err != nil {
		return nil, fmt.Errorf("cluster: scratch: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: scratch: %w", err), os.Remove(lock.Name()), lock.Close())
	}
	return &Scratch{Dir: dir, lock: lock}, nil
}

// NewID tells what is made here from what others make: 8 digits.
func NewID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Close removes the directory, its lock last.
func (s *Scratch) Close() error {
	err := os.RemoveAll(s.Dir)
	return errors.Join(err, os.Remove(s.lock.Name()), s.lock.Close())
}

// sweep removes the directories whose owners are dead.
func sweep(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("cluster: scratch: %w", err)
	}
	for _, e := range entries {
		name, isLock := strings.CutSuffix(e.Name(), lockSuffix)
		if !isLock {
			continue
		}
		path := filepath.Join(root, e.Name())
		lock, err := LockFile(path, false)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue // its owner lives
		}
		if err != nil {
			return fmt.Errorf("cluster: scratch left by a dead owner: %w", err)
		}
		err = errors.Join(os.RemoveAll(filepath.Join(root, name)), os.Remove(path), lock.Close())
		if err != nil {
			return fmt.Errorf("cluster: remove scratch left by a dead owner: %w", err)
		}
	}
	return nil
}

// LockFile opens path and takes its exclusive lock, which lasts until the file
// is closed; unless wait is set, a lock that is held gives EWOULDBLOCK.
func LockFile(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
