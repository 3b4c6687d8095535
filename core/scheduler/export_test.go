package scheduler

import (
	"net/http"

	"fencepost/core/forward"
)

// Wire has a scheduler reach others by rt instead of sockets, which bubbles do not know, and
// returns what serves them. The engine's Forward is the caller's.
func (s *Scheduler) Wire(rt http.RoundTripper) http.Handler {
	s.client = forward.NewClient(rt).WithSecret(s.secret)
	return s.server.Handler
}
