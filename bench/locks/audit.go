package locks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/core/store"
)

// audit is what makes a fast but unsafe lock lose: every token handed out is
// looked at in the process, and every row once more at the end.
type audit struct {
	// now is a clock that all processes share, and keeps holds; nil: nobody else's are to be
	// compared with them.
	now func() time.Duration

	mu   sync.Mutex
	keys map[string]*keyAudit
}

func newAudit() *audit { return &audit{keys: map[string]*keyAudit{}} }

func (a *audit) key(name string) *keyAudit {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[name]
	if k == nil {
		k = &keyAudit{name: name, now: a.now}
		a.keys[name] = k
	}
	return k
}

// grant is what the audit needs of a lease.
type grant interface {
	Token() int64
	Holder() string
	Valid() bool
}

// keyAudit follows one row.
type keyAudit struct {
	name string
	now  func() time.Duration

	mu     sync.Mutex
	inside grant   // who holds the lock, by its own word
	tokens []int64 // handed out, ascending
	// changes counts updates that were applied (of a lock: grants), doubts
	// those that may have been.
	changes, doubts int64
	violations      []string
	holds           []hold // in an agent, and of agents
}

func (k *keyAudit) changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
}

func (k *keyAudit) doubt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubts++
}

// enter is called by a holder between its grant and its release. A valid lease
// with a token that is not the highest so far means that two were entitled at
// once, or that a token was handed out twice. A holder whose lease has ended
// before it got here may come late: of its token only the uniqueness is judged.
func (k *keyAudit) enter(g grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != nil {
		k.holds = append(k.holds, begun(g, k.now()))
	}
	token, n := g.Token(), len(k.tokens)
	i, twice := slices.BinarySearch(k.tokens, token)
	switch {
	case twice:
		k.violate("token %d was handed out twice", token)
	case i < n && g.Valid():
		k.violate("token %d was handed out after token %d", token, k.tokens[n-1])
	}
	if g.Valid() {
		if k.inside != nil && k.inside.Valid() {
			k.violate("%s holds it with token %d while %s still does with token %d", g.Holder(), token, k.inside.Holder(), k.inside.Token())
		}
		k.inside = g
	}
	if !twice {
		k.tokens = slices.Insert(k.tokens, i, token)
	}
}

// leave is called before the release is sent.
func (k *keyAudit) leave(g grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != nil {
		k.lasted(g, k.now())
	}
	if k.inside == g {
		k.inside = nil
	}
}

func (k *keyAudit) violate(format string, args ...any) {
	k.violations = append(k.violations, k.name+": "+fmt.Sprintf(format, args...))
}

// found returns the violations so far.
func (a *audit) found() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, k := range a.keys {
		k.mu.Lock()
		out = append(out, k.violations...)
		k.mu.Unlock()
	}
	slices.Sort(out)
	return out
}

// counts returns the number of rows and of changes that were followed.
func (a *audit) counts() (rows int, changes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		k.mu.Lock()
		changes += k.changes
		k.mu.Unlock()
	}
	return len(a.keys), changes
}

// verifyRows reads every row by a SERIAL read when nothing is on its way any
// more. count tells how many changes a row shows: exactly those that were
// acknowledged, and any of those whose outcome stayed unknown.
func (a *audit) verifyRows(ctx context.Context, locks store.Locks, count func(*store.Version) int64) error {
	a.mu.Lock()
	keys := slices.Collect(maps.Values(a.keys))
	a.mu.Unlock()
	return bench.Each(len(keys), func(i int) error {
		k := keys[i]
		row, err := bench.Read(ctx, func(ctx context.Context) (*store.Version, error) { return locks.Read(ctx, k.name, true) })
		if err != nil {
			return fmt.Errorf("read %s at the end: %w", k.name, err)
		}
		k.verify(row, count)
		return nil
	})
}

// verify compares a row with what was acknowledged.
func (k *keyAudit) verify(row *store.Version, count func(*store.Version) int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var made int64
	if row != nil {
		made = count(row)
	}
	if made < k.changes || made > k.changes+k.doubts {
		k.violate("the row shows %d changes; %d were acknowledged and %d have an unknown outcome", made, k.changes, k.doubts)
	}
	if n := len(k.tokens); n > 0 && (row == nil || k.tokens[n-1] > row.Fence) {
		k.violate("token %d was handed out, the row is %s", k.tokens[n-1], row)
	}
}
