package sim

import (
	"errors"
	"fmt"

	"fencepost/core/store"
)

// ErrDead is the cause of the failure of a scan that passes more than Store.MaxDead
// deleted rows.
var ErrDead = errors.New("sim: the scan passes too many deleted rows")

// aboveAll is above any id.
const aboveAll = "\U0010FFFF"

// dead are the deleted rows of a partition that scans still pass over. Nothing ever
// drops them but a range deletion, which stands for all that lie in it: a test does not
// last for gc_grace_seconds.
type dead struct {
	rows  map[store.Key]bool
	inbox map[string]bool
}

func newDead() dead { return dead{map[store.Key]bool{}, map[string]bool{}} }

// between counts the deleted rows behind after, up to last.
func (d dead) between(after, last store.Key) (n int) {
	for k := range d.rows {
		if k.Kind == after.Kind && after.Less(k) && !last.Less(k) {
			n++
		}
	}
	return n
}

// passed is the error of a scan that has passed so many deleted rows.
func (s *Store) passed(what string, n int) error {
	if s.MaxDead == 0 || n <= s.MaxDead {
		return nil
	}
	err := fmt.Errorf("%w: %d after %s, at most %d are allowed", ErrDead, n, what, s.MaxDead)
	s.overrun = append(s.overrun, err)
	return err
}

// Overrun returns the scans that failed with ErrDead.
func (s *Store) Overrun() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.overrun...)
}
