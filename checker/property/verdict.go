package property

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
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
	// Overload is what was done under overload; nil without one.
	Overload *Overload `json:"overload,omitempty"`
	// Growth is how much more processes took at the end of the load than at its begin; nil if that
	// is not judged.
	Growth []Growth `json:"growth,omitempty"`
	// HostBusy says that the machine was too busy for times to say anything about the
	// system; "": it was not, or nobody looked.
	HostBusy string `json:"host_busy,omitempty"`
	// Cold says that latencies had not settled when phase before began, so that nothing
	// can be compared with it; "": they had, or nobody looked.
	Cold   string  `json:"cold,omitempty"`
	Millis float64 `json:"millis"`

	Dir string `json:"-"` // what the files named in it are relative to, for Print
}

// Answer is a verdict in words: what a person reads first, wherever a verdict is shown.
type Answer struct {
	// What happened (FAIL), what was missing (INVALID, UNKNOWN), or how much was checked
	// (PASS): a clause without a full stop.
	What string `json:"what"`
	// Because is why that happened, as far as the history tells; "": it does not.
	Because string `json:"because,omitempty"`
	// Do is what to do about an INVALID or UNKNOWN run.
	Do string `json:"do,omitempty"`
	// Properties are the ones that the sentence is about, and Mechanisms the mistakes that
	// fit best (see [Mechanisms]): an explanation says more of them.
	Properties []string `json:"properties,omitempty"`
	Mechanisms []string `json:"mechanisms,omitempty"`
	// Exercised and NotExercised are what a PASS rests on and what it says nothing about.
	Exercised    []string `json:"exercised,omitempty"`
	NotExercised []string `json:"not_exercised,omitempty"`
}

// Sentence is the answer in one sentence, without a capital and a full stop.
func (a Answer) Sentence() string {
	switch {
	case a.Because != "":
		return a.What + ", because " + a.Because
	case a.Do != "":
		return a.What + "; " + a.Do
	}
	return a.What
}

// Text is the answer in a line.
func (a Answer) Text() string {
	s := a.Sentence()
	for _, list := range []struct {
		name  string
		items []string
	}{{"exercised", a.Exercised}, {"not exercised", a.NotExercised}} {
		if len(list.items) > 0 {
			s += fmt.Sprintf("; %s: %s", list.name, strings.Join(list.items, "; "))
		}
	}
	return s
}

// UnknownAnswer is the answer of an UNKNOWN result: what was not checked.
func (r *Result) UnknownAnswer() Answer {
	out := Answer{
		What: "no violation found, but not everything was checked: " + strings.Join(r.reasons(StatusUnknown), "; "),
		Do:   "check it again on an idle machine or with more time (fencepost check --search)",
	}
	for _, p := range r.Properties {
		if p.Status == StatusUnknown {
			out.Properties = append(out.Properties, p.ID)
		}
	}
	return out
}

// reasons are the details of the properties with that status, each with the ids of those
// that share it. What no system promises is left out.
func (r *Result) reasons(s Status) []string {
	var details []string
	ids := map[string][]string{}
	for _, p := range r.Properties {
		if p.Status != s || s == StatusNA && CheckByID(p.ID).always {
			continue
		}
		if ids[p.Detail] == nil {
			details = append(details, p.Detail)
		}
		ids[p.Detail] = append(ids[p.Detail], p.ID)
	}
	for i, detail := range details {
		details[i] = strings.Join(ids[detail], ", ") + ": " + strings.TrimPrefix(detail, "not judged: ")
	}
	return details
}

// PassAnswer is the answer of a PASS: what was exercised, and what was not.
func (r *Result) PassAnswer() Answer {
	return Answer{What: "no violation in " + phrase.Plural(r.Counts.Operations, "operation"), Exercised: exercised(r),
		NotExercised: notExercised(r)}
}

func exercised(r *Result) []string {
	c := r.Counts
	var out []string
	had := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	proven := fmt.Sprintf("%d of them proven", c.FaultsProven)
	if c.FaultsProven == c.Faults {
		proven = "proven"
	}
	had(c.Faults, "%s, %s%s", phrase.Plural(c.Faults, "fault"), proven, c.faults())
	for _, k := range All {
		if k.summary != nil {
			text := k.summary(&c)
			had(len(text), "%s", text)
		}
	}
	had(c.Takeovers, "%s of %s", phrase.Plural(c.Takeovers, "takeover"), phrase.Plural(c.Grants, "grant"))
	had(c.LeasesLost, "%s lost", phrase.Plural(c.LeasesLost, "lease"))
	had(c.StaleRefused, "%s refused", phrase.Plural(c.StaleRefused, "stale write"))
	had(c.Unknowns, "%s", r.unknowns("%[2]s, %[1]d settled by the final rows"))
	had(c.Resends, "%s sent again", phrase.Plural(c.Resends, "request"))
	had(c.ServerTimeouts, "%s given up by a coordinator", phrase.Plural(c.ServerTimeouts, "write"))
	return out
}

// faults names them with their numbers.
func (c Counts) faults() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.FaultNames)) {
		text := name
		if n := c.FaultNames[name]; n > 1 {
			text = fmt.Sprintf("%s (%d)", name, n)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// notExercised are the bugs that a run without certain events cannot show.
func notExercised(r *Result) []string {
	c := r.Counts
	var out []string
	blind := func(missing bool, what string) {
		if missing {
			out = append(out, what)
		}
	}
	blind(c.Faults == 0, "faults: none was injected")
	blind(c.Takeovers == 0, "takeovers: no lease was taken over")
	blind(c.StaleRefused == 0, "stale writes: none reached the sink")
	blind(c.Unknowns == 0 && r.Chained(), "unknown outcomes: every operation was answered")
	blind(c.Resends == 0, "resent requests: none was sent again")
	blind(c.LeasesLost == 0, "lost leases: none was lost")
	for _, k := range All {
		if k.unexercised != nil {
			k.unexercised(&c, blind)
		}
	}
	blind(c.ServerTimeouts == 0, "writes that surface late: no coordinator gave one up")
	out = append(out, r.reasons(StatusNA)...)
	return append(out, "other faults, other timing, and what needs more time")
}

// Chained: what the rows' chains of versions show was judged, as the system promises it.
func (r *Result) Chained() bool {
	return !slices.ContainsFunc(r.Properties, func(p Property) bool { return p.ID == "P2" && p.Detail == notPromised })
}

// unknowns says how many unknown outcomes there were and, where the rows' chains tell, how
// many of them were settled.
func (r *Result) unknowns(format string) string {
	n := phrase.Plural(r.Counts.Unknowns, "unknown outcome")
	if !r.Chained() {
		return n
	}
	return fmt.Sprintf(format, r.Counts.UnknownSettled, n)
}
