package fault

import (
	"context"
	"errors"
	"fmt"

	"fencepost/harness/env/link"
)

func cutMode(mode string) (link.Mode, error) {
	switch mode {
	case "", "stall":
		return link.Mode{Kind: link.Stall}, nil
	case "drop":
		return link.Mode{Kind: link.Drop}, nil
	}
	return link.Mode{}, fmt.Errorf("unknown mode %q; the modes are stall, drop", mode)
}

// cutting makes a fault whose only parameter is the mode of its cut.
func cutting(make func(link.Mode) Fault) func(Spec) (Fault, error) {
	return func(s Spec) (Fault, error) {
		m, err := cutMode(s.Mode)
		return make(m), err
	}
}

// split returns the nodes on the other side of the targets.
func (e *Env) split(targets []string) ([]string, error) {
	if _, err := e.nodes(targets); err != nil {
		return nil, err
	}
	others := e.others(targets)
	if len(others) == 0 {
		return nil, errors.New("no node is left on the other side")
	}
	return others, nil
}

// activeCut is a cut beside which something still passes.
type activeCut struct {
	*cut
	passes string // says so, with a place for the number of bytes
	must   bool   // without any the fault is not proven
}

func (a *activeCut) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	n := a.passed()
	ev.also(!a.must || n > 0, a.passes, n)
	a.beside.open(ctx, &ev, "beside those that are cut")
	return ev
}
