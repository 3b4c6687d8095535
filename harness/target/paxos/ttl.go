package paxos

import (
	"context"
	"fmt"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// ttlTable holds leases that end by the database's TTL. The holder alone expires:
// a row that expired is then told apart from one that never was.
const ttlTable = "ttl_leases"

const createTTL = "CREATE TABLE IF NOT EXISTS " + ttlTable + " (resource text PRIMARY KEY, fence bigint, beat bigint, attempt uuid, holder text)" +
	" WITH comment = 'leases with a TTL, as one would write them without a fence'"

// ttlLeases are the rows of ttlTable as lock rows.
type ttlLeases struct{ db *cassandra.DB }

var _ store.Locks = ttlLeases{}

// Read implements store.Locks.
func (l ttlLeases) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	rows, err := l.db.QueryBy(ctx, 0, serial, store.Statement{
		CQL: "SELECT fence, beat, attempt, holder FROM " + ttlTable + " WHERE resource = ?", Args: []any{resource}, Partition: []any{resource},
	})
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

// orNull: no holder is a null, which is also what an expired one is.
func orNull(holder string) any {
	if holder == "" {
		return nil
	}
	return holder
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
