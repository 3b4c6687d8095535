package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// hookClock calls a function at the n-th look at the time.
type hookClock struct {
	clock.Clock
	mu   sync.Mutex
	n    int
	call func()
}

func (c *hookClock) Now() time.Duration {
	c.mu.Lock()
	c.n--
	due := c.n == 0
	c.mu.Unlock()
	if due {
		c.call()
	}
	return c.Clock.Now()
}

// disarm prevents the call, and reports whether it had not been made.
func (c *hookClock) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	armed := c.n > 0
	c.n = 0
	return armed
}

// TestCloseWhileGranting: Close gives up waiting at each instant at which Acquire looks
// at the clock, also while a grant becomes a lease. All leases are lost then, and
// nothing panics.
func TestCloseWhileGranting(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 12; at++ {
		synctest.Test(t, func(t *testing.T) {
			r := &rig{t: t, store: sim.New(), rec: &recorder{}}
			hook := &hookClock{Clock: clock.Go(), n: at}
			c, _ := r.client("a", func(o *lock.Options) { o.Clock = hook })
			closed := make(chan struct{})
			hook.call = func() {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				go func() { _ = c.Close(ctx); close(closed) }()
				synctest.Wait()
			}
			l, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "a"})
			if hook.disarm() {
				r.release(l)
				return // Acquire looks less often
			}
			<-closed
			if err == nil && l.Valid() {
				t.Errorf("closed at look %d: a lease outlives Close", at)
			}
		})
	}
}

// TestPollingManyLocks: the locks of a dead holder are taken over by a caller that only
// polls, however many there are.
func TestPollingManyLocks(t *testing.T) {
	const locks = 1100
	bubble(t, func(t *testing.T, r *rig) {
		dead := r.store.Connect("dead", 1)
		for i := range locks {
			v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "dead", TTL: testTTL}
			if _, err := dead.CAS(t.Context(), fmt.Sprint("r", i), nil, v, 0); err != nil {
				t.Fatal(err)
			}
		}
		// Of a lock that is held for a day, the first look counts for as long.
		day := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "dead", TTL: 24 * time.Hour}
		if _, err := dead.CAS(t.Context(), "day", nil, day, 0); err != nil {
			t.Fatal(err)
		}
		c := r.clientOn(r.store.Connect("a", 1))
		if _, err := c.TryAcquire(t.Context(), lock.Request{Resource: "day", Holder: "a"}); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		poll := func() (taken int) {
			for i := range locks {
				if l, err := c.TryAcquire(t.Context(), lock.Request{Resource: fmt.Sprint("r", i), Holder: "a"}); err == nil {
					taken++
					r.release(l)
				} else if !errors.Is(err, lock.ErrHeld) {
					t.Fatal(err)
				}
			}
			return taken
		}
		if n := poll(); n != 0 {
			t.Errorf("%d taken at first sight", n)
		}
		time.Sleep(testTTL)
		if n := poll(); n != locks {
			t.Errorf("%d of %d taken over after their ttl", n, locks)
		}
		// What nobody asks for any more is forgotten when others come.
		time.Sleep(20 * testTTL)
		for i := range locks {
			l, err := c.TryAcquire(t.Context(), lock.Request{Resource: fmt.Sprint("s", i), Holder: "a"})
			if err != nil {
				t.Fatal(err)
			}
			r.release(l)
		}
		if n, leases := lock.Remembered(c); n != 1024 || leases != 0 {
			t.Errorf("%d resources and %d leases are remembered", n, leases)
		}
	})
}

// beats notes when renewals are sent.
type beats struct {
	store.Locks
	mu sync.Mutex
	at []time.Time
}

func (b *beats) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if to.Beat > 0 && to.Holder != "" {
		b.mu.Lock()
		b.at = append(b.at, time.Now())
		b.mu.Unlock()
	}
	return b.Locks.CAS(ctx, resource, from, to, n)
}

// TestRenewalsAreSpread: leases that were granted at one instant are renewed in time,
// and not together.
func TestRenewalsAreSpread(t *testing.T) {
	const leases = 600
	bubble(t, func(t *testing.T, r *rig) {
		b := &beats{Locks: r.store.Connect("a", 1)}
		c := r.clientOn(b, func(o *lock.Options) { o.Rand = rand.New(rand.NewPCG(1, 2)) })
		start := time.Now()
		for i := range leases {
			if _, err := c.Acquire(t.Context(), lock.Request{Resource: fmt.Sprint("r", i), Holder: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(testTTL/3 + testTTL/24)
		b.mu.Lock()
		defer b.mu.Unlock()
		per, last := map[time.Duration]int{}, time.Duration(0)
		for _, at := range b.at {
			since := at.Sub(start)
			if since < testTTL/4 || since >= testTTL/3 {
				t.Errorf("renewed after %s", since)
			}
			last = max(last, since)
			per[since/(testTTL/120)]++
		}
		if len(b.at) != leases || last < testTTL/3-testTTL/200 {
			t.Errorf("%d renewals of %d leases, the last after %s", len(b.at), leases, last)
		}
		for bin, n := range per {
			if n > leases/5 {
				t.Errorf("%d of %d renewals come within %s of second %.2f", n, leases, testTTL/120, (bin * testTTL / 120).Seconds())
			}
		}
	})
}

// TestTTLWhileRenewing is for the race detector.
func TestTTLWhileRenewing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.clientOn(r.store.Connect("a", 1), noRenew)
		l := r.acquire(c, "a")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if l.TTL() != testTTL || l.Holder() != "a" {
					t.Errorf("ttl %s, holder %s", l.TTL(), l.Holder())
				}
			})
			wg.Go(func() {
				if err := l.Renew(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.release(l)
	})
}

// canonical is a store that keeps attempts as UUIDs, and so gives them back in one
// spelling; the first answer is lost.
type canonical struct {
	store.Locks
	lost bool
}

func spelled(v *store.Version) *store.Version {
	if v == nil {
		return nil
	}
	c := *v
	c.Attempt = uuid.MustParse(v.Attempt).String()
	return &c
}

func (s *canonical) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	res, err := s.Locks.CAS(ctx, resource, spelled(from), *spelled(&to), n)
	if !s.lost {
		s.lost = true
		return store.CASResult{}, &store.Error{Cause: errors.New("the answer is lost")}
	}
	return res, err
}

