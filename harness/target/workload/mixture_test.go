package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/core/clock"
	"fencepost/core/job"
)

// TestMixture: each part of the jobs is drawn about as often as it is asked for, every job is
// one that a scheduler takes, and keys that nearly are the same have ids of their own.
func TestMixture(t *testing.T) {
	t.Parallel()
	m := &Mixture{AtMostOnce: 0.1, Overrun: 0.1, OddKeys: 0.2, NoKey: 0.2, OtherBody: 0.1, Priorities: 3, Delays: 0.4}
	jobs := &Jobs{Queue: "q", Shards: 4, Rate: 1, Steps: 2, MaxAttempts: 3, RetryBase: 1, Mixture: m}
	p := &process{cfg: Config{Life: "w1.1", Seed: 7, Jobs: jobs}, rec: &notebook{}, clock: NewClock(clock.Go()), counts: &counters{}}
	e := newEnqueuer(p, nil, shardIssuer, drawEffects)
	first := e.job()
	e.done.Store(&first)
	const n = 2000
	counts, ids, keys := map[string]int{}, map[job.ID]string{}, map[string]int{}
	for range n {
		j := e.job()
		if err := j.Check(jobs.Shards); err != nil {
			t.Fatal(err)
		}
		spec := specOf(j, "s", j.Queue)
		if spec.Key != j.Key || spec.Overruns && j.MaxDuration != overrunBound {
			t.Errorf("job %+v is told as %+v", j, spec)
		}
		if other := slices.Contains(spec.Steps, otherStep); j.ID == first.ID || other {
			if j.ID != first.ID {
				t.Fatalf("job %s of nobody has another body", j.ID)
			}
			if other {
				counts["another body"]++
			}
			continue
		}
		if was, known := ids[j.ID]; known && was != j.Key {
			t.Fatalf("keys %q and %q have one id", was, j.Key)
		}
		if j.Key == "" {
			if _, known := ids[j.ID]; known || spec.Key != "" {
				t.Errorf("job %s without a key: its id is known: %v, it is told as %+v", j.ID, known, spec)
			}
			ids[j.ID] = j.Key
			counts["no key"]++
			continue
		}
		ids[j.ID] = j.Key
		keys[strings.ToLower(strings.TrimSpace(j.Key))]++
		if j.Rescue == job.AtMostOnce {
			counts["at most once"]++
		}
		if spec.Overruns {
			counts["overrun"]++
		}
		if n := len(j.Retry.Delays); n > 0 {
			counts["delays"]++
			counts[fmt.Sprintf("%d delays", n)]++
			if j.Retry.Jitter > 0 {
				counts["jitter"]++
			}
		}
		if got, want := spec.Retry, j.Retry; len(got.DelaysMS) != len(want.Delays) || got.Jitter != want.Jitter || got.BaseMS != want.Base.Milliseconds() {
			t.Errorf("policy %+v is told as %+v", want, got)
		}
		if j.Priority == 2 {
			counts["high"]++
		}
	}
	for _, times := range keys {
		if times > 1 {
			counts["odd"]++
		}
	}
	for what, want := range map[string]int{"another body": n / 10, "at most once": n / 10, "overrun": n / 10, "high": n / 3, "odd": n / 6, "no key": n / 5,
		"delays": 2 * n / 5, "jitter": n / 5, "1 delays": 2 * n / 15, "3 delays": 2 * n / 15} {
		if got := counts[what]; got < want/2 || got > 2*want {
			t.Errorf("%s: %d of %d, want about %d", what, got, n, want)
		}
	}
	if again := e.reused(e.reused(first)); len(specOf(again, "s", "q").Steps) != 3 {
		t.Errorf("%+v", again)
	}
}
