package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestMembersShareTheShards: schedulers that see each other take what they are first
// for. What one that stops gives away the others take at once; what one that falls
// silent has they leave alone while it ticks.
func TestMembersShareTheShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c"}
		q := newCell(16, names...)
		var keys []string
		for i := range q.n {
			keys = append(keys, store.ShardID{Queue: "q", Shard: i}.String())
		}
		owned := func(when string, want map[string]string) {
			t.Helper()
			for i, key := range keys {
				if h, _ := q.store.ShardRows(store.ShardID{Queue: "q", Shard: i}); h.Owner != want[key]+".1" {
					t.Errorf("%s: shard %d is %s's, want %s's", when, i, h.Owner, want[key])
				}
			}
		}
		shares, later := member.Share([][]string{keys}, names), member.Share([][]string{keys}, []string{"a", "b"})
		_, stopA := q.begin(t, "a")
		_, stopB := q.begin(t, "b")
		_, stopC := q.begin(t, "c")
		time.Sleep(q.ttl)
		owned("at first", shares)
		q.beats["b"].Cut(true)
		time.Sleep(4 * q.ttl)
		owned("b is silent", shares)
		q.beats["b"].Cut(false)
		time.Sleep(q.ttl)
		stopC()
		time.Sleep(q.ttl)
		for key, name := range shares {
			if name == "c" {
				shares[key] = later[key] // nothing else moves
			}
		}
		owned("c has left", shares)
		stopA()
		stopB()
	})
}

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
