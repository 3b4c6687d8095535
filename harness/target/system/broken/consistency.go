package broken

import (
	"context"
	"fmt"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

// Here statements are what they should be but for the level at which they are sent.

func init() {
	plant("locks-read-at-quorum", onOwn(locksAtQuorum))
	plant("ledger-read-at-quorum", only(workload.Hooks{Sink: ledgerAtQuorum}))
	plant("ledger-commit-at-one", ledgerCommitAtOne)
	plant("jobs-shard-read-at-one", onOwn(shardAtOne))
	plant("jobs-inbox-read-at-one", onOwn(inboxAtOne))
	plant("jobs-heartbeats-at-one", onOwn(heartbeatsAtOne))
}

// locksAtQuorum looks whether an earlier copy of a write was applied before it sends the next one,
// and reads at QUORUM for it, as wherever it reads.
func locksAtQuorum(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &quorumLocks{inner, o}
		},
	}
}

type quorumLocks struct {
	store.Locks
	o *ownSession
}

func (l *quorumLocks) Read(ctx context.Context, resource string, _ bool) (*store.Version, error) {
	return l.Locks.Read(ctx, resource, false)
}

func (l *quorumLocks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if copyNo > 0 {
		proc := to.Holder
		if proc == "" && from != nil {
			proc = from.Holder
		}
		if row := l.settle(ctx, proc, resource); row != nil && *row == to {
			return store.CASResult{Applied: true}, nil
		}
	}
	return l.Locks.CAS(ctx, resource, from, to, copyNo)
}

// settle is a read that decides, recorded like the client's own; nil: it says nothing.
func (l *quorumLocks) settle(ctx context.Context, proc, resource string) *store.Version {
	e := history.Event{Proc: proc, ID: l.o.rec.NewID(), Type: history.Invoke, Op: history.OpRead, Key: resource}
	l.o.rec.Record(e)
	row, err := l.Read(ctx, resource, true)
	if e.Type, e.Row = history.OK, workload.Version(row); err != nil {
		e.Type, e.Row, e.Error = history.Unknown, nil, err.Error()
	}
	l.o.rec.Record(e)
	return row
}

// onNodes is the session of the sink that is on the nodes, which the variants of its rows need
// (system.System.Sink).
func onNodes(w unfenced.Writer) *cassandra.DB {
	c, ok := w.(*sinks.OnNodes)
	if !ok {
		panic(fmt.Sprintf("broken: this variant is one of the sink %s, not of a %T", sinks.Cassandra, w))
	}
	return c.DB
}

// ledgerAtQuorum reads the ledger's header at QUORUM: a decision that is half-way is not seen.
func ledgerAtQuorum(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return quorumSink{inner, onNodes(past)}
}

type quorumSink struct {
	sink.Sink
	db *cassandra.DB
}

const selectHeader = `SELECT issuer, highest, last_seq, value, payload FROM sink WHERE resource = ? AND kind = 0 AND seq = 0 AND key = ''`

func (s quorumSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	if len(keys) > 0 {
		return s.Sink.Read(ctx, resource, keys...)
	}
	for copyNo := 0; ; copyNo++ {
		rows, err := s.db.QueryBy(ctx, copyNo, false, store.Statement{CQL: selectHeader, Args: []any{resource}, Partition: []any{resource}})
		if err != nil {
			if ctx.Err() != nil {
				return sink.State{}, err
			}
			continue
		}
		st := sink.State{Applied: map[string]int64{}}
		if len(rows) == 0 {
			return st, nil
		}
		st.Issuer, _ = rows[0]["issuer"].(string)
		st.Seen, _ = rows[0]["highest"].(int64)
		st.Seq, _ = rows[0]["last_seq"].(int64)
		st.Value, _ = rows[0]["value"].(int64)
		st.Payload, _ = rows[0]["payload"].([]byte)
		return st, nil
	}
}

// ledgerCommitAtOne decides like the sink, and commits what it has decided to one replica.
func ledgerCommitAtOne() workload.Hooks {
	o := &ownSession{atSink: true}
	return workload.Hooks{
		Recorder: o.recorder,
		Sink: func(_ workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
			return &hastySink{inner, o}
		},
	}
}

type hastySink struct {
	sink.Sink
	o *ownSession
}

const insertKey = `INSERT INTO sink (resource, kind, seq, key, fence, fingerprint, attempt, entry_seq, at) VALUES (?, 1, 0, ?, ?, ?, ?, ?, ?)`

