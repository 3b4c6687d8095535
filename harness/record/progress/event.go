package progress

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"time"

	"fencepost/harness/record/history"
)

// Kind says what an event tells, and which of its fields are set.
type Kind string

// The kinds. End or Error is the last event of a run; a run whose process was killed
// has neither.
const (
	KindRun       Kind = "run"       // a run begins: Run
	KindStep      Kind = "step"      // what is being done: Text
	KindPhase     Kind = "phase"     // a phase begins: Phase
	KindFault     Kind = "fault"     // a fault is injected, proven or healed: Fault
	KindRates     Kind = "rates"     // every second while clients are at work: Rates
	KindWindow    Kind = "window"    // of a benchmark, after each window of an arm: Window
	KindProblem   Kind = "problem"   // something went wrong that the run goes on after: Text
	KindViolation Kind = "violation" // seen in the history so far, before the verdict: Violation
	KindChecking  Kind = "checking"  // the history is complete and is being checked
	KindVerdict   Kind = "verdict"   // Verdict
	KindResult    Kind = "result"    // of a command of many runs, after each run: Result
	KindEnd       Kind = "end"       // all is done and written
	KindError     Kind = "error"     // the run could not be carried out, checked or reported: Text
)

// Kinds are all of them.
var Kinds = []Kind{
	KindRun, KindStep, KindPhase, KindFault, KindRates, KindWindow, KindProblem, KindViolation, KindChecking, KindVerdict,
	KindResult, KindEnd, KindError,
}

// Event is one line of progress.jsonl. Fields of other kinds are left out.
type Event struct {
	// Seq counts the events of a run from 1, without gaps. 0 is an event of the
	// command itself, outside of any run; it is in no file.
	Seq int64 `json:"seq"`
	// At is the wall clock, RFC 3339 in UTC with milliseconds.
	At string `json:"at"`
	// T is the time since the run's begin in seconds, of a clock that does not jump.
	T    float64 `json:"t"`
	Kind Kind    `json:"kind"`

	Text      string         `json:"text,omitempty"`
	Phase     string         `json:"phase,omitempty"`
	Run       *Run           `json:"run,omitempty"`
	Fault     *history.Fault `json:"fault,omitempty"`
	Rates     *Rates         `json:"rates,omitempty"`
	Window    *Window        `json:"window,omitempty"`
	Violation *Violation     `json:"violation,omitempty"`
	Verdict   *Verdict       `json:"verdict,omitempty"`
	Result    *Result        `json:"result,omitempty"`
}

// Last says that nothing follows.
func (e Event) Last() bool { return e.Kind == KindEnd || e.Kind == KindError }

// Run is what is run.
type Run struct {
	Name       string `json:"name"`               // the directory's
	Scenario   string `json:"scenario,omitempty"` // of a benchmark: none
	Bench      string `json:"bench,omitempty"`    // the suite of a benchmark
	About      string `json:"about,omitempty"`    // the scenario in a sentence
	Seed       uint64 `json:"seed"`
	System     string `json:"system,omitempty"`
	Sink       string `json:"sink,omitempty"`       // what takes the effects; "" for a drill
	Contention string `json:"contention,omitempty"` // "" for a drill
	Workload   string `json:"workload,omitempty"`   // set of workload parameters; "" for a drill
	Paxos      string `json:"paxos,omitempty"`      // variant of the cluster
	Backend    string `json:"backend"`              // of the cluster: local, up
	Dir        string `json:"dir"`                  // absolute
	Command    string `json:"command,omitempty"`    // repeats it
	ReplayOf   string `json:"replay_of,omitempty"`
}

// Rates are the workers' totals since the run's begin, as they report them about
// five times a second; the history alone counts.
type Rates struct {
	Phase string `json:"phase"`
	// Cycles are lock cycles, or jobs completed in a run of jobs.
	Cycles int64 `json:"cycles"`
	// PerSecond is their rate since the event before.
	PerSecond  float64 `json:"cycles_per_s"`
	LeasesLost int64   `json:"leases_lost"`
	Refused    int64   `json:"stale_refused"`
	Unknown    int64   `json:"unknown"`
	Enqueuing  int64   `json:"enqueuing,omitempty"` // enqueues under way now
	// Active are the faults in force, as "name targets".
	Active []string `json:"active,omitempty"`
	// Detail is what the phase is at, such as how many locks are sealed.
	Detail string `json:"detail,omitempty"`
}

// Window is one arm's turn in a round of a benchmark, or a window of the warm-up.
type Window struct {
	Round     int     `json:"round"` // from 1; 0: warm-up, or the rehearsal
	Rounds    int     `json:"rounds"`
	Arm       string  `json:"arm"`
	Threads   int     `json:"threads,omitempty"`
	PerSecond float64 `json:"per_s"` // operations that are ok
	Failed    int64   `json:"failed"`
	Unknown   int64   `json:"unknown"`
	Text      string  `json:"text"` // all of it in a line
}

// Violation is a contradiction in the history so far.
type Violation struct {
	Property string `json:"property"` // "P3"
	Title    string `json:"title"`    // what the property demands
	Text     string `json:"text"`     // one sentence with the numbers
	Key      string `json:"key,omitempty"`
	// File (relative to the run's directory) and Line are of the event that contradicts
	// what was before.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Verdict is the checker's, condensed; verdict.json has all of it.
type Verdict struct {
	Verdict    string     `json:"verdict"`
	Summary    string     `json:"summary,omitempty"`
	Properties []Property `json:"properties,omitempty"` // of a benchmark: none
	// Report is the path of the page.
	Report string `json:"report"`
	// Checked is how long checking took, in seconds.
	Checked float64 `json:"checked_s,omitempty"`
}

// Property is one property's result.
type Property struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Status   string `json:"status"`
	Checked  int    `json:"checked"`
	Findings int    `json:"findings"`
	First    string `json:"first,omitempty"` // the first finding, in a sentence
	Detail   string `json:"detail,omitempty"`
}

// Result is one run of a command of many.
type Result struct {
	N     int `json:"n"`               // of it in the command, from 1
	Total int `json:"total,omitempty"` // 0: nobody knows
	// Name is what was run, in words.
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // the checker's, or ERROR
	// Fired are the properties that are violated, or invalid.
	Fired []string `json:"fired,omitempty"`
	Error string   `json:"error,omitempty"`
	// Took and Left, in seconds; Left is an estimate for the rest, 0: none.
	Took float64 `json:"took_s"`
	Left float64 `json:"left_s,omitempty"`
	Dir  string  `json:"dir,omitempty"`    // "" if it is removed
	File string  `json:"stored,omitempty"` // the result's
}

// Step is an event of what is being done.
func Step(text string) Event { return Event{Kind: KindStep, Text: text} }

// at is a wall clock time as events have it.
func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// seconds has milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// line is an event as a file and --json have it, with its newline.
func line(e Event) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	return b.Bytes(), err
}

// JSON shows events as JSON, one a line. What cannot be written is lost: nobody is
// there to read it.
func JSON(w io.Writer) func(Event) {
	return func(e Event) {
		if e.At == "" {
			e.At = at(time.Now())
		}
		if b, err := line(e); err == nil {
			_, _ = w.Write(b)
		}
	}
}
