package locks

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"fencepost/bench"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// meter counts what passes through a store.
type meter struct {
	store.Locks
	bench.Meter
}

func (m *meter) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	answered := m.Conditional()
	res, err := m.Locks.CAS(ctx, resource, from, to, copyNo)
	answered(res.Applied, err)
	return res, err
}

func (m *meter) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	m.Meter.Read(serial)
	return m.Locks.Read(ctx, resource, serial)
}

// plainTable has the columns of a lock row and is only ever written plainly:
// plain and conditional writes of one row do not mix.
const plainTable = "CREATE TABLE IF NOT EXISTS bench_plain (resource text PRIMARY KEY, fence bigint, beat bigint, attempt uuid, holder text, ttl_ms bigint, expires_hint timestamp) " +
	"WITH compaction = {'class': 'LeveledCompactionStrategy'}"

const plainWrite = "UPDATE bench_plain SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ?, expires_hint = ? WHERE resource = ?"

// plain is W.
type plain struct {
	db   *cassandra.DB
	ttl  time.Duration
	sent atomic.Int64
}

// Window implements bench.Subject.
func (s *plain) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	return measure(ctx, w, s)
}

func (s *plain) operate(ctx context.Context, th *bench.Thread, key string, _ func() bool) bench.End {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.sent.Add(1)
	return bench.EndOf(s.db.Exec(ctx, plainWrite, int64(1), int64(0), uuid.NewString(), holder(th), s.ttl.Milliseconds(), time.Now().UTC().Add(s.ttl), key))
}

// Traffic implements bench.Operator.
func (s *plain) Traffic() bench.Traffic { return bench.Traffic{Plain: s.sent.Load()} }

// Close implements bench.Subject.
func (s *plain) Close(context.Context) error { return nil }

// requestTimeout bounds one request of the bare arms; it is the session's own
// limit, which a context with a deadline of its own would replace.
const requestTimeout = cassandra.DefaultRequestTimeout

// Ceiling makes arms of bare conditional updates and follows their rows.
type Ceiling struct {
	locks store.Locks
	ttl   time.Duration
	audit *audit
}

// NewCeiling returns a ceiling on these rows, which carry the ttl.
func NewCeiling(l store.Locks, ttl time.Duration) *Ceiling {
	return &Ceiling{locks: l, ttl: ttl, audit: newAudit()}
}

// CeilingArm is the ceiling's arm with so many threads.
func CeilingArm(threads int, c Contention) bench.Arm {
	return bench.Arm{ID: fmt.Sprintf("C/%d", threads), Kind: "cas", Letter: "C", Name: "bare LWT", Threads: threads, Contention: string(c), Changes: 1}
}

// Subject makes an arm.
func (c *Ceiling) Subject() bench.Subject {
	return &bare{meter: &meter{Locks: c.locks}, audit: c.audit, ttl: c.ttl}
}

// Verify reads every row once more: it must show as many updates as were
// acknowledged. It returns violations, and what was looked at.
func (c *Ceiling) Verify(ctx context.Context) (violations []string, note string, err error) {
	err = c.audit.verifyRows(ctx, c.locks, updates)
	rows, n := c.audit.counts()
	return c.audit.found(), fmt.Sprintf("%d bare updates of %d rows, none lost", n, rows), err
}

// updates is how many a row of a bare arm shows.
func updates(v *store.Version) int64 { return v.Beat + 1 }

// bare is the ceiling at work.
type bare struct {
	*meter
	audit *audit
	ttl   time.Duration
	// known is the version of each row as each thread last saw it.
	known []map[string]*store.Version
}

// Window implements bench.Subject.
func (s *bare) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	s.known = make([]map[string]*store.Version, w.Arm.Threads)
	for i := range s.known {
		s.known[i] = map[string]*store.Version{}
	}
	return measure(ctx, w, s)
}

func (s *bare) operate(ctx context.Context, th *bench.Thread, key string, over func() bool) bench.End {
	known := s.known[th.Number]
	for {
		from := known[key]
		to := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: holder(th), TTL: s.ttl}
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
			return bench.EndOf(err)
		}
		if res.Applied {
			s.audit.key(key).changed()
			known[key] = &to
			return bench.End{Outcome: store.OK}
		}
		known[key] = res.Row
		if over() {
			return bench.End{GaveUp: true}
		}
	}
}

// Close implements bench.Subject.
func (s *bare) Close(context.Context) error { return nil }

func holder(th *bench.Thread) string { return fmt.Sprintf("bench/t%d", th.Overall) }