// TestSpellingOfIDs: an attempt is recognized however its id was spelled.
func TestSpellingOfIDs(t *testing.T) {
	for name, spell := range map[string]func(string) string{
		"upper case": strings.ToUpper,
		"no dashes":  func(id string) string { return strings.ReplaceAll(id, "-", "") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c := r.clientOn(&canonical{Locks: r.store.Connect("a", 1)},
					func(o *lock.Options) { o.NewID = func() string { return spell(uuid.NewString()) } })
				r.release(r.acquire(c, "a"))
				r.ops("[acquire:ok/2 release:ok/1]")
			})
		})
	}
	if _, err := lock.New(sim.New().Connect("a", 1), lock.Options{NewID: func() string { return "1" }}); err == nil {
		t.Error("ids that are no UUIDs are accepted")
	}
}

// forbidding is a store whose role may not do this, or not any more. It counts.
type forbidding struct {
	store.Locks
	loseFirst bool

	mu            sync.Mutex
	reads, writes bool
	once          bool // only the next one
	refused       int
}

var errForbidden = &store.Error{Op: "cas", Outcome: store.Fail, Permanent: true, Cause: errors.New("no MODIFY permission: grant it")}

func (f *forbidding) refuse(kind *bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	refuse := *kind
	if refuse {
		f.refused++
		*kind = !f.once
	}
	return refuse
}

func (f *forbidding) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if f.refuse(&f.reads) {
		return nil, errForbidden
	}
	return f.Locks.Read(ctx, resource, serial)
}

func (f *forbidding) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if f.loseFirst && n == 0 {
		return store.CASResult{}, &store.Error{Cause: errors.New("the answer is lost")}
	}
	if f.refuse(&f.writes) {
		return store.CASResult{}, errForbidden
	}
	return f.Locks.CAS(ctx, resource, from, to, n)
}

// TestRefusedForGood: what no node will ever take is not asked for again and again.
func TestRefusedForGood(t *testing.T) {
	for name, change := range map[string]func(*forbidding){
		"reads":                func(f *forbidding) { f.reads = true },
		"writes":               func(f *forbidding) { f.writes = true },
		"after a lost request": func(f *forbidding) { f.writes, f.loseFirst = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				f := &forbidding{Locks: r.store.Connect("a", 1)}
				change(f)
				c := r.clientOn(f)
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				_, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: "a"})
				if !errors.Is(err, lock.ErrRefused) || !errors.Is(err, errForbidden) || f.refused != 3 {
					t.Errorf("%d requests were refused, %v", f.refused, err)
				}
			})
		})
	}
	t.Run("one node", func(t *testing.T) { // which has not heard of the table yet
		bubble(t, func(t *testing.T, r *rig) {
			f := &forbidding{Locks: r.store.Connect("a", 1), reads: true, writes: true}
			time.AfterFunc(60*time.Millisecond, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.reads = false
			})
			time.AfterFunc(400*time.Millisecond, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.writes = false
			})
			c := r.clientOn(f, func(o *lock.Options) { o.Backoff = lock.Backoff{Min: 200 * time.Millisecond, Max: time.Second} })
			r.release(r.acquire(c, "a"))
			if f.refused < 2 {
				t.Errorf("%d requests were refused", f.refused)
			}
		})
	})
	for name, first := range map[string]bool{"a renewal, by one node": true, "a renewal, by all": false} {
		t.Run(name, func(t *testing.T) { // is logged once
			bubble(t, func(t *testing.T, r *rig) {
				var lines strings.Builder
				f := &forbidding{Locks: r.store.Connect("a", 1)}
				c := r.clientOn(f, noRenew, func(o *lock.Options) { o.Logger = slog.New(slog.NewTextHandler(&lines, nil)) })
				l := r.acquire(c, "a")
				f.writes, f.once = true, first
				if err := l.Renew(t.Context()); (err == nil) != first {
					t.Errorf("renew: %v", err)
				}
				synctest.Wait()
				if n := strings.Count(lines.String(), "renewal refused"); n != 1 {
					t.Errorf("logged %d times", n)
				}
			})
		})
	}
	t.Run("a lease", func(t *testing.T) { // lasts to its deadline; its release says what is wrong
		bubble(t, func(t *testing.T, r *rig) {
			f := &forbidding{Locks: r.store.Connect("a", 1)}
			c := r.clientOn(f, noRenew)
			l := r.acquire(c, "a")
			f.writes = true
			start := time.Now()
			var e *store.Error
			if err := l.Release(t.Context()); !errors.As(err, &e) || !e.Permanent || e.Outcome != store.Fail || time.Since(start) > testTTL/2 {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
			f.writes = false
			l2, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "b"})
			if err != nil {
				t.Fatal(err)
			}
			f.writes = true
			if err := l2.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) || l2.Valid() {
				t.Errorf("renew: %v", err)
			}
		})
	})
}
