package past

import (
	"fmt"

	"fencepost/checker/phrase"
)

// JobCounts sum up what became of the jobs, by the batches that took effect.
type JobCounts struct {
	Shards    int `json:"shards"`
	Enqueued  int `json:"enqueued"`
	Claimed   int `json:"claimed"`
	Completed int `json:"completed"`
	Retried   int `json:"retried"` // pending again as their run failed
	Rescued   int `json:"rescued"` // pending again as their run's owner lost the shard
	DLQ       int `json:"dlq"`
	Cancelled int `json:"cancelled"`
	Abandoned int `json:"abandoned"`
	Redriven  int `json:"redriven"`           // from the dead letter queue
	Hastened  int `json:"hastened,omitempty"` // brought forward while they were pending
	Swept     int `json:"swept"`
	Pauses    int `json:"pauses,omitempty"` // of shards
	Fired     int `json:"fired,omitempty"`  // nominal times of schedules that got a job
	Missed    int `json:"missed,omitempty"` // that were passed over, as they came too late
	// Followed are the jobs that followed another, Stopped the sequences that ended with a
	// failure.
	Followed int `json:"followed,omitempty"`
	Stopped  int `json:"stopped,omitempty"`
	Open     int `json:"open"` // not at an end when the run was over
	Starts   int `json:"starts"`
	// Overlaps are the starts of a job while another run of it was at work:
	// allowed where a process was stopped, counted.
	Overlaps int `json:"overlaps"`
	// Duplicates are the enqueues that were told that their job was there.
	Duplicates int `json:"duplicates"`
	// Lateness is by how much runs started later than they were due, by their
	// worker's wall clock and outside of faults, in ms.
	Lateness *Spread `json:"lateness_ms,omitempty"`
}

func (n *JobCounts) Text() string {
	return fmt.Sprintf("%s enqueued, %d completed, %d retried, %d rescued, %d in the dead letter queue",
		phrase.Plural(n.Enqueued, "job"), n.Completed, n.Retried, n.Rescued, n.DLQ)
}

// Spread is a distribution in ms.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SequenceText says in P5's detail what was seen of sequences, "" without any.
func (n *JobCounts) SequenceText() string {
	if n.Followed+n.Stopped == 0 {
		return ""
	}
	return fmt.Sprintf("; %s that %s another, %s that ended with a failure", phrase.Plural(n.Followed, "job"), map[bool]string{true: "follows", false: "follow"}[n.Followed == 1], phrase.Plural(n.Stopped, "sequence"))
}
