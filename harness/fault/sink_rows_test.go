package fault

import (
	"context"
	"testing"

	"fencepost/harness/target/sinks"
)

// rows are a sink's, which a rival may hold.
type rows struct {
	all, waiting int
	held         bool
	stays        bool // Free frees nothing
	closed       bool
}

func (r *rows) Hold(context.Context) (int, error) { r.held = true; return r.all, nil }
func (r *rows) Free(context.Context) error        { r.held = r.stays; return nil }
func (r *rows) Held(context.Context) (bool, error) {
	return r.held, nil
}

func (r *rows) Waiting(context.Context) (int, error) {
	if r.held {
		return r.waiting, nil
	}
	return 0, nil
}
func (r *rows) Close() { r.closed = true }

// Rows count as locked only if another session finds them so, the rival has some, and somebody
// waits for it.
func TestRowLocksMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows  rows
		inert bool
		proofs
	}{
		"locked":           {rows{all: 3, waiting: 2}, false, proofs{true, "the rival holds 3; by the server 2 sessions of others wait for it", true, "the rows are free again: true"}},
		"nobody waits":     {rows{all: 3}, false, proofs{false, "0 sessions of others wait", true, "the rows are free again: true"}},
		"there are none":   {rows{waiting: 1}, false, proofs{false, "the rival holds 0", true, "the rows are free again: true"}},
		"nothing was done": {rows{all: 3, waiting: 2}, true, proofs{false, "finds the rows of the sink locked: false", true, "the rows are free again: true"}},
		"never freed":      {rows{all: 3, waiting: 2, stays: true}, false, proofs{true, "the rival holds 3", false, "the rows are free again: false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &c.rows
			env := (&Env{Rival: func(context.Context) (sinks.Rival, error) { return r, nil }}).Ready()
			if c.inert {
				env.Inert = FamilyRows
			}
			mustProve(t, env, Spec{Fault: "sink-row-locks", Targets: []string{SinkTarget}}, 0, c.proofs)
			if !r.closed {
				t.Error("the rival's sessions are left open")
			}
		})
	}
	f, err := New(Spec{Fault: "sink-row-locks", Targets: []string{SinkTarget}})
	must(t, err)
	if _, err := f.Inject(t.Context(), (&Env{}).Ready(), nil); err == nil {
		t.Error("rows of a sink that is in no database were locked")
	}
	taken := &rows{held: true}
	env := (&Env{Rival: func(context.Context) (sinks.Rival, error) { return taken, nil }}).Ready()
	if _, err := f.Inject(t.Context(), env, nil); err == nil || !taken.closed {
		t.Errorf("rows that were locked before: %v", err)
	}
}
