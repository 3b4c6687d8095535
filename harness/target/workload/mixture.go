package workload

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"fencepost/core/job"
)

// Mixture is which parts of the jobs are different; 0: none.
type Mixture struct {
	AtMostOnce float64 `json:"at_most_once"` // have no other run if one is cut short
	Overrun    float64 `json:"overrun"`      // their first run takes longer than it may
	OddKeys    float64 `json:"odd_keys"`     // their key is the one before, but for case or a space
	NoKey      float64 `json:"no_key"`       // have no key, and an id of random bytes
	OtherBody  float64 `json:"other_body"`   // are enqueued by the key of a job that is there, with another body
	Priorities int     `json:"priorities"`   // how many there are, at random; 0: one
	Delays     float64 `json:"delays"`       // have a list of delays instead of a base, and a jitter of their own
}

// otherStep is an effect that no job has but one whose key is another's already: it must never
// be done.
const otherStep = "of-another-body"

// vary makes a drawn job one of the parts that are different.
func (e *enqueuer) vary(j job.Job) job.Job {
	m := e.cfg.Jobs.Mixture
	if m == nil {
		return j
	}
	in := func(part float64) bool { return e.rng.Float64() < part }
	if in(m.AtMostOnce) {
		j.Rescue = job.AtMostOnce
	}
	if in(m.Overrun) {
		p, _ := decodePayload(j.Payload) // encoded by template
		p.Overrun = true
		j.Payload, _ = json.Marshal(p) // of plain fields
		j.MaxDuration = overrunBound
	}
	if m.Delays > 0 && in(m.Delays) {
		j.Retry = e.delays()
	}
	if m.Priorities > 0 {
		j.Priority = e.rng.IntN(m.Priorities)
	}
	if m.NoKey > 0 && in(m.NoKey) {
		return e.keyless(j)
	}
	if in(m.OddKeys) && e.lastKey != "" {
		j = e.keyed(j, []string{strings.ToUpper(e.lastKey), e.lastKey + " ", " " + e.lastKey, e.lastKey + "\u00a0"}[e.rng.IntN(4)])
		e.lastKey = ""
		return j
	}
	e.lastKey = j.Key
	return j
}

const (
	// overrunBound is how long the runs of a job may take whose first one takes longer. The others
	// are done by then on a busy machine too.
	overrunBound = 2 * time.Second
	// overrunLength is how long that first run takes unless it is ended: longer than a process is
	// stopped, so that the bound has passed for long when it goes on.
	overrunLength = time.Minute
)

// Bounds of the delays that are drawn. The shortest is far above what a judge of them allows.
const (
	mostDelays    = 3
	shortestDelay = 200 * time.Millisecond
	longestDelay  = 2 * time.Second
)

// delays draws a policy: a list of delays in any order, with a jitter or with none.
func (e *enqueuer) delays() (p job.RetryPolicy) {
	for range 1 + e.rng.IntN(mostDelays) {
		p.Delays = append(p.Delays, (shortestDelay + time.Duration(e.rng.Int64N(int64(longestDelay-shortestDelay)))).Truncate(time.Millisecond))
	}
	if e.rng.IntN(2) == 0 {
		p.Jitter = e.rng.Float64() / 2
	}
	return p
}

// keyed gives a job another key.
func (e *enqueuer) keyed(j job.Job, key string) job.Job {
	j.Key, j.ID = key, job.KeyedID(j.Queue, key, e.size(j.Queue).First)
	return j
}

// keyless takes a job's key from it: no other enqueue can be for the same job, but one with its id.
func (e *enqueuer) keyless(j job.Job) job.Job {
	var random [16]byte
	binary.LittleEndian.PutUint64(random[:8], e.rng.Uint64())
	binary.LittleEndian.PutUint64(random[8:], e.rng.Uint64())
	q := e.size(j.Queue)
	j.Key, j.ID = "", job.SpreadID(random, q.First, q.Shards)
	return j
}

// reused is a job with the key of one that was acknowledged, and with another body: it is a
// duplicate, and its body does not count.
func (e *enqueuer) reused(done job.Job) job.Job {
	p, _ := decodePayload(done.Payload) // encoded by template
	if !slices.Contains(p.Steps, otherStep) {
		p.Steps = append(p.Steps[:len(p.Steps):len(p.Steps)], otherStep)
	}
	done.Payload, _ = json.Marshal(p) // of plain fields
	return done
}
