package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
)

// The traps: what becomes of a lease that is written in a way in which people write them. Some
// are bugs of releases, some hold for all. Beside each of the latter is the way that is sound.
const (
	Lease2038   = "trap-lease-2038"
	WriteInTime = "trap-write-in-time"
	WriteAhead  = "trap-write-ahead"
	RenewsAll   = "trap-renews-all"
	RenewsOwner = "trap-renews-owner"
	AccordLock  = "trap-accord-lock"
	AccordLease = "trap-accord-lease"

	KilledNode = "trap-killed-node"

	DriverRetries  = "trap-driver-retries"
	DriverAsksOnce = "trap-driver-asks-once"
)

// trapPrefix is what the names of all traps begin with.
const trapPrefix = "trap-"

// IsTrap reports whether a drill is a trap.
func IsTrap(name string) bool { return strings.HasPrefix(name, trapPrefix) }

const (
	// twentyYears is the longest time to live that Cassandra takes, in seconds.
	twentyYears = 20 * 365 * 24 * 60 * 60
	// tenMinutes outlive a run's attempts.
	tenMinutes = 600
	// clockAhead is how wrong the clock is of a client that writes plainly.
	clockAhead = time.Hour
	// expiryGrace: the server counts whole seconds.
	expiryGrace = 1200 * time.Millisecond
)

var traps = []scene{
	{name: Lease2038, attempts: 3, rows: plainRows("long_leases", plainLeases{first: twentyYears}), steps: twoTakers},
	{name: WriteInTime, attempts: 3, rows: plainRows("plain_leases", plainLeases{}), steps: writtenPlainly(0)},
	{name: WriteAhead, attempts: 3, rows: plainRows("plain_leases", plainLeases{}), steps: writtenPlainly(clockAhead)},
	{name: RenewsAll, attempts: 2, rows: plainRows("renewed_leases", renewedLeases(false)), steps: renewedOnce},
	{name: RenewsOwner, attempts: 2, rows: plainRows("renewed_leases", renewedLeases(true)), steps: renewedOnce},
	{name: AccordLock, attempts: 3, rows: onAccord(plainLeases{}), steps: twoTakers},
	{name: AccordLease, attempts: 3, rows: onAccord(plainLeases{first: tenMinutes}), steps: twoTakers},
	{name: KilledNode, attempts: 4, rows: onAny(), steps: killedAtTheAnswer},
	{name: DriverRetries, attempts: 3, rows: plainRows("driver_leases", plainLeases{}), steps: answerLost(&gocql.SimpleRetryPolicy{NumRetries: 3})},
	{name: DriverAsksOnce, attempts: 3, rows: plainRows("driver_leases", plainLeases{}), steps: answerLost(nil)},
}

func renewedLeases(ownerOnly bool) plainLeases {
	return plainLeases{first: int32(LeaseTTL / time.Second), later: tenMinutes, ownerOnly: ownerOnly}
}

// plainRows is a table of such leases. What seals them does not expire.
func plainRows(name string, l plainLeases) *table {
	l.table = name
	return &table{
		name:    name,
		locks:   func(db *cassandra.DB) store.Locks { l := l; l.db = db; return l },
		sealing: func(db *cassandra.DB) store.Locks { return plainLeases{db: db, table: name} },
	}
}

// onAny is a table of which any two nodes answer at once.
func onAny() *table {
	t := plainRows("kept_leases", plainLeases{})
	t.asksAll = true
	return t
}

// onAccord is a table whose transactions are Accord's.
func onAccord(l plainLeases) *table {
	t := plainRows("accord_leases", l)
	t.accord = true
	return t
}

// twoTakers: a client takes the lease, and then another one tries.
func twoTakers(ctx context.Context, a *attempt) (took bool, text string, err error) {
	first := a.holder.cas(ctx, history.OpAcquire, a.key, nil, a.holder.grant(nil))
	second := a.rivalAtN2.cas(ctx, history.OpAcquire, a.key, nil, a.rivalAtN2.grant(nil))
	row, err := a.observerAtN2.read(ctx, a.key)
	return first.certain() && second.certain(), fmt.Sprintf("the first taker: %s; the second: %s; then a SERIAL read: %s",
		firstLine(first), firstLine(second), row), err
}

// certain: the server has said what became of it.
func (r result) certain() bool { return r.err == nil || store.OutcomeOf(r.err) == store.Fail }

// writtenPlainly: a client whose clock is ahead takes a free lease by a plain write, and
// releases it by a conditional one.
func writtenPlainly(ahead time.Duration) func(context.Context, *attempt) (bool, string, error) {
	return func(ctx context.Context, a *attempt) (took bool, text string, err error) {
		v := a.holder.grant(nil)
		if err := a.holder.plain(ctx, a.key, v, time.Now().Add(ahead)); err != nil {
			return false, "", err
		}
		res := a.holder.cas(ctx, history.OpRelease, a.key, &v, freed(v))
		row, err := a.observerAtN2.read(ctx, a.key)
		return res.applied, fmt.Sprintf("written plainly by a clock that is %s ahead; the conditional release: %s; then a SERIAL read: %s",
			ahead, firstLine(res), row), err
	}
}

// renewedOnce: a lease is renewed in time, and looked at when it would have ended without.
func renewedOnce(ctx context.Context, a *attempt) (took bool, text string, err error) {
	v := a.holder.grant(nil)
	if res := a.holder.cas(ctx, history.OpAcquire, a.key, nil, v); !res.applied {
		return false, "", notPrepared{res}
	}
	granted := time.Now()
	if err := pause(ctx, renewAfter); err != nil {
		return false, "", err
	}
	res := a.holder.cas(ctx, history.OpRenew, a.key, &v, renewed(v))
	if err := pause(ctx, time.Until(granted.Add(LeaseTTL+expiryGrace))); err != nil {
		return false, "", err
	}
	row, err := a.observerAtN2.read(ctx, a.key)
	return res.applied, fmt.Sprintf("the renewal: %s; a SERIAL read when the first lease would have ended: %s", firstLine(res), row), err
}

// answerLost: a client asks for a lease through the driver, and the first answer does not come.
// What the driver says in the end is what the client believes: told that it is not applied, it
// goes its way. Only if it does not know it looks for its own attempt, and then has the lease.
func answerLost(retries gocql.RetryPolicy) func(context.Context, *attempt) (bool, string, error) {
	return func(ctx context.Context, a *attempt) (took bool, text string, err error) {
		rows, err := a.driver(retries)
		if err != nil {
			return false, "", err
		}
		defer func() { err = errors.Join(err, rows.close()) }()
		asking := &client{proc: a.holder.proc, locks: rows, rec: a.holder.rec}
		v := asking.grant(nil)
		res := asking.cas(ctx, history.OpAcquire, a.key, nil, v)
		took, text = rows.lost()
		text = fmt.Sprintf("%s; it said: %s", text, firstLine(res))
		if res.certain() {
			row, err := a.observerAtN2.read(ctx, a.key)
			return took, fmt.Sprintf("%s; then a SERIAL read: %s", text, row), err
		}
		row, err := a.holderAtN2.read(ctx, a.key)
		if err != nil || row == nil || row.Attempt != v.Attempt {
			return took, fmt.Sprintf("%s; its SERIAL read: %s", text, row), err
		}
		freeing := a.holderAtN2.cas(ctx, history.OpRelease, a.key, &v, freed(v))
		return took, fmt.Sprintf("%s; its SERIAL read: %s; its release: %s", text, row, firstLine(freeing)), freeing.err
	}
}
