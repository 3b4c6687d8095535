package scheduler_test

import (
	"context"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestRetire: what a job has left in the sink goes when its id is forgotten, if that is
// asked for.
func TestRetire(t *testing.T) {
	t.Parallel()
	m, done := sinktest.NewMemory(), make(chan string, 1)
	p := start(t, sim.New(), "a", 0, nil, func(o *scheduler.Options) {
		o.Sink, o.Retire = m, m
		o.Engine.DedupeWindow, o.Engine.InboxPoll = time.Millisecond, 10*time.Millisecond
		o.Handlers = map[string]worker.Handler{"k": func(ctx context.Context, k *worker.Task) error {
			err := k.Do(ctx, sink.Effect{Key: "e", Value: 7})
			if st, _ := m.Read(ctx, k.Resource()); st.Value != 7 {
				t.Errorf("the sink has %+v", st)
			}
			done <- k.Resource()
			return err
		}}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Submit(ctx, job.Job{ID: job.KeyedID("q", "a", shards), Queue: "q", Kind: "k", Key: "a"}); err != nil {
		t.Fatal(err)
	}
	resource := <-done
	for {
		st, err := m.Read(ctx, resource)
		if err != nil {
			t.Fatalf("%+v is left of %s: %v", st, resource, err)
		}
		if st.Issuer == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.stop()
	if err := <-p.end; err != nil {
		t.Error(err)
	}
}
