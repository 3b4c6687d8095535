package drive

import (
	"encoding/json"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// event is a line of the history, in its own words.
type event map[string]any

// version is an entry of a lock as the history has it.
type version struct {
	Absent  bool   `json:"absent,omitempty"`
	Fence   int64  `json:"fence"`
	Beat    int64  `json:"beat"`
	Attempt string `json:"attempt"`
	Holder  string `json:"holder"`
	TTL     int64  `json:"ttl_ms"`
}

func absent() version { return version{Absent: true} }

// record appends events to this life's file, one write each: what is written survives a SIGKILL.
type record struct {
	life string
	file *os.File
	mu   sync.Mutex
	ids  int64
}

func openHistory() (*record, error) {
	f, err := os.OpenFile(variable("HISTORY"), os.O_WRONLY|os.O_APPEND, 0) // its header is there
	return &record{life: variable("LIFE"), file: f}, err
}

// invoke is called before the first byte is sent. It returns what end wants.
func (r *record) invoke(proc, op, key string, more event) (event, error) {
	r.mu.Lock() // ids are 1, 2, 3 … without gaps, in the file too
	defer r.mu.Unlock()
	r.ids++
	head := event{"proc": proc, "id": r.ids, "op": op, "key": key}
	return head, r.write(head, event{"type": "invoke"}, more)
}

// end says how an operation ended: ok, fail or unknown.
func (r *record) end(head event, how string, more event) error {
	return r.write(head, event{"type": how}, more)
}

func (r *record) note(e event) error { return r.write(e, event{"type": "note"}) }

func (r *record) write(parts ...event) error {
	all := event{"ts": now()}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	line, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err) // Linux has both
	}
	return time.Duration(t.Nano())
}

// now is the clock of the history, the same for all processes of a machine.
func now() int64 { return clock(unix.CLOCK_MONOTONIC).Nanoseconds() }

// stamp stands for the token of a lock that has none.
func stamp() int64 { return clock(unix.CLOCK_MONOTONIC).Microseconds() }

// awake is the clock of leases: it goes on while the machine sleeps.
func awake() time.Duration { return clock(unix.CLOCK_BOOTTIME) }
