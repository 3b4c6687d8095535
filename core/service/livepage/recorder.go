package livepage

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

const (
	// span is how many seconds are remembered.
	span = 60
	// lastRuns is how many runs that have ended are.
	lastRuns = 30
	// longestError is in bytes.
	longestError = 200
)

// PeerPath is the path of the requests by which processes exchange what their Recorders know.
const PeerPath = "/live"

// Process is the activity of one process.
type Process struct {
	// Name is the engine's: that which shards' headers name.
	Name string `json:"name"`
	// Since is when it was started, in ms since 1970.
	Since   int64  `json:"since"`
	Running int    `json:"running"`
	Totals  Counts `json:"totals"`
	// Depths counts the jobs of the shards that it owns.
	Depths  []engine.Depth `json:"depths,omitempty"`
	Seconds []Second       `json:"seconds,omitempty"`
	Runs    []Run          `json:"runs,omitempty"` // the last first
}

// Counts are of runs that have ended, by what became of their jobs, and of jobs.
type Counts struct {
	Enqueued  int64 `json:"enqueued"`
	Completed int64 `json:"completed"`
	Retried   int64 `json:"retried"` // rescues too
	Dead      int64 `json:"dead"`
	Other     int64 `json:"other"` // cancelled, abandoned
}

func (c *Counts) add(d Counts) {
	c.Enqueued += d.Enqueued
	c.Completed += d.Completed
	c.Retried += d.Retried
	c.Dead += d.Dead
	c.Other += d.Other
}

// Second is what happened within one second.
type Second struct {
	At int64 `json:"at"` // since 1970, in s
	Counts
	Started int64 `json:"started"`
	// Late is the worst wait of a run that was started, from when it was due, in ms.
	Late int64 `json:"late"`
}

func (s *Second) add(d Second) {
	s.Counts.add(d.Counts)
	s.Started += d.Started
	s.Late = max(s.Late, d.Late)
}

