package engine

import (
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestLateStart: a run is told of that starts more than LateAfter behind its time, unless its job
// was told of while it waited. The next attempt is told of again.
func TestLateStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by    int64
		pause store.Pause
		told  bool // while it waited
		want  int
	}{
		"in time":                      {by: 4000},
		"late":                         {by: 4001, want: 1},
		"late, and known to be":        {by: 4001, told: true},
		"as late as a pause made it":   {by: 9000, pause: store.Pause{Since: 1000, Lasted: 5000}},
		"later than a pause made it":   {by: 9001, pause: store.Pause{Since: 1000, Lasted: 5000}, want: 1},
		"its clock was set back since": {by: -9000},
	} {
		r := newRig(t)
		r.m.head.Pause = c.pause
		var got []LateJob
		o := &owner{m: r.m, id: store.ShardID{Queue: "q", Shard: 3}}
		o.e = &Engine{o: Options{Reports: Reports{LateAfter: 4 * time.Second, LateJob: func(l LateJob) { got = append(got, l) }},
			World: World{Clock: standing{now: 70 * time.Second}, Wall: func() time.Time { return time.UnixMilli(r.now.wall) }}}}
		i := &intent{e: &entry{toldLate: c.told}}
		run := job.Run{Job: r.job(1), Attempt: 2, Due: r.now.wall - c.by}
		o.lateStart(i, run)
		if len(got) != c.want {
			t.Errorf("%s: told of %+v", name, got)
		}
		if len(got) == 1 && (got[0].By != 4001*time.Millisecond || got[0].Attempt != 2 || got[0].Job != run.Job.ID || got[0].Shard != o.id || got[0].Waiting) {
			t.Errorf("%s: %+v", name, got[0])
		}
		run.Due = r.now.wall - 20_000
		if o.lateStart(i, run); len(got) != c.want+1 {
			t.Errorf("%s: the next attempt, which is late: told of %+v", name, got)
		}
	}
}
