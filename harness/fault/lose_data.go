package fault

import (
	"context"
	"fmt"

	"fencepost/harness/env/cluster/servers"
)

func init() {
	register(Kind{
		Name: "lose-data", On: Node, Family: FamilyNode,
		About: "SIGKILL servers and remove all that they have stored; at heal they start with nothing",
		Proof: "*gone*; its port refuses connections; its directory of data is not there. " +
			"A key that the harness wrote into the server itself before, and read there, is not there any more when it serves again; " +
			"of a server that takes no key for itself, as others copy to it what it lost, the missing directory alone is the proof",
		Needs: Needs{Server: func(k servers.Kind) string { return k.Cannot.LoseData }},
		New:   plain(loseData{}),
	})
}

// loseData kills servers and removes what they have stored.
type loseData struct{}

func (loseData) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if env.Store == nil {
		return nil, errNoStore
	}
	var marks []mark
	for _, t := range targets {
		m, err := newMarkOn(ctx, env.Store, t)
		if err != nil {
			return nil, fmt.Errorf("before the fault: a key for %s: %w", t, err)
		}
		marks = append(marks, m)
	}
	ended, err := killNode.inject(ctx, env, targets)
	if err != nil {
		return nil, err
	}
	a := &lostData{endedNodes: ended, marks: marks}
	for _, t := range targets {
		if err := env.do(func() error { return env.Store.Lose(t) }); err != nil {
			return nil, err
		}
	}
	return a, nil
}

type lostData struct {
	*endedNodes
	marks []mark          // of all targets
	gone  map[string]bool // whose directory of data was seen to be missing
}

// Probe looks for the processes, dials the dead servers, and looks for what they stored.
func (a *lostData) Probe(ctx context.Context) Evidence {
	ev := a.endedNodes.Probe(ctx)
	a.gone = map[string]bool{}
	for _, m := range a.marks {
		switch stored, err := a.env.Store.Stored(m.node); {
		case err != nil:
			ev.also(false, "whether %s has data cannot be seen (%s)", m.node, firstLine(err))
		case stored:
			ev.also(false, "the directory with the data of %s is still there", m.node)
		default:
			a.gone[m.node] = true
			ev.also(true, "the directory with the data of %s is not there", m.node)
		}
	}
	return ev
}

// After asks for the keys. A server to which others copy what it lost has all keys again; of that one
// only what was seen while it was down tells.
func (a *lostData) After(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	for _, m := range a.marks {
		if !m.taken {
			if a.gone[m.node] {
				ev.also(true, "%s lost its data: while it was down, its data directory did not exist; now that it runs, the others copy to it what it lost", m.node)
			} else {
				ev.also(false, "whether %s lost its data is not known: while it was down, its data directory was not seen to be missing", m.node)
			}
			continue
		}
		there, err := asked(ctx, func(ctx context.Context) (bool, error) { return a.env.Store.Marked(ctx, m.node, m.key) })
		switch {
		case err != nil:
			ev.also(false, "healed, but %s does not say whether it has the key that the harness wrote (%s)", m.node, firstLine(err))
		case there:
			ev.also(false, "yet %s still has the key that the harness wrote before", m.node)
		default:
			ev.also(true, "%s has not got the key any more that the harness wrote before and read there", m.node)
		}
	}
	return ev
}
