package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"fencepost/systems/drive"
)

// zkNode is an ephemeral node: it is there as long as the session of who created it. A session
// is renewed by its client's own pings; Renew asks the leader whether the node is still this
// session's. The transaction that created the node is the token.
type zkNode struct {
	conn     *zk.Conn
	prefix   string
	versions map[string]int32 // of the node, by id
	open     attempt          // whose node may be there
	leaving  attempt          // whose node a delete was sent for
}

// attempt is one to take a lock.
type attempt struct{ name, id string }

// sessionFor is longer than a lease: a leader that hears of a client through a follower may count
// a session from one tick earlier than the client does.
func sessionFor(ttl time.Duration) time.Duration { return ttl * 3 / 2 }

func openZooKeeper(_ context.Context, at drive.Place) (drive.Locker, error) {
	conn, _, err := zk.Connect(at.Nodes, sessionFor(at.TTL), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	return &zkNode{conn: conn, prefix: "/" + at.Name + ".", versions: map[string]int32{}}, nil
}

// within ends the wait for an answer; the request itself cannot be taken back.
func within[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		v, err := ask()
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

type found struct {
	id   string
	stat *zk.Stat // nil: there is no node
}

func (z *zkNode) look(ctx context.Context, name string) (found, error) {
	return within(ctx, func() (found, error) {
		if _, err := z.conn.Sync(z.prefix + name); err != nil {
			return found{}, err
		}
		text, stat, err := z.conn.Get(z.prefix + name)
		if errors.Is(err, zk.ErrNoNode) {
			return found{}, nil
		}
		return found{string(text), stat}, err
	})
}

func (z *zkNode) Acquire(ctx context.Context, name, id string, _ time.Duration) (int64, bool, error) {
	this := attempt{name, id}
	if z.open != this {
		if err := z.giveUp(ctx); err != nil {
			return 0, false, err
		}
		z.open = this
	}
	_, failed := within(ctx, func() (string, error) {
		return z.conn.Create(z.prefix+name, []byte(id), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	})
	if failed != nil && !errors.Is(failed, zk.ErrNodeExists) {
		return 0, false, failed
	}
	f, err := z.look(ctx, name)
	switch {
	case err != nil:
		return 0, false, err
	case f.stat != nil && f.id == id && f.stat.EphemeralOwner == z.conn.SessionID():
		z.versions[id] = f.stat.Version
		return f.stat.Czxid, true, nil
	case failed == nil:
		return 0, false, errors.New("the node was created and is gone: the session has ended")
	}
	return 0, false, nil
}

// giveUp removes the node of an attempt or a release that had no answer. It would be there as long
// as the session, which goes on.
func (z *zkNode) giveUp(ctx context.Context) error {
	if z.open == (attempt{}) {
		return nil
	}
	f, err := z.look(ctx, z.open.name)
	if err == nil && f.stat != nil && f.id == z.open.id {
		_, err = z.remove(ctx, z.open.name, f.stat.Version)
	}
	if err == nil {
		z.open = attempt{}
	}
	return err
}

func (z *zkNode) Renew(ctx context.Context, name, id string, _ time.Duration) (bool, error) {
	version := z.versions[id]
	stat, err := within(ctx, func() (*zk.Stat, error) { return z.conn.Set(z.prefix+name, []byte(id), version) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case errors.Is(err, zk.ErrBadVersion): // perhaps by an earlier copy
		f, err := z.look(ctx, name)
		if err != nil || f.stat == nil || f.id != id {
			return false, err
		}
		stat = f.stat
	case err != nil:
		return false, err
	}
	z.versions[id] = stat.Version
	return stat.EphemeralOwner == z.conn.SessionID(), nil
}

// Release: each node's versions begin at 0, so that the copy of a delete would delete the next holder's node.
// What a session asks for is done in order: a look after the first copy sees what came of it.
func (z *zkNode) Release(ctx context.Context, name, id string) (bool, error) {
	version := z.versions[id]
	if this := (attempt{name, id}); z.leaving != this {
		z.leaving = this
	} else {
		f, err := z.look(ctx, name)
		if err != nil || f.stat == nil || f.id != id {
			return false, err
		}
		version = f.stat.Version
	}
	released, err := z.remove(ctx, name, version)
	if released {
		delete(z.versions, id)
		z.open = attempt{}
	}
	return released, err
}

// remove deletes the node if it is of that version.
func (z *zkNode) remove(ctx context.Context, name string, version int32) (removed bool, err error) {
	_, err = within(ctx, func() (struct{}, error) { return struct{}{}, z.conn.Delete(z.prefix+name, version) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return false, nil
	}
	return err == nil, err
}

func (z *zkNode) Holder(ctx context.Context, name string) (string, error) {
	f, err := z.look(ctx, name)
	return f.id, err
}

func (z *zkNode) Seal(ctx context.Context, name, id string) (bool, error) {
	_, err := within(ctx, func() (string, error) {
		return z.conn.Create(z.prefix+name, []byte(id), 0, zk.WorldACL(zk.PermAll))
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return false, nil
	}
	return err == nil, err
}

func (z *zkNode) Close() error {
	z.conn.Close()
	return nil
}
