package fault

import (
	"context"
	"errors"
	"fmt"

	"fencepost/harness/env/cluster/servers"
)

func init() {
	register(Kind{
		Name: "promote", On: Node, Family: FamilyNode,
		About: "SIGKILL the primary and make its replica the primary at once; at heal the old one starts as its replica, and what it had is replaced",
		Proof: "Before, by their own answers past all links, the target is the primary, and another one a replica that is in sync. Meanwhile the target is *gone* and its port refuses " +
			"connections; the replica says that it is the primary, and takes a key that the harness writes. Afterwards the target says that it is a replica in sync, and has that key",
		Needs: Needs{Server: func(k servers.Kind) string { return k.Cannot.Promote }},
		New:   plain(promote{}),
	})
}

// promote lets a replica take its primary's place.
type promote struct{}

func (promote) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if env.Store == nil {
		return nil, errNoStore
	}
	if len(targets) != 1 {
		return nil, errors.New("there is one primary: name one target")
	}
	old := targets[0]
	role, err := env.role(ctx, old)
	if err == nil && !role.Primary {
		err = fmt.Errorf("it is not the primary: it says %s", role.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("before the fault: %s: %w", old, err)
	}
	replica, says, err := env.replica(ctx, old)
	if err != nil {
		return nil, fmt.Errorf("before the fault: %w", err)
	}
	ended, err := killNode.inject(ctx, env, targets)
	if err != nil {
		return nil, err
	}
	a := &promoted{endedNodes: ended, old: old, to: mark{node: replica, key: newMark()}, was: says}
	return a, env.do(func() error { return env.Store.Promote(ctx, replica) })
}

func (e *Env) role(ctx context.Context, node string) (servers.Role, error) {
	return asked(ctx, func(ctx context.Context) (servers.Role, error) { return e.Store.Role(ctx, node) })
}

// replica is a server that follows the primary and is in sync, and what it says.
func (e *Env) replica(ctx context.Context, primary string) (node, says string, err error) {
	err = errors.New("there is no other server")
	for _, other := range e.others([]string{primary}) {
		role, e := e.role(ctx, other)
		if e == nil && !role.Primary && role.InSync {
			return other, role.Text, nil
		}
		err = fmt.Errorf("%s is no replica in sync: it says %q (%s)", other, role.Text, firstLine(e))
	}
	return "", "", err
}

type promoted struct {
	*endedNodes
	old string
	to  mark   // a key for the new primary
	was string // what that said of itself before
}

// Probe looks for the process, dials the dead server, and asks the other one.
func (a *promoted) Probe(ctx context.Context) Evidence {
	ev := a.endedNodes.Probe(ctx)
	role, err := a.env.role(ctx, a.to.node)
	if err != nil {
		ev.also(false, "%s does not say what it is (%s)", a.to.node, firstLine(err))
		return ev
	}
	ev.also(role.Primary, "%s, which said %q before, says %q", a.to.node, a.was, role.Text)
	a.to.taken, err = asked(ctx, func(ctx context.Context) (bool, error) { return a.env.Store.Mark(ctx, a.to.node, a.to.key) })
	if !a.to.taken {
		ev.also(false, "it takes no key of the harness's (%s)", firstLine(err))
		return ev
	}
	ev.also(true, "it takes a key of the harness's")
	return ev
}

// After asks the old primary.
func (a *promoted) After(ctx context.Context) Evidence {
	var ev Evidence
	role, err := askedFor(ctx, func(r servers.Role) bool { return r.Primary || r.InSync },
		func(ctx context.Context) (servers.Role, error) { return a.env.Store.Role(ctx, a.old) })
	if err != nil {
		return Evidence{Text: fmt.Sprintf("healed, but %s says %q (%s)", a.old, role.Text, firstLine(err))}
	}
	ev.Proven = true
	ev.also(!role.Primary, "healed: %s says %q", a.old, role.Text)
	if role.Primary || !a.to.taken {
		return ev
	}
	_, err = askedFor(ctx, func(there bool) bool { return there },
		func(ctx context.Context) (bool, error) { return a.env.Store.Marked(ctx, a.old, a.to.key) })
	ev.also(err == nil, "it has the key that %s was given: %t", a.to.node, err == nil)
	return ev
}
