package broken

import (
	"time"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("row-ttl", locksHook(0, rowTTL))
	plant("release-plain-write", locksHook(lock.Release, releasePlainWrite))
}

// locksHook makes hooks of do for one kind of request; 0: all.
func locksHook(kind lock.OpKind, do func(*cassandra.DB, mistake.CAS) (store.CASResult, error)) func() workload.Hooks {
	return only(workload.Hooks{Locks: func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
		return mistake.Locks{Locks: inner, TTL: cfg.TTL, Kind: kind, Do: func(c mistake.CAS) (store.CASResult, error) { return do(db, c) }}
	}})
}

// releasePlainWrite frees the row by a write without a condition.
func releasePlainWrite(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	err := writeRow(c.Ctx, db, c.Resource, c.To)
	return store.CASResult{Applied: err == nil}, err
}

// rowTTL lets the database expire lock rows; the row's whole history of tokens
// goes with them.
func rowTTL(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	set := []any{int(c.TTL / time.Second), c.To.Fence, c.To.Beat, c.To.Attempt, c.To.Holder, c.To.TTL.Milliseconds()}
	s := store.Statement{Partition: []any{c.Resource}}
	if c.From == nil {
		s.CQL = `INSERT INTO locks (resource, fence, beat, attempt, holder, ttl_ms) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS USING TTL ?`
		s.Args = append(append([]any{c.Resource}, set[1:]...), set[0])
	} else {
		s.CQL = `UPDATE locks USING TTL ? SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?
			IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?`
		s.Args = append(set, c.Resource, c.From.Fence, c.From.Beat, c.From.Attempt, c.From.Holder, c.From.TTL.Milliseconds())
	}
	applied, _, err := db.CAS(c.Ctx, c.N, s)
	if err != nil || applied {
		return store.CASResult{Applied: applied}, err
	}
	row, err := c.Inner.Read(c.Ctx, c.Resource, true)
	if err != nil {
		// Refused for certain: only what is there instead is not known.
		err = &store.Error{Op: "refused; read " + c.Resource, Outcome: store.Fail, Cause: err}
	}
	return store.CASResult{Row: row}, err
}
