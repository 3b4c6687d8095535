package cassandrasink

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Options configure a Sink.
type Options struct {
	// RequestTimeout bounds the wait for the answer to one copy of a request;
	// then the identical request goes to another node. Default: the DB's.
	RequestTimeout time.Duration
	// Retires: resources of the keyspace's sink are retired, by this process or by others.
	// A call on a resource that is not there then reads its issuer's floor too, which is one
	// request more for each new resource. All processes that use the sink need it before any
	// of them retires anything: a call that does not look at floors takes a token that was
	// over for a new one. Default: no floor is read, and Retire is refused.
	Retires bool
}

// maxCached bounds the headers that a Sink remembers.
const maxCached = 4096

// database is what a Sink uses of a *cassandra.DB.
type database interface {
	CAS(ctx context.Context, copyNo int, stmts ...store.Statement) (applied bool, rows []map[string]any, err error)
	QueryBy(ctx context.Context, copyNo int, serial bool, s store.Statement) ([]map[string]any, error)
}

// Sink implements sink.Sink. Safe for concurrent use.
type Sink struct {
	db      database
	timeout time.Duration
	retires bool
	now     func() time.Time

	mu      sync.Mutex
	headers map[string]sink.Header
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Pager   = (*Sink)(nil)
	_ sink.Retirer = (*Sink)(nil)
)

// New returns a sink in db's keyspace; db stays the caller's to close. A process
// that must reach its sink when it cannot reach its locks gives it a DB, and so
// connections, of its own.
func New(db *cassandra.DB, o Options) *Sink {
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = db.RequestTimeout()
	}
	s := newSink(db, o.RequestTimeout)
	s.retires = o.Retires
	s.now = db.Wall
	return s
}

func newSink(db database, timeout time.Duration) *Sink {
	return &Sink{db: db, timeout: timeout, now: time.Now, headers: map[string]sink.Header{}}
}

// Raise implements sink.Sink. A token that is already the highest is Applied.
func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.decide(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token})
}

// Accept implements sink.Sink.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return s.decide(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token, Effect: &e})
}

// decide makes decisions on what is known until one holds or ctx ends.
func (s *Sink) decide(ctx context.Context, of sink.Call) (sink.Answer, error) {
	c, err := newCall(of)
	if err != nil {
		return sink.Answer{}, err
	}
	v, ok := s.cached(c.Resource)
	if !ok {
		if v, err = s.look(ctx, c, false); err != nil {
			return sink.Answer{}, c.ended(ctx, err)
		}
	}
	for {
		if s.retires && v.header.Issuer == "" && v.key == nil {
			// Of a resource that is not there, the floor is read after that was seen.
			floor, err := s.floor(ctx, c.Issuer)
			if err != nil {
				return sink.Answer{}, c.ended(ctx, err)
			}
			v.header = sink.Fresh(floor)
		}
		d, ok := c.evaluate(v)
		switch {
		case !ok:
			if v, err = s.look(ctx, c, true); err != nil {
				return sink.Answer{}, c.ended(ctx, err)
			}
			continue
		case d.Kind == "":
			s.remember(c.Resource, v.header)
			return c.answer(d)
		}
		rows, applied, err := s.send(ctx, c, c.statements(v.header, d, s.now()))
		if err != nil {
			s.forget(c.Resource)
			return sink.Answer{}, err
		}
		if applied {
			s.remember(c.Resource, d.Header)
			return d.Answer, nil
		}
		if v, err = viewOf(rows, c); err != nil {
			return sink.Answer{}, c.ended(ctx, err)
		}
		// A rejected raise shows the header alone: of the key it says nothing.
		v.serial = d.Kind == sink.KindAccept
		s.remember(c.Resource, v.header)
	}
}

// send sends copies of one batch until one is answered. With an error, ctx ended or the
// nodes refuse the batch for good.
func (s *Sink) send(ctx context.Context, c *call, batch []store.Statement) (rows []map[string]any, applied bool, err error) {
	var pause sink.Pause
	var last error
	var refused store.Refusals
	for copyNo := 0; ; copyNo++ {
		if ctx.Err() != nil || refused.Final(last) {
			return nil, false, c.ended(ctx, last)
		}
		start := time.Now()
		reqCtx, cancel := context.WithTimeout(ctx, s.timeout)
		applied, rows, err = s.db.CAS(reqCtx, copyNo, batch...)
		cancel()
		if err == nil {
			return rows, applied, nil
		}
		last = err
		c.note(err)
		if spent := time.Since(start); spent < s.timeout {
			pause.Wait(ctx)
		}
	}
}

// read runs a query, by one node after another, until it is answered, refused for good
// or ctx ends.
func (s *Sink) read(ctx context.Context, serial bool, stmt store.Statement) ([]map[string]any, error) {
	var pause sink.Pause
	var last error
	var refused store.Refusals
	for copyNo := 0; ; copyNo++ {
		if final := refused.Final(last); final || ctx.Err() != nil {
			return nil, &store.Error{Op: "read sink", Outcome: store.Fail, Permanent: final, Cause: errors.Join(context.Cause(ctx), last)}
		}
		// A long ledger has many pages: a read that timed out gets more time.
		reqCtx, cancel := context.WithTimeout(ctx, s.timeout<<min(copyNo, 4))
		rows, err := s.db.QueryBy(reqCtx, copyNo, serial, stmt)
		cancel()
		if err == nil {
			return rows, nil
		}
		last = err
		pause.Wait(ctx)
	}
}

// look reads the header and the call's key.
func (s *Sink) look(ctx context.Context, c *call, serial bool) (view, error) {
	var keys []string
	if c.Effect != nil {
		keys = []string{c.Effect.Key}
	}
	rows, err := s.read(ctx, serial, selectRows(c.Resource, keys))
	if err != nil {
		return view{}, err
	}
	v, err := viewOf(rows, c)
	v.serial = serial
	return v, err
}

func (s *Sink) cached(resource string) (view, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.headers[resource]
	if !ok {
		return view{}, false
	}
	return view{header: h}, true
}

func (s *Sink) remember(resource string, h sink.Header) {
	if h.Issuer == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.headers[resource]; ok && old.Seq > h.Seq {
		return
	}
	if len(s.headers) >= maxCached {
		for old := range s.headers { // any one: the cache only saves reads
			delete(s.headers, old)
			break
		}
	}
	s.headers[resource] = h
}

func (s *Sink) forget(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.headers, resource)
}

// ended is the error of a call that was not answered: its context ended, or the nodes
// refuse it for good.
func (c *call) ended(ctx context.Context, last error) error {
	e := sink.Ended(ctx, c.String(), last, c.uncertain)
	e.Permanent = store.IsPermanent(last)
	e.ServerTimeout = c.uncertain > 0 && c.lastTimeout && !c.unanswered
	return e
}
