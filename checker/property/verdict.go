package property

import (
	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/harness/record/verdict"
)

// Verdict is the outcome of a run.
type Verdict = verdict.Verdict

// Verdicts, in the order in which they win.
const (
	Fail    = verdict.Fail
	Invalid = verdict.Invalid
	Unknown = verdict.Unknown
	Pass    = verdict.Pass
)

// What the result says of the past as it is.
type (
	JobCounts     = past.JobCounts
	FaultRecovery = past.FaultRecovery
	Spread        = past.Spread
)

// Status is the outcome of one property.
type Status string

// Statuses.
const (
	StatusPass    Status = "pass"
	StatusFail    Status = "fail"
	StatusUnknown Status = "unknown"
	StatusInvalid Status = "invalid" // P14 and P15; P11 on a machine that was too busy
	StatusNA      Status = "n/a"     // not promised by the system, or not decidable from this history
)

// EventRef points at an event of the history and repeats it.
type EventRef struct {
	File  string        `json:"file"`
	Line  int           `json:"line"`
	Event history.Event `json:"event"`
}

// Violation is one counterexample, with the smallest set of events that shows it.
type Violation struct {
	Key     string     `json:"key,omitempty"` // the lock or resource
	Message string     `json:"message"`       // one sentence with the numbers
	Events  []EventRef `json:"events"`        // in time order; the shortest conflicting window
	From    int64      `json:"from"`          // the window, as event TS
	To      int64      `json:"to"`
}

// Property is the result of checking one property.
type Property struct {
	ID     string `json:"id"`    // "P1"
	Title  string `json:"title"` // what it demands, in one line
	Status Status `json:"status"`
	// Detail says how it was checked, why it is n/a or unknown; one sentence.
	Detail string `json:"detail,omitempty"`
	// Checked is how many things (grants, effects …) were looked at.
	Checked int `json:"checked"`
	// Violations are at most 20; Count is how many there were.
	Violations []Violation `json:"violations,omitempty"`
	Count      int         `json:"count"`
	// Encodings are the Porcupine encodings with their results (P2): open, bounded.
	Encodings map[string]string `json:"encodings,omitempty"`
	// Visualization is Porcupine's own HTML, relative to verdict.json.
	Visualization string  `json:"visualization,omitempty"`
	Millis        float64 `json:"millis"`

	certain bool // it fails though the record has lost events
}

// Counts summarize what the run exercised: what PASS may claim.
type Counts struct {
	Events         int `json:"events"`
	Operations     int `json:"operations"`
	Cycles         int `json:"cycles"`    // releases that are ok; with jobs, jobs completed by a batch that is ok
	Grants         int `json:"grants"`    // acquires, and takes of shards, that took effect
	Takeovers      int `json:"takeovers"` // of them, from another holder's lease
	Effects        int `json:"effects"`   // effects applied
	StaleRefused   int `json:"stale_refused"`
	Duplicates     int `json:"duplicates"`
	LeasesLost     int `json:"leases_lost"`
	Unknowns       int `json:"unknowns"`        // operations recorded as unknown or without an end
	UnknownSettled int `json:"unknown_settled"` // of them, decided by the final rows
	Resends        int `json:"resends"`
	LateSends      int `json:"late_sends"` // effects sent after the deadline though decided before it: allowed, counted
	Locks          int `json:"locks"`
	Procs          int `json:"procs"` // process lives
	Faults         int `json:"faults"`
	FaultsProven   int `json:"faults_proven"`
	Torn           int `json:"torn"`
	ServerTimeouts int `json:"server_timeouts"` // compare-and-sets that their coordinator gave up
	// FaultNames are the injections by the name of their fault.
	FaultNames map[string]int `json:"fault_names,omitempty"`
	// PhaseCycles are the cycles by phase.
	PhaseCycles map[string]int `json:"phase_cycles,omitempty"`
	// Jobs is nil without jobs.
	Jobs *past.JobCounts `json:"jobs,omitempty"`
	// Orders is nil without orders.
	Orders *OrderCounts `json:"orders,omitempty"`
	// Points are the reach points hit, with their number.
	Points map[string]int `json:"points,omitempty"`
}

// Result is verdict.json.
type Result struct {
	Version int     `json:"version"` // of this format: 1
	Run     string  `json:"run"`
	Verdict Verdict `json:"verdict"`
	// Summary is the answer in a line.
	Summary string `json:"summary"`
	// Answer says what the verdict means for this run; nil in results of older versions,
	// for which explain.Told makes one.
	Answer     *Answer    `json:"answer,omitempty"`
	Properties []Property `json:"properties"`
	Counts     Counts     `json:"counts"`
	Recovery   *Recovery  `json:"recovery,omitempty"`
	// Thresholds are the scenario's, in its order, as P15 found them.
	Thresholds []Bound `json:"thresholds,omitempty"`
	// Progress is what was got done under the faults for which the scenario demands it.
	Progress []Progress `json:"progress,omitempty"`
	// HostBusy says that the machine was too busy for times to say anything about the
	// system; "": it was not, or nobody looked.
	HostBusy string `json:"host_busy,omitempty"`
	// Cold says that latencies had not settled when phase before began, so that nothing
	// can be compared with it; "": they had, or nobody looked.
	Cold   string  `json:"cold,omitempty"`
	Millis float64 `json:"millis"`

	Dir string `json:"-"` // what the files named in it are relative to, for Print
}
