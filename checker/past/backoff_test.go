package past

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/core/job"
	"fencepost/harness/record/history"
)

// TestWaitsAreTheCores: what the checker expects of a policy is what the core makes of it: a list of
// delays in turn, of which the last one repeats, or else a base that grows; with jitter either way.
func TestWaitsAreTheCores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, 5000)
		told := history.Retry{DelaysMS: rapid.SliceOfN(ms, 0, 4).Draw(t, "delays"), BaseMS: ms.Draw(t, "base"),
			Factor: rapid.SampledFrom([]float64{0, 1, 2, 3.5}).Draw(t, "factor"), MaxMS: rapid.SampledFrom([]int64{0, 10_000}).Draw(t, "max"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter")}
		policy := job.RetryPolicy{Base: time.Duration(told.BaseMS) * time.Millisecond, Factor: told.Factor, Max: time.Duration(told.MaxMS) * time.Millisecond, Jitter: told.Jitter}
		for _, d := range told.DelaysMS {
			policy.Delays = append(policy.Delays, time.Duration(d)*time.Millisecond)
		}
		for attempt := 1; attempt < 8; attempt++ {
			least, most := Waits(&told, attempt)
			lo, hi := policy.Delay(attempt, 0).Milliseconds(), policy.Delay(attempt, 1).Milliseconds()
			if lo-least < -1 || lo-least > 1 || most-hi < -1 || most-hi > 1 {
				t.Fatalf("%+v after attempt %d: %d to %d ms, the core waits for %d to %d ms", told, attempt, least, most, lo, hi)
			}
		}
	})
}
