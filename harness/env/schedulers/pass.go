package schedulers

import (
	"context"
	"io"
	"net"
	"sync"
)

// pass hands every connection to l on to an address, until ctx ends. What is refused
// there is closed here.
func pass(ctx context.Context, l net.Listener, address string) {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		from, err := l.Accept()
		if err != nil {
			return // closed
		}
		open.Go(func() {
			defer from.Close()
			to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return
			}
			defer to.Close()
			// Both sides are closed when it ends, so that streams that nobody ends do.
			defer context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })()
			var way sync.WaitGroup
			way.Go(func() { relay(to, from) })
			way.Go(func() { relay(from, to) })
			way.Wait()
		})
	}
}

// relay copies until one end is over, and says so to the other.
func relay(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
