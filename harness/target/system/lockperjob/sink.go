package lockperjob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/system/unfenced"
)

// Sink accepts effects and records their tokens, with the rows of the Cassandra sink.
// It compares a token with nothing and asks of no key whether it was applied before:
// who wants to know reads first. What it does see to is that one call has one effect,
// however often the request has to be sent.
type Sink struct {
	sink.Sink
	db      unfenced.Database
	timeout time.Duration
	now     func() time.Time

	mu   sync.Mutex
	last map[string]sink.State // by resource: after the last effect of this process
}

// maxLast bounds what a Sink remembers.
const maxLast = 4096

// NewSink returns a sink in db's keyspace; each copy of a request may take timeout.
func NewSink(db *cassandra.DB, timeout time.Duration) *Sink {
	return newSink(cassandrasink.New(db, cassandrasink.Options{RequestTimeout: timeout}), db, timeout, db.Wall)
}

func newSink(inner sink.Sink, db unfenced.Database, timeout time.Duration, now func() time.Time) *Sink {
	return &Sink{Sink: inner, db: db, timeout: timeout, now: now, last: map[string]sink.State{}}
}

const insertKey = "INSERT INTO sink (resource, kind, seq, key, fence, fingerprint, attempt, entry_seq, at) VALUES (?, 1, 0, ?, ?, ?, ?, ?, ?)"

// Accept implements sink.Sink but for the refusals. A resend is told by key and token.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	sum := sha256.Sum256([]byte(e.Intent))
	attempt := uuid.NewString()
	end := func(outcome store.Outcome, err error) (sink.Answer, error) {
		return sink.Answer{}, &store.Error{Op: fmt.Sprintf("accept %s on %s with token %d", e.Key, resource, token), Outcome: outcome, Cause: err}
	}
	if e.Key == "" || token < 1 || issuer == "" {
		return end(store.Fail, fmt.Errorf("key %q, token %d, issuer %q: all are needed", e.Key, token, issuer))
	}
	st, outcome := s.guess(resource), store.Fail
	for {
		key := store.Statement{CQL: insertKey, Args: []any{resource, e.Key, token, sum[:], attempt, st.Seq + 1, s.now()}}
		try, cancel := context.WithTimeout(ctx, s.timeout)
		a, applied, err := unfenced.Write(try, s.db, st, resource, issuer, token, e, key)
		cancel()
		if applied {
			s.remember(resource, sink.State{Seq: a.Seq, Seen: a.Seen})
			return a, nil
		}
		if err != nil {
			if store.OutcomeOf(err) == store.Unknown {
				outcome = store.Unknown
			}
			if stopped := clock.Go().Sleep(ctx, pauseMin); stopped != nil {
				return end(outcome, errors.Join(stopped, err))
			}
		}
		if st, err = s.Read(ctx, resource, e.Key); err != nil {
			return end(outcome, err)
		}
		if st.Applied[e.Key] == token {
			return sink.Answer{Result: sink.Duplicate, FirstToken: token, Seen: st.Seen}, nil
		}
	}
}

// guess is where the resource's ledger stands: after this process's last effect, or at
// its beginning, as most effects are the first of their job. The write decides.
func (s *Sink) guess(resource string) sink.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[resource]
}

func (s *Sink) remember(resource string, st sink.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= maxLast {
		for old := range s.last { // any one: it only saves reads
			delete(s.last, old)
			break
		}
	}
	s.last[resource] = st
}

// unraised is a sink for tasks of this scheduler: a token that is compared with nothing
// need not be raised, so nobody is asked to.
type unraised struct{ sink.Sink }

func (unraised) Raise(_ context.Context, _, _ string, token int64) (sink.Answer, error) {
	return sink.Answer{Result: sink.Applied, Seen: token}, nil
}
