package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
)

// spy is a Locker that gives the lock to whoever asks, and tells what happens.
type spy struct {
	*recurring
	events chan event
}

type event struct {
	what string
	n    int64
}

func (s spy) Lock(context.Context, string) (gocron.Lock, error) {
	n, err := s.occurrence()
	if err != nil {
		return nil, err
	}
	s.events <- event{"lock", n}
	return s, nil
}

func (s spy) Unlock(context.Context) error {
	s.events <- event{"unlock", 0}
	return nil
}

// TestGocron: a lock is asked for an occurrence by the time at which that was due, also when its timer fires
// long after; gocron runs it then, and gives the lock back as soon as the run is over.
func TestGocron(t *testing.T) {
	const first = 1_000_000
	clock := clockwork.NewFakeClockAt(time.Unix(0, first*int64(gocronEvery)).Add(-time.Millisecond))
	scheduler, err := gocron.NewScheduler(gocron.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	s := spy{&recurring{}, make(chan event)}
	s.job, err = scheduler.NewJob(gocron.DurationJob(gocronEvery), gocron.NewTask(func() { s.events <- event{"run", 0} }),
		gocron.WithStartAt(gocron.WithStartDateTimePast(clock.Now().Truncate(gocronEvery))), gocron.WithDistributedJobLocker(s))
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	defer scheduler.Shutdown()
	for _, step := range []struct {
		pass time.Duration
		n    int64
	}{
		{time.Millisecond, first},
		{gocronEvery, first + 1},
		{7*gocronEvery + gocronEvery/2, first + 2}, // stood still
		{gocronEvery / 2, first + 9},
	} {
		if err := clock.BlockUntilContext(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		clock.Advance(step.pass)
		for _, want := range []event{{"lock", step.n}, {"run", 0}, {"unlock", 0}} {
			select {
			case got := <-s.events:
				if got != want {
					t.Fatalf("%v after %s, want %v", got, step.pass, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("nothing after %s, want %v", step.pass, want)
			}
		}
	}
}
