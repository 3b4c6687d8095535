package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/store"
)

// Change is one compare-and-set that was applied.
type Change struct {
	Resource string
	From     *store.Version
	To       store.Version
	Session  string
	At       time.Time
}

// Store holds the rows. The exported fields replace its behaviour by a broken
// one, to prove that a test would notice; set them before use.
type Store struct {
	// Match decides whether the row is the expected version; nil: it must be
	// the same in every field.
	Match func(row, from *store.Version) bool
	// Write returns the row that takes the old one's place; nil: to itself.
	Write func(row *store.Version, to store.Version) *store.Version
	// Reject returns the row that a rejection shows; nil: the row.
	Reject func(row, before *store.Version) *store.Version
	// MatchStamp decides whether a header has the stamp that a batch names;
	// nil: it must be the same in every field.
	MatchStamp func(row, from store.Stamp) bool
	// Refuses marks batches that the store will never take; nil: none.
	Refuses func(b store.Batch) bool
	// MaxDead is the most deleted rows that a scan may pass over: one that meets more
	// fails with ErrDead, as Cassandra's do beyond tombstone_failure_threshold while
	// deleted rows live for gc_grace_seconds. 0: no bound.
	MaxDead int

	mu      sync.Mutex
	rows    map[string]*store.Version
	before  map[string]*store.Version // the version before the current one
	changes []Change
	tables  tables
	overrun []error
	met     map[string]int
	runs    map[store.RunsDay]map[runKey]store.RunRow
	members map[memberKey]beat
}

// New returns an empty store.
func New() *Store {
	return &Store{met: map[string]int{}, rows: map[string]*store.Version{}, before: map[string]*store.Version{},
		runs: map[store.RunsDay]map[runKey]store.RunRow{}, members: map[memberKey]beat{},
		tables: tables{queues: map[string]store.Queue{}, shards: map[store.ShardID]*partition{}}}
}

// Changes returns what was applied, in order.
func (s *Store) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// Row returns the current row.
func (s *Store) Row(resource string) *store.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.rows[resource])
}

func (s *Store) cas(session, resource string, from *store.Version, to store.Version) store.CASResult {
	row := s.rows[resource]
	match := s.Match
	if match == nil {
		match = store.Same
	}
	if !match(row, from) {
		if s.Reject != nil {
			return store.CASResult{Row: clone(s.Reject(row, s.before[resource]))}
		}
		return store.CASResult{Row: clone(row)}
	}
	next := &to
	if s.Write != nil {
		next = s.Write(row, to)
	}
	s.before[resource] = row
	s.rows[resource] = clone(next)
	s.changes = append(s.changes, Change{Resource: resource, From: clone(row), To: to, Session: session, At: time.Now()})
	return store.CASResult{Applied: true}
}

func (s *Store) read(resource string, stale bool) *store.Version {
	if stale {
		return clone(s.before[resource])
	}
	return clone(s.rows[resource])
}

func clone(v *store.Version) *store.Version {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// Faults are the chances of each request. The zero value is a perfect network
// without delay.
type Faults struct {
	// Latency is the mean of one way; each way takes half to one and a half of it.
	Latency time.Duration
	// LoseRequest: it never arrives. LoseReply: it is executed and never
	// answered. Late: it is executed after up to LateBy and never answered.
	LoseRequest, LoseReply, Late float64
	LateBy                       time.Duration
	// Refuse: answered as certainly not begun. ServerTimeout: answered with the
	// coordinator's timeout, executed or not.
	Refuse, ServerTimeout float64
	// StaleRead: a plain read of a lock or a header shows the version before the current one,
	// one of other rows what its Level allows.
	StaleRead float64
	// Twice: a second copy of what is executed, and is neither Late nor refused, arrives up to LateBy
	// later.
	Twice float64
}

// Session is one process's connection. Safe for concurrent use.
type Session struct {
	store *Store
	name  string

	mu       sync.Mutex
	rnd      *rand.Rand
	more     *rand.Rand // of what was added later, so that seeds keep their runs
	levels   Levels
	faults   Faults
	cut      bool
	paused   time.Time
	suspends []suspend
	crashed  chan struct{}
	held     atomic.Int64 // how often a request had to wait, or might have had to; see line

	// Of requests whose fate is drawn by name.
	seed uint64
	sent map[string]uint64
}

// Connect opens a session. Its faults are drawn from its own stream of seed.
func (s *Store) Connect(name string, seed uint64) *Session {
	return &Session{store: s, name: name, rnd: rand.New(rand.NewPCG(seed, hash(name))),
		more: rand.New(rand.NewPCG(seed, hash(name)+1)), crashed: make(chan struct{}), seed: seed, sent: map[string]uint64{}}
}

// hash is FNV-1a.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// SetFaults replaces the faults of requests that are sent from now on.
func (p *Session) SetFaults(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Cut makes every request lost from now on, or ends that.
func (p *Session) Cut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// Crash ends the process: its calls return at once and its answers are lost.
// What it has sent stays on its way.
func (p *Session) Crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.crashed:
	default:
		close(p.crashed)
	}
}
