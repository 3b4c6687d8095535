package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestSubmitForwards: by what the owner answers, the job goes into the inbox or not,
// and the next Submit tries the address again or not. Both get the same job: what it leaves to
// defaults is this process's choice, not the owner's.
func TestSubmitForwards(t *testing.T) {
	t.Parallel()
	failed := func(cause error) error { return &engine.EnqueueError{Outcome: store.Fail, Cause: cause} }
	lost := &engine.EnqueueError{Outcome: store.Unknown, Cause: errors.New("lost")}
	for name, c := range map[string]struct {
		answer  error
		cancel  bool // nobody waits any more when the answer comes
		outcome store.Outcome
		inbox   bool
		again   bool
	}{
		"done":                     {nil, false, store.OK, false, true},
		"not the owner":            {failed(engine.ErrNotOwner), false, store.OK, true, false},
		"nobody is there":          {failed(engine.ErrUnreachable), false, store.OK, true, true},
		"refused":                  {failed(errors.New("refused")), false, store.Fail, false, true},
		"busy":                     {failed(engine.ErrBusy), false, store.Fail, false, true},
		"stalled":                  {failed(&engine.BusyError{Cause: engine.ErrStalled}), false, store.Fail, false, true},
		"unknown":                  {lost, false, store.Unknown, false, true},
		"not done, and no inbox":   {failed(engine.ErrNotOwner), true, store.Fail, false, false},
		"the owner finds it wrong": {&job.InvalidError{Field: "payload"}, false, store.Unknown, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := sim.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var asked []string
				a := run(t, s, "a", nil, func(o *engine.Options) { o.Addr = "at a" })
				b := run(t, s, "b", nil, func(o *engine.Options) {
					o.Addr = "at b"
					o.Forward = func(fctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
						asked = append(asked, addr)
						if j.MaxAttempts < 1 || j.MaxDuration <= 0 || j.Rescue == "" {
							t.Errorf("forwarded without what it leaves to defaults: %+v", j)
						}
						if c.cancel {
							cancel()
						}
						if c.answer != nil {
							return engine.Receipt{}, c.answer
						}
						return engine.Receipt{ID: j.ID, Duplicate: true}, nil
					}
				})
				a.session.Crash() // its header stands still from now on
				later := aJob("a")
				later.Due = time.Now().Add(time.Hour)
				rec, err := b.eng.Submit(ctx, later)
				var invalid *job.InvalidError
				if errors.As(err, &invalid) != errors.As(c.answer, &invalid) || invalid == nil && store.OutcomeOf(err) != c.outcome || invalid == nil && err != nil && !errors.As(err, new(*engine.EnqueueError)) {
					t.Errorf("Submit: %v, outcome %s", err, store.OutcomeOf(err))
				}
				if err == nil && (rec.ID != later.ID || rec.Duplicate != (c.answer == nil)) {
					t.Errorf("receipt %+v", rec)
				}
				if got := len(s.InboxRows(shard0)) == 1; got != c.inbox {
					t.Errorf("in the inbox: %v", got)
				}
				_, _ = b.eng.Submit(t.Context(), aJob("b"))
				if len(asked) != map[bool]int{true: 2, false: 1}[c.again] || asked[0] != "at a" {
					t.Errorf("asked %v", asked)
				}
				// The address comes back with an owner that lives, but not one's own.
				time.Sleep(20 * time.Second)
				if !b.eng.Owns(shard0) || b.eng.OwnerAddr(shard0) != "" {
					t.Errorf("b owns %v, sees %q", b.eng.Owns(shard0), b.eng.OwnerAddr(shard0))
				}
				a.end(t)
				b.end(t)
			})
		})
	}
}

// TestAddressComesBack: who says that it does not own the shard is asked again when its ticks go on.
func TestAddressComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		a := run(t, s, "a", nil, func(o *engine.Options) { o.Addr = "at a" })
		b := run(t, s, "b", nil, func(o *engine.Options) {
			o.Forward = func(_ context.Context, _ string, j job.Job) (engine.Receipt, error) {
				return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: engine.ErrNotOwner}
			}
		})
		far := aJob("a")
		far.Due = time.Now().Add(time.Hour)
		if _, err := b.eng.Submit(t.Context(), far); err != nil {
			t.Error(err)
		}
		if addr := b.eng.OwnerAddr(shard0); addr != "" {
			t.Errorf("%q is not forgotten", addr)
		}
		time.Sleep(4 * time.Second)
		if addr := b.eng.OwnerAddr(shard0); addr != "at a" {
			t.Errorf("%q, though the owner ticks", addr)
		}
		if addr := b.eng.OwnerAddr(store.ShardID{Queue: "other"}); addr != "" {
			t.Errorf("an owner of nothing: %q", addr)
		}
		a.end(t)
		time.Sleep(time.Second)
		if addr := b.eng.OwnerAddr(shard0); addr != "" {
			t.Errorf("%q, though b owns the shard", addr)
		}
		b.end(t)
	})
}

