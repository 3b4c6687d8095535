package workload

import (
	"slices"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
)

func recurringJobs(shards int) *Jobs {
	return &Jobs{Queue: "q", Shards: shards, Every: time.Second, Steps: 2, Length: 20 * time.Millisecond, MaxAttempts: 5, RetryBase: time.Second, Window: 10 * time.Second, Sequence: 2}
}

// TestScheduleKeys: each shard has one schedule, the same for every worker.
func TestScheduleKeys(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8, 32} {
		keys := recurringJobs(shards).keys()
		if len(keys) != shards || !slices.Equal(keys, recurringJobs(shards).keys()) {
			t.Errorf("%d shards: %v", shards, keys)
		}
		for n, key := range keys {
			if got, err := job.ScheduleID("q", key, shards).Shard(); err != nil || got != n {
				t.Errorf("%d shards: %s is in shard %d, %v", shards, key, got, err)
			}
		}
	}
}

// TestScheduleAsked: the schedule is valid, and the history says of it what its jobs
// are like.
func TestScheduleAsked(t *testing.T) {
	t.Parallel()
	j := recurringJobs(8)
	key := j.keys()[3]
	s, err := schedule.New(j.definition(key), j.Shards)
	if err != nil {
		t.Fatal(err)
	}
	made := s.JobOf(job.Occurrence{Schedule: key, Nominal: 5000})
	if s.Grace > s.Window || s.Window != j.Window {
		t.Errorf("its grace is %s, its window %s", s.Grace, s.Window)
	}
	a := j.asked(engine.PutSchedule, key)
	if a.Do != history.DoPut || a.Shard != "shard/q/3" || a.EveryMS != 1000 || a.WindowMS != 10_000 {
		t.Errorf("it is asked for %+v", a)
	}
	if got := a.Job.Resource + string(made.ID); got != worker.Resource(made) {
		t.Errorf("the resource of %s is %s, and that of the history %s", made.ID, worker.Resource(made), got)
	}
	if !slices.Equal(a.Job.Steps, []string{"s1", "s2"}) || a.Job.MaxAttempts != made.MaxAttempts || a.Job.Kind != made.Kind {
		t.Errorf("its jobs are %+v, and the history says %+v", made, a.Job)
	}
	next, ok := made.Next(job.Completed, j.Shards)
	if len(a.Job.Then) != 2 || !ok || !slices.Equal(a.Job.Then[0].Steps, []string{"s1", "s2"}) || a.Job.Then[0].Resource+string(next.ID) != worker.Resource(next) {
		t.Errorf("what follows is %+v, and the history says %+v", next, a.Job.Then)
	}
	if d := j.asked(engine.DisableSchedule, key); d.Do != history.DoDisable || d.Job != nil || d.Shard != a.Shard {
		t.Errorf("to disable it is %+v", d)
	}
}

// TestScheduleChanges: what a batch does to a schedule is written down with its nominal
// times; a job that follows another one is not one of them.
func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	o := job.Occurrence{Schedule: "k", Nominal: 5000}
	for name, c := range map[string]struct {
		in   engine.Change
		want history.Change
	}{
		"fire":         {engine.Change{Kind: engine.StepFire, Occurrence: job.Occurrence{Schedule: "k"}, Last: 5000, Missed: 2}, history.Change{Do: history.DoFire, Schedule: "k", LastMS: 5000, Missed: 2}},
		"its job":      {engine.Change{Kind: engine.StepEnqueue, Job: "0-a", Due: 5000, Occurrence: o}, history.Change{Job: "0-a", Do: history.DoEnqueue, DueMS: 5000, Schedule: "k", NominalMS: 5000}},
		"what follows": {engine.Change{Kind: engine.StepEnqueue, Job: "0-b", Due: 7, After: "0-a", Occurrence: o}, history.Change{Job: "0-b", Do: history.DoEnqueue, DueMS: 7, After: "0-a"}},
	} {
		if got := change(c.in); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
