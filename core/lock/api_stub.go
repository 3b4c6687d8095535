package lock

import (
	"context"
	"time"

	"fencepost/core/store"
)

// Request asks for a lock.
type Request struct {
	Resource, Holder string
	TTL, Timeout     time.Duration
}

type Client struct{}

func New(locks store.Locks, o Options) (*Client, error)                     { return nil, nil }
func (c *Client) Acquire(ctx context.Context, r Request) (*Lease, error)    { return nil, nil }
func (c *Client) TryAcquire(ctx context.Context, r Request) (*Lease, error) { return nil, nil }
func (c *Client) Close(ctx context.Context) error                           { return nil }

type Lease struct{}

func (l *Lease) Resource() string                  { return "" }
func (l *Lease) Holder() string                    { return "" }
func (l *Lease) Token() int64                      { return 0 }
func (l *Lease) TTL() time.Duration                { return 0 }
func (l *Lease) Context() context.Context          { return nil }
func (l *Lease) Deadline() time.Duration           { return 0 }
func (l *Lease) Valid() bool                       { return false }
func (l *Lease) Renew(ctx context.Context) error   { return nil }
func (l *Lease) Release(ctx context.Context) error { return nil }
