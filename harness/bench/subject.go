package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// requestTimeout bounds one request of the bare arms; it is the session's own
// limit, which a context with a deadline of its own would replace.
const requestTimeout = cassandra.DefaultRequestTimeout

// subject is what an arm does over and over. It is used by many threads at once.
type subject interface {
	// operate does one operation on key to its end. over reports that the window
	// has passed; then an operation that would have to try again gives up.
	operate(ctx context.Context, th *thread, key string, over func() bool) result
	// traffic returns what has been sent so far.
	traffic() traffic
	// close settles what is in the background.
	close(ctx context.Context) error
}

// thread is one closed-loop client.
type thread struct {
	number int
	holder string
	rng    *rand.Rand
	// known is the version of each row as this thread last saw it (KindCAS).
	known map[string]*store.Version
}

func newThread(arm Arm, round, number int, seed uint64) *thread {
	return &thread{
		number: number,
		holder: fmt.Sprintf("bench/t%d", number),
		rng:    rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(arm.Threads)<<16|uint64(number))),
		known:  map[string]*store.Version{},
	}
}

// result is the end of one operation.
type result struct {
	outcome store.Outcome
	// gaveUp: the window was over before it could be done; not an outcome.
	gaveUp bool
	err    error
}

func ended(err error) result { return result{outcome: store.OutcomeOf(err), err: err} }

// traffic counts requests.
type traffic struct {
	LWTs     int64 // conditional requests sent, resends and SERIAL reads too
	Rejected int64 // of them answered "not applied"
	Unknown  int64 // of them without a certain answer
	Reads    int64 // plain reads
}

func (t traffic) minus(u traffic) traffic {
	return traffic{t.LWTs - u.LWTs, t.Rejected - u.Rejected, t.Unknown - u.Unknown, t.Reads - u.Reads}
}

// meter counts what passes through a store.
type meter struct {
	store.Locks
	lwts, rejected, unknown, reads atomic.Int64
}

func (m *meter) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	m.lwts.Add(1)
	res, err := m.Locks.CAS(ctx, resource, from, to, copyNo)
	switch {
	case store.OutcomeOf(err) == store.Unknown:
		m.unknown.Add(1)
	case err == nil && !res.Applied:
		m.rejected.Add(1)
	}
	return res, err
}

func (m *meter) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if serial {
		m.lwts.Add(1)
	} else {
		m.reads.Add(1)
	}
	return m.Locks.Read(ctx, resource, serial)
}

func (m *meter) traffic() traffic {
	return traffic{LWTs: m.lwts.Load(), Rejected: m.rejected.Load(), Unknown: m.unknown.Load(), Reads: m.reads.Load()}
}

// casSubject is KindCAS.
type casSubject struct {
	*meter
	audit *audit
	ttl   time.Duration
}

func (s *casSubject) operate(ctx context.Context, th *thread, key string, over func() bool) result {
	for {
		from := th.known[key]
		to := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: th.holder, TTL: s.ttl}
		if from != nil {
			to.Beat = from.Beat + 1
		}
		rctx, cancel := context.WithTimeout(ctx, requestTimeout)
		res, err := s.CAS(rctx, key, from, to, 0)
		cancel()
		if err != nil {
			// What the row is now, the next rejection will tell.
			if store.OutcomeOf(err) == store.Unknown {
				s.audit.key(key).doubt()
			}
			return ended(err)
		}
		if res.Applied {
			s.audit.key(key).changed()
			th.known[key] = &to
			return result{outcome: store.OK}
		}
		th.known[key] = res.Row
		if over() {
			return result{gaveUp: true}
		}
	}
}

func (s *casSubject) close(context.Context) error { return nil }

// plainTable has the columns of a lock row and is only ever written plainly:
// plain and conditional writes of one row do not mix.
const plainTable = "CREATE TABLE IF NOT EXISTS bench_plain (resource text PRIMARY KEY, fence bigint, beat bigint, attempt uuid, holder text, ttl_ms bigint, expires_hint timestamp) " +
	"WITH compaction = {'class': 'LeveledCompactionStrategy'}"

const plainWrite = "UPDATE bench_plain SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ?, expires_hint = ? WHERE resource = ?"

// writeSubject is KindWrite.
type writeSubject struct {
	db  *cassandra.DB
	ttl time.Duration
}

func (s *writeSubject) operate(ctx context.Context, th *thread, key string, _ func() bool) result {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return ended(s.db.Exec(ctx, plainWrite, int64(1), int64(0), uuid.NewString(), th.holder, s.ttl.Milliseconds(), time.Now().UTC().Add(s.ttl), key))
}

func (s *writeSubject) traffic() traffic            { return traffic{} }
func (s *writeSubject) close(context.Context) error { return nil }

// lockSubject is KindLock: one lock client, as a process has one.
type lockSubject struct {
	meter  *meter
	sent   *atomic.Int64 // by the client's own account, see watcher
	client *lock.Client
	audit  *audit
	ttl    time.Duration
}

// newLockSubject makes a lock client; a nil clock is the client's own.
func newLockSubject(locks store.Locks, ttl time.Duration, a *audit, rng *rand.Rand, c clock.Clock) (*lockSubject, error) {
	m := &meter{Locks: locks}
	w := &watcher{audit: a}
	client, err := lock.New(m, lock.Options{TTL: ttl, Rand: rng, Observer: w, Clock: c})
	if err != nil {
		return nil, fmt.Errorf("lock client: %w", err)
	}
	return &lockSubject{meter: m, sent: &w.sent, client: client, audit: a, ttl: ttl}, nil
}

func (s *lockSubject) operate(ctx context.Context, th *thread, key string, over func() bool) result {
	if over() {
		return result{gaveUp: true}
	}
	lease, err := s.client.Acquire(ctx, lock.Request{Resource: key, Holder: th.holder, TTL: s.ttl, Timeout: drainTimeout})
	if err != nil {
		return lockEnd(err)
	}
	k := s.audit.key(key)
	k.enter(lease)
	k.leave(lease)
	return lockEnd(lease.Release(ctx))
}

// lockEnd classifies the client's errors: what it says it did not do is a
// failure, what it left unsettled is unknown.
func lockEnd(err error) result {
	var ae *lock.AcquireError
	if errors.As(err, &ae) && !ae.Unsettled {
		return result{outcome: store.Fail, err: err}
	}
	return ended(err)
}

func (s *lockSubject) traffic() traffic {
	t := s.meter.traffic()
	t.LWTs = s.sent.Load()
	return t
}

func (s *lockSubject) close(ctx context.Context) error {
	err := s.client.Close(ctx)
	if sent, passed := s.sent.Load(), s.meter.lwts.Load(); err == nil && sent != passed {
		err = fmt.Errorf("the lock client reported %d conditional requests and the store saw %d: do not trust its count", sent, passed)
	}
	return err
}

// watcher counts sends as the lock client reports them.
type watcher struct {
	sent  atomic.Int64
	audit *audit
}

func (w *watcher) Begin(op lock.Op) lock.Span { return &span{w: w, op: op} }

func (w *watcher) LeaseLost(string, string, int64, error) {}

type span struct {
	w  *watcher
	op lock.Op
}

func (s *span) Sending(int) { s.w.sent.Add(1) }

func (s *span) End(r lock.Result) {
	if s.op.Kind != lock.Acquire {
		return
	}
	switch r.Outcome {
	case store.OK:
		s.w.audit.key(s.op.Resource).changed()
	case store.Unknown:
		s.w.audit.key(s.op.Resource).doubt()
	}
}
