package fault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"fencepost/harness/env/cluster/servers"
)

// Store is the servers of a store other than Cassandra, as faults of their own act on them and ask
// them, past all links; a *servers.Cluster is one.
type Store interface {
	// Mark writes a key into a server; taken is false of one that takes none for itself. Marked
	// says whether a server has it.
	Mark(ctx context.Context, node, key string) (taken bool, err error)
	Marked(ctx context.Context, node, key string) (bool, error)
	// Lose removes what a server without a process has stored; Stored says whether anything of
	// it is there.
	Lose(node string) error
	Stored(node string) (bool, error)
	// SetClock sets a server's wall clock wrong by an offset, Now asks for the time by it.
	SetClock(node string, offset time.Duration) error
	Now(ctx context.Context, node string) (time.Time, error)
	// Role is what a server says that it is, Promote makes a replica the primary.
	Role(ctx context.Context, node string) (servers.Role, error)
	Promote(ctx context.Context, node string) error
}

var _ Store = (*servers.Cluster)(nil)

var errNoStore = errors.New("this run's nodes are Cassandra's, which cannot have this fault")

// newMark is a key that nobody else has.
func newMark() string { return "fencepost-mark-" + rand.Text() }

// mark is a key that the harness wrote to a server.
type mark struct {
	node, key string
	// taken: the server has it for itself.
	taken bool
}

// newMarkOn writes a key to a server and reads it back.
func newMarkOn(ctx context.Context, s Store, node string) (m mark, err error) {
	m = mark{node: node, key: newMark()}
	if m.taken, err = s.Mark(ctx, node, m.key); err != nil || !m.taken {
		return m, err
	}
	there, err := s.Marked(ctx, node, m.key)
	if err == nil && !there {
		err = errors.New("it does not have the key that it has just been given")
	}
	return m, err
}

// asked asks a server until it answers, or readTries times.
func asked[T any](ctx context.Context, ask func(context.Context) (T, error)) (v T, err error) {
	for range readTries {
		once, cancel := context.WithTimeout(ctx, answerTimeout)
		v, err = ask(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return v, err
}

// askedFor asks until a server says so, or ctx is over: what it has from another comes late.
func askedFor[T any](ctx context.Context, so func(T) bool, ask func(context.Context) (T, error)) (v T, err error) {
	for {
		v, err = asked(ctx, ask)
		if err == nil && so(v) {
			return v, nil
		}
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("it is not so in time: %w", ctx.Err())
			}
			return v, err
		}
	}
}