// Run is a run that has ended.
type Run struct {
	Job     job.ID `json:"job"`
	Queue   string `json:"queue"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	// Ended is in ms since 1970, Took and Late in ms.
	Ended int64  `json:"ended"`
	Took  int64  `json:"took"`
	Late  int64  `json:"late"`
	Error string `json:"error,omitempty"`
	By    string `json:"by"`
}

// Recorder counts what one process's engine does. Safe for concurrent use.
type Recorder struct {
	now func() time.Time

	mu      sync.Mutex
	depths  func() []engine.Depth
	process Process
	seconds [span]Second // by At modulo span
	begun   map[runKey]*begun
	runs    []Run // the last first
	// over is the last ownership of a shard that has ended: a run may still be told to
	// start after that.
	over map[store.ShardID]int64
}

// begun is a run that was begun and is not told yet.
type begun struct {
	Run
	over bool // its handler has returned
	lost bool // its shard is another process's
}

type runKey struct {
	shard store.ShardID
	run   job.RunID
}

// NewRecorder makes a recorder for an engine's name. Now is the wall clock, time.Now if
// it is nil.
func NewRecorder(name string, now func() time.Time) *Recorder {
	if now == nil {
		now = time.Now
	}
	return &Recorder{now: now, process: Process{Name: name, Since: now().UnixMilli()}, begun: map[runKey]*begun{}, over: map[store.ShardID]int64{}}
}

// CountBy sets what counts jobs, an engine's Depths; without it nobody knows of them.
func (r *Recorder) CountBy(depths func() []engine.Depth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.depths = depths
}

// Name is the engine's.
func (r *Recorder) Name() string { return r.process.Name }

// outcomes of runs, by step.
var outcomes = map[engine.StepKind]string{
	engine.StepComplete: "completed", engine.StepRetry: "retry", engine.StepRescue: "rescue", engine.StepDLQ: "dlq",
	engine.StepCancel: "cancelled", engine.StepAbandon: "abandoned",
}

// Step takes a step of the engine (engine.Watch). It waits for nothing.
func (r *Recorder) Step(s engine.Step) {
	outcome := outcomes[s.Kind]
	switch s.Kind {
	case engine.StepStart, engine.StepFinish, engine.StepEnqueue, engine.StepLost, engine.StepHanded:
	default:
		if outcome == "" || s.Err != nil {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	k := runKey{s.Shard, s.Run}
	switch s.Kind {
	case engine.StepStart:
		late := max(0, now.UnixMilli()-s.Due-s.Held)
		r.process.Running++
		fence, over := r.over[s.Shard]
		r.begun[k] = &begun{lost: over && s.Fence <= fence, Run: Run{Job: s.Job, Queue: s.Shard.Queue, Attempt: s.Attempt, Ended: now.UnixMilli(), Late: late, By: r.process.Name}}
		r.count(now, Second{Started: 1, Late: late})
	case engine.StepFinish:
		run := r.begun[k]
		if run == nil || run.over {
			return // it was not begun
		}
		r.process.Running--
		run.over, run.Took, run.Ended = true, max(0, now.UnixMilli()-run.Ended), now.UnixMilli()
		if s.Err != nil {
			run.Error = shortened(s.Err.Error())
		}
		r.tell(k, run)
	case engine.StepEnqueue:
		r.count(now, Second{Counts: Counts{Enqueued: 1}})
	case engine.StepLost, engine.StepHanded:
		// Nobody tells of these runs any more what becomes of them.
		r.over[s.Shard] = s.Fence
		for k, run := range r.begun {
			if k.shard == s.Shard {
				run.lost = true
				r.tell(k, run)
			}
		}
	default:
		r.settled(k, outcome, now)
	}
}

// settled: it is certain what became of a run, or of a job that had none.
func (r *Recorder) settled(k runKey, outcome string, now time.Time) {
	var c Counts
	switch outcome {
	case "completed":
		c.Completed = 1
	case "retry", "rescue":
		c.Retried = 1
	case "dlq":
		c.Dead = 1
	default:
		c.Other = 1
	}
	r.count(now, Second{Counts: c})
	if run := r.begun[k]; run != nil { // else another process's
		run.Outcome = outcome
		r.tell(k, run)
	}
}

// tell lists a run when its handler has returned and its outcome is known, and forgets
// it also if that never will be.
func (r *Recorder) tell(k runKey, run *begun) {
	if !run.over || run.Outcome == "" && !run.lost {
		return
	}
	delete(r.begun, k)
	if run.Outcome == "" {
		run.Outcome = "lost"
	}
	r.runs = slices.Insert(r.runs, 0, run.Run)
	r.runs = r.runs[:min(len(r.runs), lastRuns)]
}

func (r *Recorder) count(now time.Time, d Second) {
	r.process.Totals.add(d.Counts)
	s := &r.seconds[uint64(now.Unix())%span]
	if s.At != now.Unix() {
		*s = Second{At: now.Unix()}
	}
	s.add(d)
}

// Now is a Recorder's current content.
func (r *Recorder) Now() Process {
	out, depths := r.history()
	if depths != nil {
		out.Depths = depths()
	}
	return out
}

func (r *Recorder) history() (out Process, depths func() []engine.Depth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = r.process
	oldest := r.now().Unix() - span
	for _, s := range r.seconds {
		if s.At > oldest {
			out.Seconds = append(out.Seconds, s)
		}
	}
	slices.SortFunc(out.Seconds, func(a, b Second) int { return int(a.At - b.At) })
	out.Runs = slices.Clone(r.runs)
	return out, r.depths
}

// Peer answers other processes, at PeerPath.
func (r *Recorder) Peer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PeerPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.Now()) // the other one is gone
	})
	return mux
}

func shortened(s string) string {
	if len(s) <= longestError {
		return s
	}
	// A character may have been cut in two.
	return strings.ToValidUTF8(s[:longestError], "") + "…"
}
