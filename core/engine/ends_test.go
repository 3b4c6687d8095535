package engine

import (
	"errors"
	"testing"
)

// TestARunEndsOnce: an executor that reports an end once more, or one of a job that is gone,
// changes nothing.
func TestARunEndsOnce(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"the job is gone": nil, "it waits for a retry": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.enqueue(1, 0)
			r.tick(0)
			run := r.runs(1)[0]
			r.m.settled(r.finish(run, err))
			r.m.take()
			if p := r.finish(run, nil); p != nil {
				t.Errorf("it ends once more: %s", what(p))
			}
		})
	}
}
