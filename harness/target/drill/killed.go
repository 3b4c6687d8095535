package drill

import (
	"context"
	"errors"
	"fmt"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

// killedAtTheAnswer: a client takes the lease while n3 is cut off, so that n1 and n2 alone have it,
// and n1 is killed at the answer. It is started again, n2 is cut off in n3's place, and another
// client tries: if n1 has forgotten what it said, nobody knows of the first.
func killedAtTheAnswer(ctx context.Context, a *attempt) (took bool, text string, err error) {
	o := a.outage()
	var first, second result
	err = o.begin(ctx)
	if err == nil {
		first = a.holderAtN2.cas(ctx, history.OpAcquire, a.key, nil, a.holderAtN2.grant(nil))
		err = o.swap(ctx)
	}
	if err == nil {
		second = a.rivalAtN3.cas(ctx, history.OpAcquire, a.key, nil, a.rivalAtN3.grant(nil))
	}
	took, seen, endErr := o.end(ctx)
	if err := errors.Join(err, endErr); err != nil {
		return false, "", err
	}
	row, err := a.observerAtN2.read(ctx, a.key)
	return took && first.applied && second.certain(), fmt.Sprintf("%s; the first taker: %s; the second: %s; then a SERIAL read: %s",
		seen, firstLine(first), firstLine(second), row), err
}

// outage is what killedAtTheAnswer does to the nodes.
type outage interface {
	// begin cuts n3 off.
	begin(ctx context.Context) error
	// swap kills n1, cuts n2 off in n3's place, and starts n1 again.
	swap(ctx context.Context) error
	// end has all nodes run and see each other. It says whether the outage took place: n1 was
	// started again, n3 had no part in the first write, and n2 none in the second.
	end(ctx context.Context) (took bool, text string, err error)
}

// nodeOutage is an outage of the run's nodes, with what they say themselves.
type nodeOutage struct {
	*run
	key string
	// generations are when n1 says it began to run, before and after.
	generations [2]int
	// left is what n3 knew when it had been left out, witnessed what n2 knew then and knew later.
	left      paxosState
	witnessed [2]paxosState
}

func (o *nodeOutage) begin(ctx context.Context) (err error) {
	if o.generations[0], err = o.generation(ctx); err != nil {
		return err
	}
	return o.leaveOut(ctx, third)
}

func (o *nodeOutage) swap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	n1, _ := o.Cluster.Node(victim)
	if err := n1.Kill(ctx); err != nil {
		return err
	}
	var err, err2 error
	o.left, err = o.state(ctx, third, o.key)
	o.witnessed[0], err2 = o.state(ctx, witness, o.key)
	if err := errors.Join(err, err2, o.leaveOut(ctx, witness), n1.Start(ctx)); err != nil {
		return err
	}
	// The session needs a second to notice that the node is back.
	for o.generations[1], err = o.generation(ctx); err != nil; o.generations[1], err = o.generation(ctx) {
		if e := pause(ctx, poll); e != nil {
			return errors.Join(err, e)
		}
	}
	return nil
}

func (o *nodeOutage) end(ctx context.Context) (took bool, text string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	o.witnessed[1], err = o.state(ctx, witness, o.key)
	if n1, _ := o.Cluster.Node(victim); n1.PID() == 0 {
		err = errors.Join(err, n1.Start(ctx))
	}
	if err := errors.Join(err, o.Cluster.Links().Heal(ctx), o.Cluster.WaitHealthy(ctx)); err != nil {
		return false, "", err
	}
	text = fmt.Sprintf("%s's gossip generation was %d and is %d; when it was killed, %s knew %s and %s %s, and later %s",
		victim, o.generations[0], o.generations[1], third, o.left, witness, o.witnessed[0], o.witnessed[1])
	return o.generations[1] > o.generations[0] && o.left == paxosState{} &&
		o.witnessed[0].commit != "" && o.witnessed[1] == o.witnessed[0], text, nil
}

// leaveOut cuts a node off from the others, which see each other. It keeps what is sent.
func (o *nodeOutage) leaveOut(ctx context.Context, name string) error {
	if o.Inert {
		return nil
	}
	var changes []link.Change
	for _, e := range link.Ends(o.Cluster.Links().All()) {
		mode := link.Mode{Kind: link.Pass}
		if e.Link.From() == name || e.Link.To() == name {
			mode.Kind = link.Stall
		}
		changes = append(changes, link.Change{End: e, Mode: mode})
	}
	return link.Apply(ctx, changes...)
}

// generation is when n1 began to run, in seconds, by itself.
func (o *nodeOutage) generation(ctx context.Context) (int, error) {
	rows, err := o.nodes[victim].db.Query(ctx, false, "SELECT gossip_generation FROM system.local WHERE key = 'local'")
	if err != nil || len(rows) != 1 {
		return 0, fmt.Errorf("ask %s since when it runs: %w (%d rows)", victim, err, len(rows))
	}
	g, ok := rows[0]["gossip_generation"].(int)
	if !ok {
		return 0, fmt.Errorf("%s runs since %v", victim, rows[0]["gossip_generation"])
	}
	return g, nil
}
