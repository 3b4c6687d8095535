package reports

import (
	"fmt"
	"strings"
	"time"

	"fencepost/reports/measure"
)

// BenchSteady is a load that went on for long: whether it decays, and how late
// what it asks for is done.
type BenchSteady struct {
	// ID is unique in the result: "rate-1000", "saturation".
	ID       string `json:"id"`
	Scenario string `json:"scenario"` // for a person
	// Rate is the offered load in jobs a second; 0: as many as are taken.
	Rate    float64       `json:"rate,omitempty"`
	Shards  int           `json:"shards,omitempty"`
	For     time.Duration `json:"for_ns"`
	Bucket  time.Duration `json:"bucket_ns"`
	Buckets []BenchBucket `json:"buckets"`
	// Done is the number of jobs completed while the load went on, LWTs what the
	// scheduler sent meanwhile.
	Done int64 `json:"done"`
	LWTs int64 `json:"lwts"`
	// Backlog is the number of jobs that were asked for and not completed when the
	// load ended, and Drained how long the rest took; -1: some never ended.
	Backlog int64         `json:"backlog"`
	Drained time.Duration `json:"drained_ns"`
	// Retried counts enqueues that were refused and sent again, Left jobs that the
	// generator could not ask for even once.
	Retried int64 `json:"retried,omitempty"`
	Left    int64 `json:"left,omitempty"`
	// Late is how late runs began, and Ended how late their jobs were completed,
	// measured from the instant at which each job was meant to be asked for:
	// EncodeHistogram of a measure.NewHistogram. "" without a rate.
	Late  string `json:"late,omitempty"`
	Ended string `json:"ended,omitempty"`
}

// BenchBucket is a part of a BenchSteady.
type BenchBucket struct {
	Seconds float64 `json:"seconds"`
	// Done is the number of jobs completed in it.
	Done int64 `json:"done"`
	// Late are quantiles of the lateness of the jobs that were meant to be asked for
	// in it, in µs; all 0 without a rate.
	LateP50 int64 `json:"late_p50_us,omitempty"`
	LateP99 int64 `json:"late_p99_us,omitempty"`
	LateMax int64 `json:"late_max_us,omitempty"`
}

// fifth is the part of a run that is compared at its two ends.
const fifth = 5

// Decay is by how much less was done a second in the last fifth of the buckets than
// in the first, as a part of 1; negative if more. ok says that there are enough.
func (s BenchSteady) Decay() (decay float64, ok bool) {
	n := len(s.Buckets) / fifth
	if n == 0 {
		return 0, false
	}
	first, last := perSecond(s.Buckets[:n]), perSecond(s.Buckets[len(s.Buckets)-n:])
	if first == 0 {
		return 0, false
	}
	return 1 - last/first, true
}

func perSecond(bs []BenchBucket) float64 {
	var done, seconds float64
	for _, b := range bs {
		done, seconds = done+float64(b.Done), seconds+b.Seconds
	}
	if seconds == 0 {
		return 0
	}
	return done / seconds
}

// Text is the outcome in a line.
func (s BenchSteady) Text() string {
	parts := []string{fmt.Sprintf("%s for %s: %s jobs/s", s.Scenario, measure.FormatDuration(s.For), RateText(perSecond(s.Buckets)))}
	if d, ok := s.Decay(); ok {
		parts = append(parts, fmt.Sprintf("%+.1f %% from the first to the last fifth", -100*d))
	}
	if s.Done > 0 {
		parts = append(parts, fmt.Sprintf("%s LWTs a job", RateText(float64(s.LWTs)/float64(s.Done))))
	}
	if h, err := DecodeHistogram(s.Late); err == nil && h != nil {
		parts = append(parts, fmt.Sprintf("late by p50 %s, p95 %s, p99 %s, at most %s", measure.FormatDuration(measure.Quantile(h, 50)),
			measure.FormatDuration(measure.Quantile(h, 95)), measure.FormatDuration(measure.Quantile(h, 99)),
			measure.FormatDuration(measure.Quantile(h, 100))))
	}
	if s.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%s jobs open at its end, %s", measure.FormatCount(s.Backlog), s.drained()))
	}
	if s.Left > 0 {
		parts = append(parts, fmt.Sprintf("%s could not be asked for", measure.FormatCount(s.Left)))
	}
	return strings.Join(parts, ", ")
}

func (s BenchSteady) drained() string {
	if s.Drained < 0 {
		return "not all of which ended"
	}
	return "done " + measure.FormatDuration(s.Drained) + " later"
}

// BenchTarget is a number that a benchmark was meant to reach.
type BenchTarget struct {
	Name string `json:"name"` // of what: "LWTs a job, 4 shards"
	Want string `json:"want"` // "at most 0.1"
	Got  string `json:"got"`  // "0.083 [0.081, 0.085]"
	// Met: the number, with all of its confidence interval, is as wanted.
	Met bool `json:"met"`
}

// Text is the target in a line.
func (t BenchTarget) Text() string {
	return fmt.Sprintf("%s  %s: %s, wanted %s", t.Verdict(), t.Name, t.Got, t.Want)
}

// badge is the verdict as a page shows it.
func (t BenchTarget) badge() Badge {
	b := Proven(t.Met)
	b.Word = t.Verdict()
	return b
}

// Verdict is PASS or MISS.
func (t BenchTarget) Verdict() string {
	if t.Met {
		return "PASS"
	}
	return "MISS"
}
