package drive

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// stutter is a queue of which every other request to put a job has no answer.
type stutter struct {
	asked int
	put   []string
}

func (q *stutter) Put(_ context.Context, j Job) error {
	if q.asked++; q.asked%2 == 1 {
		return errors.New("no response")
	}
	q.put = append(q.put, j.ID())
	return nil
}

func (q *stutter) Close(context.Context) error { return nil }

// TestSetUpPuts: a store that has just been made may not answer yet, and each chain has its first job all the same.
func TestSetUpPuts(t *testing.T) {
	t.Setenv("FENCEPOST_NODES", "127.0.0.1:1")
	t.Setenv("FENCEPOST_KEYSPACE", "run")
	t.Setenv("FENCEPOST_LOCKS", "a,b")
	t.Setenv("FENCEPOST_TTL_MS", "6000")
	q := &stutter{}
	s := Scheduler{Open: func(context.Context, Place, int, Run) (Queue, error) { return q, nil }}
	if err := s.setUp(); err != nil || !slices.Equal(q.put, []string{"a#1", "b#1"}) {
		t.Errorf("%v, %v", q.put, err)
	}
}
