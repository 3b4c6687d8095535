package reports

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// BenchVersion is the version of the BenchResult format.
const BenchVersion = 1

// BenchFile is the name of the JSON file that WriteBench writes and Results reads.
const BenchFile = "bench.json"

// BenchResult is a benchmark: arms that were run interleaved, in rounds, so that
// arms can be compared round by round on a machine whose speed changes.
type BenchResult struct {
	Version int       `json:"version"` // BenchVersion; filled in by WriteBench if 0
	Name    string    `json:"name"`    // of the result's directory
	About   string    `json:"about,omitempty"`
	Seed    uint64    `json:"seed"`
	Cluster string    `json:"cluster"` // local, up
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Command repeats the benchmark.
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions,omitempty"`
	Machine  map[string]string `json:"machine,omitempty"`
	// Problems are reasons not to quote the numbers; empty if there are none.
	Problems []string `json:"problems,omitempty"`
	// Notes are what a reader should know and nothing is wrong with.
	Notes []string   `json:"notes,omitempty"`
	Arms  []BenchArm `json:"arms"`
	// Steady are loads that went on for long, beside the rounds.
	Steady []BenchSteady `json:"steady,omitempty"`
	// Targets are what some of the numbers were meant to reach.
	Targets []BenchTarget `json:"targets,omitempty"`
}

// BenchArm is one thing that is measured, with one setting.
type BenchArm struct {
	// ID is unique in the result; Ceiling refers to it.
	ID string `json:"id"`
	// Scenario is what a person calls the operation: "lock cycle", "bare LWT".
	Scenario   string        `json:"scenario"`
	About      string        `json:"about,omitempty"`
	Contention string        `json:"contention"` // low, medium, high; "": none
	Threads    int           `json:"threads"`    // concurrent clients; of jobs: how many are open at once
	TTL        time.Duration `json:"ttl_ns"`     // 0: none
	Shards     int           `json:"shards,omitempty"`
	// Ceiling is the ID of the arm that bounds this one; "" if this is one itself.
	Ceiling string `json:"ceiling,omitempty"`
	// LWTsPerOp is how many lightweight transactions one operation takes when
	// nothing gets in its way (a lock cycle 2). The ratio to the ceiling is ops/s x
	// LWTsPerOp of this arm by the same of the ceiling, that is of row changes that
	// took effect; 0 counts as 1. How many were really sent is in the rounds.
	LWTsPerOp float64 `json:"lwts_per_op,omitempty"`
	// Control is the ID of the arm that this is a copy of, "" for none: their
	// ratio is what the machine's noise makes of two equal things.
	Control string `json:"control,omitempty"`
	// Baseline is the ID of the arm that does the same work in another way; ops/s are
	// compared. "" for none.
	Baseline string       `json:"baseline,omitempty"`
	Rounds   []BenchRound `json:"rounds"`
	// Parts are what the latency of an operation consists of.
	Parts []BenchPart `json:"parts,omitempty"`
}

// BenchPart is a part of an arm's latency, over all rounds.
type BenchPart struct {
	Name    string `json:"name"`    // "enqueue to start"
	Latency string `json:"latency"` // as in BenchRound
}

// BenchRound is one sample of an arm.
type BenchRound struct {
	Round   int     `json:"round"` // rounds of different arms with the same number ran side by side
	Seconds float64 `json:"seconds"`
	// OK, Fail and Unknown count operations by outcome; OK makes the rate.
	OK      int64 `json:"ok"`
	Fail    int64 `json:"fail,omitempty"`
	Unknown int64 `json:"unknown,omitempty"`
	// LWTs counts the conditional requests sent, resends and rejected ones
	// included, and Done the operations that ended ok meanwhile: from the first
	// operation until all had ended, those after the window too, or of an arm that was
	// under load before and after its window, within it. Both are 0 for an arm without
	// LWTs.
	LWTs int64 `json:"lwts,omitempty"`
	Done int64 `json:"done,omitempty"`
	// SinkLWTs are the sink's, beside LWTs, and Ended the operations that ended ok,
	// always from the first until all had ended.
	SinkLWTs int64 `json:"sink_lwts,omitempty"`
	Ended    int64 `json:"ended,omitempty"`
	// Fair is Jain's index of ok operations by client: 1 for equal shares, 1/n
	// if one of n got all; 0: not known.
	Fair float64 `json:"fair,omitempty"`
	// Latency holds the latencies of the ok operations in µs: EncodeHistogram of
	// a measure.NewHistogram.
	Latency string `json:"latency,omitempty"`
}

// DecodeHistogram reads what EncodeHistogram wrote; nil for "".
func DecodeHistogram(encoded string) (*hdrhistogram.Histogram, error) {
	if encoded == "" {
		return nil, nil
	}
	return hdrhistogram.Decode([]byte(encoded))
}

// EncodeHistogram returns h in HdrHistogram's compressed V2 format, base64.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(b), err
}
