package drill

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// table is a table of a drill's own, with leases as one would write them without the core.
type table struct {
	name string
	// accord: its transactions are Accord's. Its keyspace cannot be dropped before it is.
	accord bool
	// asksAll: its reads ask all replicas at once, so that they need not wait for one that is cut off.
	// Paxos v1 reads the row in a round of its own.
	asksAll bool
	// locks are its rows as lock rows; sealing the same for the last write, nil: no other.
	locks, sealing func(*cassandra.DB) store.Locks
}

func (t *table) create() string {
	cql := "CREATE TABLE IF NOT EXISTS " + t.name + " (resource text PRIMARY KEY, fence bigint, beat bigint, attempt uuid, holder text)" +
		" WITH comment = 'leases of a drill'"
	if t.accord {
		cql += " AND transactional_mode = 'full'"
	}
	if t.asksAll {
		cql += " AND speculative_retry = 'ALWAYS'"
	}
	return cql
}

func (t *table) sealed(db *cassandra.DB) store.Locks {
	if t.sealing != nil {
		return t.sealing(db)
	}
	return t.locks(db)
}

// readLease reads a row of such a table; there may be none.
func readLease(ctx context.Context, db *cassandra.DB, table, resource string, serial bool) ([]map[string]any, error) {
	return db.QueryBy(ctx, 0, serial, store.Statement{
		CQL: "SELECT fence, beat, attempt, holder FROM " + table + " WHERE resource = ?", Args: []any{resource}, Partition: []any{resource},
	})
}

// ttlRows are leases that end by the database's TTL. The holder alone expires:
// a row that expired is then told apart from one that never was.
var ttlRows = &table{name: ttlTable, locks: func(db *cassandra.DB) store.Locks { return ttlLeases{db} }}

const ttlTable = "ttl_leases"

// ttlLeases are the rows of ttlTable as lock rows.
type ttlLeases struct{ db *cassandra.DB }

var _ store.Locks = ttlLeases{}

// Read implements store.Locks.
func (l ttlLeases) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	rows, err := readLease(ctx, l.db, ttlTable, resource, serial)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return ttlVersion(rows[0])
}

// CAS implements store.Locks: one conditional batch, as a statement has one TTL
// for all that it sets.
func (l ttlLeases) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	part := []any{resource}
	stay := store.Statement{Partition: part}
	if from == nil {
		stay.CQL = "INSERT INTO " + ttlTable + " (resource, fence, beat, attempt) VALUES (?, ?, ?, ?) IF NOT EXISTS"
		stay.Args = []any{resource, to.Fence, to.Beat, to.Attempt}
	} else {
		stay.CQL = "UPDATE " + ttlTable + " SET fence = ?, beat = ?, attempt = ? WHERE resource = ? IF fence = ? AND beat = ? AND attempt = ? AND holder = ?"
		stay.Args = []any{to.Fence, to.Beat, to.Attempt, resource, from.Fence, from.Beat, from.Attempt, orNull(from.Holder)}
	}
	expire := store.Statement{
		CQL:  "UPDATE " + ttlTable + " USING TTL ? SET holder = ? WHERE resource = ?",
		Args: []any{int32(to.TTL.Seconds()), orNull(to.Holder), resource}, Partition: part,
	}
	applied, rows, err := l.db.CAS(ctx, copyNo, stay, expire)
	if err != nil || applied || len(rows) == 0 {
		return store.CASResult{Applied: applied}, err
	}
	row, err := ttlVersion(rows[0])
	return store.CASResult{Row: row}, err
}

// orNull: no holder is a null, which is also what an expired one is; so is a token that is gone.
func orNull[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

func ttlVersion(row map[string]any) (*store.Version, error) {
	fence, ok1 := row["fence"].(int64)
	beat, ok2 := row["beat"].(int64)
	attempt, ok3 := row["attempt"].(string)
	if !ok1 || !ok2 || !ok3 || fence < 1 {
		return nil, &store.Error{Op: "read a lease", Outcome: store.Unknown, Cause: fmt.Errorf("the row is malformed: %v", row)}
	}
	holder, _ := row["holder"].(string) // null: expired or free
	return &store.Version{Fence: fence, Beat: beat, Attempt: attempt, Holder: holder, TTL: LeaseTTL}, nil
}

// plainLeases are rows that live or expire as a whole.
type plainLeases struct {
	db    *cassandra.DB
	table string
	// first and later are the TTLs, in seconds, of what a first write sets and of what later
	// ones do; 0: none.
	first, later int32
	// ownerOnly: a renewal sets who holds the lease and how often it was renewed, and nothing else.
	ownerOnly bool
}

var (
	_ store.Locks = plainLeases{}
	_ plainWriter = plainLeases{}
)

// Read implements store.Locks. A column that is gone is read as a client would: as nothing.
func (l plainLeases) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	rows, err := readLease(ctx, l.db, l.table, resource, serial)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return plainVersion(rows[0]), nil
}

// CAS implements store.Locks.
func (l plainLeases) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	applied, rows, err := l.db.CAS(ctx, copyNo, l.conditional(resource, from, to))
	if err != nil || applied || len(rows) == 0 {
		return store.CASResult{Applied: applied}, err
	}
	return store.CASResult{Row: plainVersion(rows[0])}, nil
}

// conditional is the statement of a compare-and-set.
func (l plainLeases) conditional(resource string, from *store.Version, to store.Version) store.Statement {
	s := store.Statement{Partition: []any{resource}}
	if from == nil {
		s.CQL = l.insert() + " IF NOT EXISTS" + using(l.first)
		s.Args = []any{resource, to.Fence, to.Beat, to.Attempt, orNull(to.Holder)}
		return s
	}
	set := "fence = ?, beat = ?, attempt = ?, holder = ?"
	s.Args = []any{to.Fence, to.Beat, to.Attempt, orNull(to.Holder)}
	if l.ownerOnly && to.Attempt == from.Attempt {
		set, s.Args = "beat = ?, holder = ?", []any{to.Beat, orNull(to.Holder)}
	}
	s.CQL = "UPDATE " + l.table + using(l.later) + " SET " + set + " WHERE resource = ? IF fence = ? AND beat = ? AND attempt = ? AND holder = ?"
	s.Args = append(s.Args, resource, orNull(from.Fence), from.Beat, orNull(from.Attempt), orNull(from.Holder))
	return s
}

// Plain implements plainWriter.
func (l plainLeases) Plain(ctx context.Context, resource string, v store.Version, at time.Time) error {
	return l.db.Exec(ctx, l.insert()+" USING TIMESTAMP ?", resource, v.Fence, v.Beat, v.Attempt, orNull(v.Holder), at.UnixMicro())
}

func (l plainLeases) insert() string {
	return "INSERT INTO " + l.table + " (resource, fence, beat, attempt, holder) VALUES (?, ?, ?, ?, ?)"
}

func using(ttl int32) string {
	if ttl == 0 {
		return ""
	}
	return fmt.Sprintf(" USING TTL %d", ttl)
}

// plainVersion is a row of which columns may be gone.
func plainVersion(row map[string]any) *store.Version {
	v := &store.Version{TTL: LeaseTTL}
	v.Fence, _ = row["fence"].(int64)
	v.Beat, _ = row["beat"].(int64)
	v.Attempt, _ = row["attempt"].(string)
	v.Holder, _ = row["holder"].(string)
	return v
}
