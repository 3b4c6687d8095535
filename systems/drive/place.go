package drive

import (
	"time"
)

// Place is where locks are.
type Place struct {
	// Nodes are those of the store, as "ip:port".
	Nodes []string
	// Name is the run's own: what it keeps in the store begins with it.
	Name string
	// Locks are those of the run.
	Locks []string
	// TTL is the time of a lease.
	TTL time.Duration
	// Secret is a file with what is shown at a login, "" if nothing is.
	Secret string
}