func (s *hastySink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	for {
		st, err := s.Read(ctx, resource, e.Key)
		if err != nil {
			return sink.Answer{}, err
		}
		// What changes nothing, and a resource that is not there, is the sink's to answer.
		if _, applied := st.Applied[e.Key]; applied || st.Seq == 0 || st.Issuer != issuer || token < st.Seen {
			return s.Sink.Accept(ctx, resource, issuer, token, e)
		}
		key := store.Statement{CQL: insertKey, Args: []any{resource, e.Key, token, e.Fingerprint(), uuid.NewString(), st.Seq + 1, time.Now()}}
		if a, applied, err := unfenced.Write(ctx, oneCommitter{s.o}, st, resource, issuer, token, e, key); applied || err != nil {
			return a, err
		}
	}
}

// oneCommitter sends conditional batches that one replica alone must have.
type oneCommitter struct{ *ownSession }

func (c oneCommitter) CAS(ctx context.Context, _ int, stmts ...store.Statement) (bool, []map[string]any, error) {
	if err := c.atOne(); err != nil {
		return false, nil, err
	}
	b := c.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx)
	b.SetConsistency(gocql.One)
	b.SerialConsistency(gocql.Serial)
	for _, s := range stmts {
		b.Query(s.CQL, s.Args...)
	}
	row := map[string]any{}
	applied, rest, err := c.session.MapExecuteBatchCAS(b, row)
	if rest != nil {
		_ = rest.Close() // what was there instead is read again
	}
	if err != nil {
		return false, nil, &store.Error{Op: "commit at ONE", Outcome: store.Unknown, Cause: err}
	}
	return applied, nil, nil
}

// atOne opens the session at the consistency ONE.
func (o *ownSession) atOne() error {
	return o.opened(func() (*gocql.Session, error) { return o.connect(gocql.One) })
}

// shardAtOne asks one replica whether a shard's header has changed since it was last read.
func shardAtOne(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Shards: func(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
			return &thriftyShards{Shards: inner, o: o}
		},
	}
}

type thriftyShards struct {
	store.Shards
	o     *ownSession
	known table[store.ShardID, store.Header]
}

const selectStamp = `SELECT fence, tick FROM shards WHERE queue = ? AND shard = ? AND kind = 0 AND at = 0 AND id = ''`

func (s *thriftyShards) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	if err := s.o.atOne(); err != nil {
		return nil, err
	}
	var fence, tick int64
	err := s.o.session.Query(selectStamp, id.Queue, id.Shard).WithContext(ctx).Scan(&fence, &tick)
	if h, ok := s.known.get(id); ok && err == nil && h.Fence == fence && h.Tick == tick {
		return &h, nil
	}
	h, err := s.Shards.Look(ctx, id, serial)
	if err == nil && h != nil {
		s.known.set(id, *h)
	}
	return h, err
}

// inboxAtOne reads inboxes through one replica.
func inboxAtOne(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Shards: func(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
			return &thriftyInbox{inner, o}
		},
	}
}

type thriftyInbox struct {
	store.Shards
	o *ownSession
}

const selectInbox = `SELECT id, nonce, body FROM inbox WHERE queue = ? AND shard = ? AND id > ? AND id <= ? LIMIT ?`

func (s *thriftyInbox) InboxScan(ctx context.Context, id store.ShardID, after, upTo string, limit int) (out []store.InboxRow, err error) {
	if err := s.o.atOne(); err != nil {
		return nil, err
	}
	rows := s.o.session.Query(selectInbox, id.Queue, id.Shard, after, upTo, limit).WithContext(ctx).Iter()
	var r store.InboxRow
	var nonce gocql.UUID
	for rows.Scan(&r.ID, &nonce, &r.Body) {
		r.Nonce = nonce.String()
		out = append(out, r)
		r = store.InboxRow{}
	}
	if err := rows.Close(); err != nil {
		return nil, &store.Error{Op: "read an inbox at ONE", Outcome: store.Fail, Cause: err}
	}
	return out, nil
}

// heartbeatsAtOne writes heartbeats to one replica.
func heartbeatsAtOne(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Members: func(_ workload.Config, inner store.Members) store.Members {
			return &faintMembers{inner, o}
		},
	}
}

// heartbeats is the interface, by a name that its method does not have.
type heartbeats = store.Members

type faintMembers struct {
	heartbeats
	o *ownSession
}

const writeBeat = `INSERT INTO members (cell, name, nonce) VALUES (?, ?, ?) USING TTL ?`

func (m *faintMembers) Beat(ctx context.Context, cell, name, nonce string, keep time.Duration) error {
	if err := m.o.atOne(); err != nil {
		return err
	}
	id, err := gocql.ParseUUID(nonce)
	if err != nil {
		return &store.Error{Op: "beat at ONE", Outcome: store.Fail, Cause: err}
	}
	err = m.o.session.Query(writeBeat, cell, name, id, int(keep/time.Second)).WithContext(ctx).Exec()
	if err != nil {
		return &store.Error{Op: "beat at ONE", Outcome: store.Unknown, Cause: err}
	}
	return nil
}
