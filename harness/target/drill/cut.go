package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/link"
)

// cut is the victim's flows to and from the other nodes.
type cut struct {
	in, out []link.End
	inert   bool
}

func newCut(f *link.Fabric, inert bool) *cut {
	c := &cut{inert: inert}
	for _, name := range nodes {
		if name != victim {
			c.in = append(c.in, f.Flow(name, victim)...)
			c.out = append(c.out, f.Flow(victim, name)...)
		}
	}
	return c
}

func (c *cut) set(ctx context.Context, ends []link.End, kind link.Kind) error {
	if c.inert {
		return nil
	}
	return link.SetEnds(ctx, ends, link.Mode{Kind: kind})
}

// hold keeps what is sent to the victim.
func (c *cut) hold(ctx context.Context) error { return c.set(ctx, c.in, link.Stall) }

// deliver lets what is held through and holds on.
func (c *cut) deliver(ctx context.Context) error {
	if c.inert {
		return nil
	}
	_, err := link.Flush(ctx, c.in...)
	return err
}

// isolate lets the victim hear but not speak. The order matters: what it does upon
// hearing must find its way out closed.
func (c *cut) isolate(ctx context.Context) error {
	if err := c.set(ctx, c.out, link.Stall); err != nil {
		return err
	}
	return c.set(ctx, c.in, link.Pass)
}

// heal lets everything pass and waits until what was held has arrived.
func (c *cut) heal(ctx context.Context) error {
	if err := errors.Join(c.set(ctx, c.out, link.Pass), c.set(ctx, c.in, link.Pass)); err != nil {
		return err
	}
	for c.inside(c.out)+c.inside(c.in) > 0 {
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// inside is the number of bytes that are under way in the links.
func (c *cut) inside(ends []link.End) int64 {
	var n int64
	for _, e := range ends {
		n += e.Link.Counters().Dir(e.Dir).PendingBytes
	}
	return n
}

const (
	// poll is how often a condition is looked at.
	poll = 5 * time.Millisecond
	// quiet is how long nothing more must have come for an answer to count as
	// held as a whole. Gossip can begin the wait too early: hence the armed check.
	quiet = 200 * time.Millisecond
)

// errNothingHeld: the write ended, or time was up, before an answer was held.
var errNothingHeld = errors.New("the write ended before an answer to it was held")

// awaitHeld waits until bytes are held on the way to the victim and no more come.
func (c *cut) awaitHeld(ctx context.Context, ended <-chan struct{}) error {
	last, since := int64(0), time.Now()
	for {
		n := c.inside(c.in)
		if n != last {
			last, since = n, time.Now()
		}
		if n > 0 && time.Since(since) >= quiet {
			return nil
		}
		if err := wait(ctx, ended); err != nil {
			return err
		}
	}
}

// wait is one poll, unless the write has ended.
func wait(ctx context.Context, ended <-chan struct{}) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ended:
		return errNothingHeld
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The nodes: the victim coordinates the write that is made incomplete.
const (
	victim  = "n1"
	witness = "n2"
	third   = "n3"
)

var nodes = []string{victim, witness, third}

// node is a node with a session that it alone coordinates.
type node struct {
	name string
	db   *cassandra.DB
}

// paxosState is what a node's own table system.paxos knows of a row: ballots, or "".
type paxosState struct {
	promised string // the highest ballot promised to a write
	accepted string // the proposal accepted and not known to be committed
	commit   string // the last write committed
}

func (s paxosState) String() string {
	if s == (paxosState{}) {
		return "nothing of the row"
	}
	return fmt.Sprintf("its write %s", cmp.Or(s.commit, "not"))
}

// states are the nodes' states by name.
type states map[string]paxosState

// states reads each node's state of a row. The table is local: what a node
// answers needs no other node.
func (r *run) states(ctx context.Context, key string) (states, error) {
	out := states{}
	for _, name := range nodes {
		s, err := r.state(ctx, name, key)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// state is one node's, zero if it knows nothing of the row.
func (r *run) state(ctx context.Context, name, key string) (paxosState, error) {
	rows, err := r.nodes[name].db.Query(ctx, false,
		"SELECT in_progress_ballot, proposal_ballot, most_recent_commit_at FROM system.paxos WHERE row_key = ? AND cf_id = ?", []byte(key), r.id)
	if err != nil {
		return paxosState{}, fmt.Errorf("read the Paxos state of %s: %w", name, err)
	}
	if len(rows) == 0 {
		return paxosState{}, nil
	}
	return paxosState{text(rows[0], "in_progress_ballot"), text(rows[0], "proposal_ballot"), text(rows[0], "most_recent_commit_at")}, nil
}

func text(row map[string]any, column string) string {
	s, _ := row[column].(string)
	return s
}

// promisedSince says whether every node but the victim has promised a new ballot.
func (s states) promisedSince(before states) bool {
	for _, name := range nodes {
		if name != victim && (s[name].promised == "" || s[name].promised == before[name].promised) {
			return false
		}
	}
	return true
}

// committed says whether all nodes have the same last write and nothing under way.
func (s states) committed() bool {
	first := s[victim].commit
	return first != "" && !slices.ContainsFunc(nodes, func(name string) bool { return s[name].commit != first || s[name].accepted != "" })
}

// armed says whether the write has become incomplete, with the numbers: accepted
// by the victim alone, and given up by its coordinator.
func (s states) armed(before states, res result) (bool, string) {
	accepted := func(name string) string {
		if s[name].accepted == before[name].accepted {
			return ""
		}
		return s[name].accepted
	}
	switch {
	case res.err == nil:
		return false, fmt.Sprintf("the write was answered: %s", firstLine(res))
	case !store.IsServerTimeout(res.err):
		return false, fmt.Sprintf("the write was not ended by its coordinator's timeout: %s", firstLine(res))
	case accepted(victim) == "":
		return false, fmt.Sprintf("%s has accepted no proposal", victim)
	}
	for _, name := range nodes {
		if name != victim && (accepted(name) != "" || s[name].commit != before[name].commit) {
			return false, fmt.Sprintf("%s has accepted or committed the proposal too", name)
		}
	}
	return true, fmt.Sprintf("%s accepted proposal %s, %s and %s did not; the coordinator answered: %s",
		victim, accepted(victim), witness, third, firstLine(res))
}

// firstLine keeps evidence to one line; the driver repeats the server's text.
func firstLine(what any) string {
	s, _, _ := strings.Cut(fmt.Sprint(what), "\n")
	return s
}
