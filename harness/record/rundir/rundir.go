// Package rundir is the layout of a run's directory and of run.json. The
// directory holds all that is needed to check and report a run again:
//
//	plan.yaml       the scenario with every drawn value
//	run.json        Info: versions, seed, command line, machine
//	history/*.jsonl the record
//	progress.jsonl  how the run went on
//	logs/           the output of every process
//	verdict.json    the checker's Result
//	report.html     and plots/, *.csv, report.json beside it
package rundir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the files in a run's directory.
const (
	PlanFile    = "plan.yaml"
	InfoFile    = "run.json"
	HistoryDir  = "history"
	LogDir      = "logs"
	VerdictFile = "verdict.json"
	ReportFile  = "report.html"
	// ProgressFile is how the run went on (package progress).
	ProgressFile = "progress.jsonl"
)

// Info is run.json.
type Info struct {
	Run        string `json:"run"` // the directory's name
	Scenario   string `json:"scenario"`
	About      string `json:"about"` // the scenario in a sentence
	Seed       uint64 `json:"seed"`
	System     string `json:"system"`         // core, broken/NAME
	Sink       string `json:"sink,omitempty"` // what takes the effects: cassandra …; "" in older runs, and of drills
	Cluster    string `json:"cluster"`        // local, up
	Contention string `json:"contention"`     // low, medium, high
	// Workload names the set of workload parameters; plain: those in the scenario's file.
	// "" in older runs, and of drills.
	Workload string        `json:"workload,omitempty"`
	Workers  int           `json:"workers"`
	Clients  int           `json:"clients"` // a worker
	Locks    int           `json:"locks"`
	TTL      time.Duration `json:"ttl_ns"`
	Hold     time.Duration `json:"hold_ns"`
	// Shards and JobRate (enqueued a second, by all workers) are of the job
	// workload, which has no clients, locks and hold.
	Shards  int     `json:"shards,omitempty"`
	JobRate float64 `json:"job_rate,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Command repeats the run.
	Command string `json:"command"`
	// ReplayOf is the run whose plan was carried out again ("" for a new plan).
	ReplayOf string `json:"replay_of,omitempty"`
	// RepeatOf is the run after which this one was made at once, as the machine had been
	// too busy for it ("" for all others).
	RepeatOf string `json:"repeat_of,omitempty"`
	// Interrupted says why the run ended early ("" if it did not).
	Interrupted string            `json:"interrupted,omitempty"`
	Versions    map[string]string `json:"versions"` // fencepost (git commit), go, cassandra or store and its name, paxos_variant …
	Machine     map[string]string `json:"machine"`  // cores, memory, kernel, load
	// Notes are what weakens the verdict and is no fault of the run's: of a cluster
	// that is not the harness's own.
	Notes []string `json:"notes,omitempty"`
}

// SystemText is the system with the sink, if that is another than it has by itself.
func (i Info) SystemText() string {
	if i.Sink == "" || i.Sink == "cassandra" || strings.HasPrefix(i.System, "exec:") {
		return i.System
	}
	return i.System + ", sink " + i.Sink
}

// StoreText is the store of the locks with its release, such as "cassandra 5.0.6"; "" if the
// run does not say.
func (i Info) StoreText() string {
	store := cmp.Or(i.Versions["store"], "cassandra")
	if release := i.Versions[store]; release != "" {
		return store + " " + release
	}
	return ""
}

// WriteJSON writes v as indented JSON, atomically.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// ReadJSON reads a file into v. Its errors name the file.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ReadInfo reads run.json of a run's directory.
func ReadInfo(dir string) (Info, error) {
	var info Info
	err := ReadJSON(filepath.Join(dir, InfoFile), &info)
	return info, err
}

// Machine describes this machine for run.json. What cannot be read is left out.
func Machine() map[string]string {
	m := map[string]string{"cores": fmt.Sprint(runtime.NumCPU()), "os": runtime.GOOS + "/" + runtime.GOARCH}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		m["memory"] = fmt.Sprintf("%.1f GiB", float64(si.Totalram)*float64(si.Unit)/(1<<30))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m["load"] = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return m
}