// crowded counts the inserts that are under way at once.
type crowded struct {
	store.Shards
	now, most atomic.Int32
}

func (c *crowded) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, copyNo int) (bool, string, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	c.most.Store(max(c.most.Load(), n))
	time.Sleep(time.Second) // of the bubble
	return c.Shards.InboxPut(ctx, s, r, copyNo)
}

// TestInboxInTurn: inserts into one inbox wait for each other, and one whose turn
// never comes certainly was not done.
func TestInboxInTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := &crowded{Shards: sim.New().Connect("a", 1)}
		e, err := engine.New(c, engine.Options{Name: "a", Queues: []engine.Queue{{Name: "q", Shards: 1}}, Executor: worker.New(worker.Options{}),
			Ownership: engine.Ownership{TTL: 12 * time.Second}, World: engine.World{Clock: clock.Go()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		outcomes := make(chan store.Outcome, 8)
		for i := range cap(outcomes) {
			go func() {
				_, err := e.Submit(ctx, aJob(fmt.Sprint(i)))
				outcomes <- store.OutcomeOf(err)
			}()
		}
		got := map[store.Outcome]int{}
		for range cap(outcomes) {
			got[<-outcomes]++
		}
		if got[store.OK] != 3 || got[store.Fail] < 4 || c.most.Load() != 1 {
			t.Errorf("%v, %d at once", got, c.most.Load())
		}
	})
}

// answers is a store that gives inserts into the inbox these answers, and then no more.
type answers struct {
	store.Shards
	left *[]func(nonce string) (bool, string, error)
}

func (a answers) InboxPut(_ context.Context, _ store.ShardID, row store.InboxRow, _ int) (bool, string, error) {
	next := (*a.left)[0]
	*a.left = (*a.left)[1:]
	return next(row.Nonce)
}

// TestInboxOutcomes: an insert that was refused three times has failed, but nobody knows if another
// copy was not answered. A row that an earlier copy inserted is no duplicate.
func TestInboxOutcomes(t *testing.T) {
	t.Parallel()
	type answer = func(nonce string) (bool, string, error)
	done := func(string) (bool, string, error) { return true, "", nil }
	own := func(nonce string) (bool, string, error) { return false, nonce, nil }
	another := func(string) (bool, string, error) { return false, "x", nil }
	refused := func(string) (bool, string, error) { return false, "", &store.Error{Outcome: store.Fail} }
	lost := func(string) (bool, string, error) { return false, "", errors.New("no answer") }
	for name, c := range map[string]struct {
		answers   []answer
		outcome   store.Outcome
		duplicate bool
	}{
		"inserted":                    {[]answer{done}, store.OK, false},
		"there":                       {[]answer{another}, store.OK, true},
		"inserted by an earlier copy": {[]answer{lost, own}, store.OK, false},
		"refused twice":               {[]answer{refused, refused, done}, store.OK, false},
		"refused":                     {[]answer{refused, refused, refused}, store.Fail, false},
		"lost once, then refused":     {[]answer{lost, refused, refused, refused}, store.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				left := c.answers
				rec, err := engine.Inbox{Store: answers{left: &left}, Clock: clock.Go()}.Enqueue(t.Context(), aJob("a"), 1)
				if store.OutcomeOf(err) != c.outcome || rec.Duplicate != c.duplicate || len(left) > 0 {
					t.Errorf("%+v, %v, and %d answers are left", rec, err, len(left))
				}
			})
		})
	}
}

// TestAWrongJobIsNotTaken: whichever way it comes, it is refused with the field that is wrong, and
// nothing is stored.
func TestAWrongJobIsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, sim.New(), "w", nothing)
		inbox := engine.Inbox{Store: r.session, Clock: clock.Go()}
		for name, way := range map[string]func(job.Job) error{
			"Enqueue": func(j job.Job) error { _, err := r.eng.Enqueue(t.Context(), j); return err },
			"Submit":  func(j job.Job) error { _, err := r.eng.Submit(t.Context(), j); return err },
			"Inbox":   func(j job.Job) error { _, err := inbox.Enqueue(t.Context(), j, 1); return err },
		} {
			j := aJob(name)
			j.Kind = ""
			var invalid *job.InvalidError
			if err := way(j); !errors.As(err, &invalid) || invalid.Field != "kind" {
				t.Errorf("%s of a job without a kind: %v", name, err)
			}
		}
		if _, rows := r.store.ShardRows(shard0); len(rows) > 0 || len(r.store.InboxRows(shard0)) > 0 {
			t.Errorf("in the shard are %v, in the inbox %v", rows, r.store.InboxRows(shard0))
		}
		r.end(t)
	})
}
