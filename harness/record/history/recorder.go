package history

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC in ns: one clock for all processes of a host, so
// events written by several processes can be merged.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime(CLOCK_MONOTONIC): %v", err)) // cannot fail on Linux
	}
	return ts.Nano()
}

// Recorder appends events to one file, one write(2) with O_APPEND an event, so
// that what was recorded before a SIGKILL is in the page cache and survives it.
// Safe for concurrent use. The first write error sticks and is returned by Close and Err;
// a process that has one must stop, see Failed.
type Recorder struct {
	file   *os.File
	nextID atomic.Int64
	mu     sync.Mutex
	err    error
	failed chan struct{}
}

// NewRecorder creates path and writes the header. Format, version, pid, host,
// boot id and times are filled in. It fails if the file exists: a process life
// has one file and is never continued.
func NewRecorder(path string, h Header) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	h.Format, h.Version, h.PID = Format, FormatVersion, os.Getpid()
	h.Host, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.BootID = strings.TrimSpace(string(b))
	}
	h.WallTime, h.TS = time.Now().UTC().Format(time.RFC3339Nano), Now()
	r := &Recorder{file: f, failed: make(chan struct{})}
	if err := r.write(h); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// Now is the function Now: the time by which this recorder stamps.
func (r *Recorder) Now() int64 { return Now() }

// NewID returns an operation id, unique within this recorder's process life.
func (r *Recorder) NewID() int64 { return r.nextID.Add(1) }

// Record appends e, stamping TS if it is zero, and returns the TS. For an
// invoke it returns only after the event is in the kernel: send after it.
func (r *Recorder) Record(e Event) int64 {
	if e.TS == 0 {
		e.TS = Now()
	}
	// An encoding error is impossible (plain data); a write error sticks.
	_ = r.write(e)
	return e.TS
}

func (r *Recorder) write(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		b = append(b, '\n')
		_, err = r.file.Write(b) // O_APPEND: atomic between writers of this file
	}
	if err != nil {
		err = fmt.Errorf("history %s: %w", r.file.Name(), err)
		r.mu.Lock()
		if r.err == nil {
			r.err = err
			close(r.failed)
		}
		r.mu.Unlock()
	}
	return err
}

// Failed is closed with the first write error. A process that cannot record must stop at
// once: what it does from then on is invisible to the checker.
func (r *Recorder) Failed() <-chan struct{} { return r.failed }

// Err returns the first write error.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close syncs and closes the file.
func (r *Recorder) Close() error {
	err := r.Err()
	if e := r.file.Sync(); err == nil {
		err = e
	}
	if e := r.file.Close(); err == nil {
		err = e
	}
	return err
}
