// Package benchtest has what tests of several suites need.
package benchtest

import (
	"context"
	"sync"
	"time"

	"fencepost/bench"
)

// Company are subjects that run at the same time, as if they were processes.
type Company struct{ prepared, ended sync.WaitGroup }

var _ bench.Company = (*Company)(nil)

// NewCompany is one of so many subjects.
func NewCompany(n int) *Company {
	c := &Company{}
	c.prepared.Add(n)
	c.ended.Add(n)
	return c
}

// Start implements bench.Company.
func (c *Company) Start(context.Context) (time.Time, error) {
	c.prepared.Done()
	c.prepared.Wait()
	return time.Now().Add(time.Millisecond), nil
}

// End implements bench.Company.
func (c *Company) End(context.Context) error {
	c.ended.Done()
	c.ended.Wait()
	return nil
}
