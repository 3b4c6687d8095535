package workload

import (
	"testing"

	"fencepost/core/clock"
	"fencepost/core/job"
)

// TestQueues: each key comes to every queue, as a job of its own, and schedules and pauses cover all
// queues.
func TestQueues(t *testing.T) {
	t.Parallel()
	jobs := recurringJobs(2)
	jobs.Queues = []string{"q", "q.2", "q.3"}
	p := &process{cfg: Config{Life: "w1.1", Seed: 7, Jobs: jobs}, rec: &notebook{}, clock: NewClock(clock.Go()), counts: &counters{}}
	e := newEnqueuer(p, nil, shardIssuer, drawEffects)
	queues, ids := map[string]map[string]bool{}, map[job.ID]bool{}
	const keys = 20
	e.drawn = 2 // each key is that of three jobs on end
	for range 3 * keys {
		j := e.job()
		if err := j.Check(jobs.Shards); err != nil {
			t.Fatal(err)
		}
		if queues[j.Key] == nil {
			queues[j.Key] = map[string]bool{}
		}
		queues[j.Key][j.Queue], ids[j.ID] = true, true
		if s := specOf(j, "s", j.Queue); s.Queue != j.Queue || s.Key != j.Key {
			t.Errorf("job %+v is told as %+v", j, s)
		}
	}
	if len(queues) != keys || len(ids) != 3*keys {
		t.Errorf("%d keys and %d ids, want %d and %d", len(queues), len(ids), keys, 3*keys)
	}
	for key, in := range queues {
		if len(in) != 3 {
			t.Errorf("key %s came to %v", key, in)
		}
	}
	if n := len(jobs.shards()); n != 6 {
		t.Errorf("%d shards, want 6", n)
	}
	all, _ := jobs.definitions()
	in := map[string]int{}
	for _, d := range all {
		in[d.Queue]++
	}
	if len(in) != 3 || in["q"] != 2 || in["q.3"] != 2 {
		t.Errorf("schedules by queue: %v", in)
	}
	one := &Jobs{Queue: "q", Shards: 2}
	if queue, key := one.place("w1.1", 7); queue != "q" || key != "w1.1-7" {
		t.Errorf("with one queue job 7 is %s in %s", key, queue)
	}
}
