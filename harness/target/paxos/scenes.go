package paxos

import (
	"context"
	"time"

	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// attempt is one try at the bug, on a row of its own.
type attempt struct {
	key string
	// Actors: the holder acts through n1, where its write is made incomplete; it
	// reads through n2 too. Rival and observer are others.
	holder, holderAtN2, rivalAtN1, rivalAtN2, observerAtN1, observerAtN2 *client
	// held is the version that the holder's write names, to the one that it sets.
	held *store.Version
	to   store.Version
	// granted is when the grant with a TTL had been answered.
	granted time.Time
	// committed waits until every node has the last write.
	committed func(context.Context) error
}

// acquire: the first write of the row.
func acquire(ctx context.Context, a *attempt) result {
	a.to = a.holder.grant(nil)
	return a.holder.cas(ctx, history.OpAcquire, a.key, nil, a.to)
}

func readAtN1(ctx context.Context, a *attempt) error {
	_, err := a.observerAtN1.read(ctx, a.key)
	return err
}

func readAtN2(ctx context.Context, a *attempt) error {
	_, err := a.observerAtN2.read(ctx, a.key)
	return err
}

// rejectedAtN2 sends a conditional write that cannot apply, as the version that it
// names never existed: its rejection shows the row as a read does.
func rejectedAtN2(ctx context.Context, a *attempt) error {
	never := renewed(a.to)
	return a.rivalAtN2.cas(ctx, history.OpAcquire, a.key, &never, a.rivalAtN2.grant(&never)).err
}

// hold lets the holder take the lock. The last commit must be everywhere: a node
// that lacks it costs Paxos v1 a round more, and the cut would come too early.
func hold(ctx context.Context, a *attempt) error {
	v := a.holder.grant(nil)
	if res := a.holder.cas(ctx, history.OpAcquire, a.key, nil, v); !res.applied {
		return notPrepared{res}
	}
	a.held = &v
	return a.committed(ctx)
}

func release(ctx context.Context, a *attempt) result {
	a.to = freed(*a.held)
	return a.holder.cas(ctx, history.OpRelease, a.key, a.held, a.to)
}

// holderReadsAtN2: the holder resolves its unknown release, as one does.
func holderReadsAtN2(ctx context.Context, a *attempt) error {
	_, err := a.holderAtN2.read(ctx, a.key)
	return err
}

// rivalAcquiresAtN1 takes the lock if it looks free.
func rivalAcquiresAtN1(ctx context.Context, a *attempt) error {
	row, err := a.rivalAtN1.read(ctx, a.key)
	if err != nil || !row.Free() {
		return err
	}
	return a.rivalAtN1.cas(ctx, history.OpAcquire, a.key, row, a.rivalAtN1.grant(row)).err
}

// renewAfter is when the holder of a lease with a TTL renews it: late, so that its
// renewed lease outlives the first by more than the observations take.
const renewAfter = LeaseTTL * 7 / 12

// holdWithTTL takes a lease with a TTL and waits until it is to be renewed.
func holdWithTTL(ctx context.Context, a *attempt) error {
	v := a.holder.grant(nil)
	a.holder.expiry(a.key, v) // recorded before it can happen
	if res := a.holder.cas(ctx, history.OpAcquire, a.key, nil, v); !res.applied {
		return notPrepared{res}
	}
	a.held, a.granted = &v, time.Now()
	if err := a.committed(ctx); err != nil {
		return err
	}
	return pause(ctx, time.Until(a.granted.Add(renewAfter)))
}

func renew(ctx context.Context, a *attempt) result {
	a.to = renewed(*a.held)
	a.holder.expiry(a.key, a.to)
	return a.holder.cas(ctx, history.OpRenew, a.key, a.held, a.to)
}

// readExpiredAtN2 reads when the first lease's TTL is certainly over: the server
// counts whole seconds, from the write at the latest.
func readExpiredAtN2(ctx context.Context, a *attempt) error {
	if err := pause(ctx, time.Until(a.granted.Add(LeaseTTL+200*time.Millisecond))); err != nil {
		return err
	}
	return readAtN2(ctx, a)
}

// notPrepared: the write before the one to be made incomplete did not succeed.
type notPrepared struct{ result }

func (e notPrepared) Error() string { return "the row could not be prepared: " + e.String() }
