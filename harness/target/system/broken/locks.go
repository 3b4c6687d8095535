package broken

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("row-ttl", only(workload.Hooks{Locks: casHook(0, rowTTL)}))
	plant("release-plain-write", only(workload.Hooks{Locks: casHook(lock.Release, plainWrite)}))
	plant("takeover-plain-write", only(workload.Hooks{Locks: casHook(lock.Acquire, takeoverPlainWrite)}))
	plant("takeover-ignores-beat", only(workload.Hooks{Locks: takeoverIgnoresBeat}))
	plant("wall-expiry", wallExpiry)
}

// lockHook is workload.Hooks.Locks.
type lockHook = func(workload.Config, *cassandra.DB, store.Locks) store.Locks

// casHook has compare-and-sets of one kind carried out by do; 0: all.
func casHook(kind lock.OpKind, do func(*cassandra.DB, mistake.CAS) (store.CASResult, error)) lockHook {
	return func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
		return mistake.Locks{Locks: inner, TTL: cfg.TTL, Kind: kind, Do: func(c mistake.CAS) (store.CASResult, error) { return do(db, c) }}
	}
}

// columns are those of a lock row but its name, in the order of the statements here.
func columns(v store.Version) []any {
	return []any{v.Fence, v.Beat, v.Attempt, v.Holder, v.TTL.Milliseconds()}
}

// Statements on lock rows, and the condition that names a whole version.
const (
	insertRow  = `INSERT INTO locks (resource, fence, beat, attempt, holder, ttl_ms) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS`
	setRow     = `SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?`
	ifAsBefore = ` IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?`
	updateRow  = `UPDATE locks ` + setRow + ifAsBefore
)

// writeRow sets a lock row without a condition.
func writeRow(ctx context.Context, db *cassandra.DB, resource string, to store.Version) error {
	return db.Exec(ctx, `UPDATE locks `+setRow, append(columns(to), resource)...)
}

// sendAs sends a compare-and-set as another statement.
func sendAs(db *cassandra.DB, c mistake.CAS, cql string, args ...any) (store.CASResult, error) {
	applied, _, err := db.CAS(c.Ctx, c.N, store.Statement{CQL: cql, Args: args, Partition: []any{c.Resource}})
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

// plainWrite is a write without a condition.
func plainWrite(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	err := writeRow(c.Ctx, db, c.Resource, c.To)
	return store.CASResult{Applied: err == nil}, err
}

// rowTTL lets the database expire lock rows; the row's whole history of tokens
// goes with them.
func rowTTL(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	seconds := int(c.TTL / time.Second)
	if c.From == nil {
		return sendAs(db, c, insertRow+` USING TTL ?`, append(append([]any{c.Resource}, columns(c.To)...), seconds)...)
	}
	args := append(append([]any{seconds}, columns(c.To)...), c.Resource)
	return sendAs(db, c, `UPDATE locks USING TTL ? `+setRow+ifAsBefore, append(args, columns(*c.From)...)...)
}

// takeoverPlainWrite reads the row and, if nothing has changed, writes it
// without a condition. Between the two it stands still for longer than a
// contender's polling interval (ttl/8), as a busy process may: two contenders
// then both find the row unchanged, in every run.
func takeoverPlainWrite(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	if c.From.Free() {
		return c.Send()
	}
	row, err := c.Inner.Read(c.Ctx, c.Resource, false)
	if err != nil {
		return store.CASResult{}, err
	}
	if !store.Same(row, c.From) {
		return store.CASResult{Row: row}, nil
	}
	_ = clock.Go().Sleep(c.Ctx, c.TTL/7)
	return plainWrite(db, c)
}

// takeoverIgnoresBeat looks at whose lease it is and not at whether it was
// renewed: a lease that is longer than its ttl is taken over while it is live.
func takeoverIgnoresBeat(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return &beatBlind{Locks: casHook(lock.Acquire, takeBlindly)(cfg, db, inner)}
}

type beatBlind struct {
	store.Locks
	first table[string, store.Version] // of each lease, as it was first seen
}

// Read shows a lease as it was first seen, whatever its beat is now.
func (b *beatBlind) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := b.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	if f, ok := b.first.get(resource); ok && f.Attempt == row.Attempt {
		return &f, nil
	}
	b.first.set(resource, *row)
	return row, nil
}

func takeBlindly(db *cassandra.DB, c mistake.CAS) (store.CASResult, error) {
	if c.From.Free() {
		return c.Send()
	}
	return sendAs(db, c, `UPDATE locks `+setRow+` IF fence = ? AND holder = ?`, append(columns(c.To), c.Resource, c.From.Fence, c.From.Holder)...)
}

// wallExpiry has contenders compare the row's expires_hint, which is by its
// holder's wall clock, with their own wall clock: a lease that has expired by
// it looks free.
func wallExpiry() workload.Hooks {
	w := &expiring{}
	return workload.Hooks{
		Locks: func(_ workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			w.Locks, w.db = inner, db
			return w
		},
		Observer: func(_ workload.Config, inner lock.Observer) lock.Observer { return expiryObserver{inner, w} },
	}
}

type expiring struct {
	store.Locks
	db     *cassandra.DB
	holder table[string, string] // of versions that were shown as free
}

func versionKey(v *store.Version) string { return fmt.Sprintf("%s/%d", v.Attempt, v.Beat) }

// Read shows an expired lease as free.
func (w *expiring) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := w.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	rows, err := w.db.QueryBy(ctx, 0, false, store.Statement{
		CQL: `SELECT attempt, beat, expires_hint FROM locks WHERE resource = ?`, Args: []any{resource}, Partition: []any{resource},
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0]["attempt"] != row.Attempt || rows[0]["beat"] != row.Beat {
		return row, nil // it has just changed
	}
	if hint, ok := rows[0]["expires_hint"].(time.Time); !ok || w.db.Wall().Before(hint) {
		return row, nil
	}
	w.holder.set(versionKey(row), row.Holder)
	row.Holder = ""
	return row, nil
}

// real is the version behind one that was shown as free.
func (w *expiring) real(v *store.Version) *store.Version {
	if !v.Free() || v == nil {
		return v
	}
	holder, ok := w.holder.get(versionKey(v))
	if !ok {
		return v
	}
	r := *v
	r.Holder = holder
	return &r
}

func (w *expiring) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	return w.Locks.CAS(ctx, resource, w.real(from), to, copyNo)
}

type expiryObserver struct {
	lock.Observer
	w *expiring
}

func (o expiryObserver) Begin(op lock.Op) lock.Span {
	if op.Kind == lock.Acquire {
		op.From = o.w.real(op.From)
		op.Takeover = !op.From.Free()
	}
	return o.Observer.Begin(op)
}
