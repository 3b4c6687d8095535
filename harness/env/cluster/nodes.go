package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// NodeSet is the nodes of a backend, in order of their names.
type NodeSet[N Node] []N

// All returns them as scenarios and faults see them.
func (s NodeSet[N]) All() []Node {
	out := make([]Node, len(s))
	for i, n := range s {
		out[i] = n
	}
	return out
}

// Named returns the node of that name.
func (s NodeSet[N]) Named(name string) (Node, bool) {
	for _, n := range s {
		if n.Name() == name {
			return n, true
		}
	}
	return nil, false
}

// Each runs f for every node at the same time.
func (s NodeSet[N]) Each(f func(N) error) error {
	errs := make([]error, len(s))
	var wg sync.WaitGroup
	for i, n := range s {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ErrEnded is why AwaitPort gave up: the process at the port is gone.
var ErrEnded = errors.New("cluster: the process ended before it answered")

// AwaitPort returns when somebody accepts connections at addr. It ends early with
// ErrEnded when ended is closed, and with ctx's cause.
func AwaitPort(ctx context.Context, addr string, ended <-chan struct{}) error {
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	dialer := net.Dialer{Timeout: time.Second}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
