package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
)

// open connects to each node alone and finds out about the table.
func (r *run) open(ctx context.Context) error {
	r.nodes = map[string]*node{}
	for _, name := range nodes {
		n, ok := r.Cluster.Node(name)
		if !ok {
			return fmt.Errorf("drill %s: the cluster has no node %s; it needs %s", r.scene.name, name, strings.Join(nodes, ", "))
		}
		base := r.Base
		base.Pin = n.IP()
		db, err := cassandra.Open(ctx, base)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", name, err)
		}
		r.nodes[name] = &node{name, db}
	}
	r.table = "locks"
	if t := r.scene.rows; t != nil {
		r.table = t.name
		if err := r.DB.Exec(ctx, t.create()); err != nil {
			if t.accord {
				err = fmt.Errorf("%w (the drill needs Accord: --cassandra=6.0-alpha2+accord)", err)
			}
			return fmt.Errorf("create table %s: %w", t.name, err)
		}
	}
	const find = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?"
	rows, err := r.DB.Query(ctx, false, find, r.Base.Keyspace, r.table)
	if err != nil {
		return fmt.Errorf("find table %s: %w", r.table, err)
	}
	if len(rows) != 1 {
		return fmt.Errorf("keyspace %s has no table %s", r.Base.Keyspace, r.table)
	}
	r.id = text(rows[0], "id")
	r.cut = newCut(r.Cluster.Links(), r.Inert)
	return nil
}

func (r *run) close() {
	for _, n := range r.nodes {
		n.db.Close()
	}
}

func (r *run) newAttempt(key string) *attempt {
	at := func(proc, name string) *client {
		var locks store.Locks = cassandra.NewLocks(r.nodes[name].db)
		if t := r.scene.rows; t != nil {
			locks = t.locks(r.nodes[name].db)
		}
		return &client{proc: "harness/" + proc, locks: locks, rec: r.Recorder}
	}
	return &attempt{
		key: key, holder: at("holder", victim), holderAtN2: at("holder", witness),
		rivalAtN1: at("rival", victim), rivalAtN2: at("rival", witness),
		observerAtN1: at("observer", victim), observerAtN2: at("observer", witness),
		committed: func(ctx context.Context) error { return r.awaitCommit(ctx, key) },
		rivalAtN3: at("rival", third),
		outage:    func() outage { return &nodeOutage{run: r, key: key} },
		driver:    r.driver,
	}
}

// attempt makes one try. It says whether it was armed; an error ends the run.
func (r *run) attempt(ctx context.Context, i int) (armed bool, err error) {
	a := r.newAttempt(r.Keys[i])
	f := history.Fault{
		ID: fmt.Sprintf("%s.%d", armedID, i+1), Name: r.scene.fault(), Targets: []string{victim}, Trigger: "attempt on " + a.key,
	}
	if r.scene.steps != nil {
		return r.trap(ctx, a, f)
	}
	if r.scene.prepare != nil {
		if err := r.scene.prepare(ctx, a); err != nil {
			if ctx.Err() != nil {
				return false, err
			}
			r.note(f, history.ActionInject, false, "")
			r.note(f, history.ActionEvidence, false, err.Error())
			r.note(f, history.ActionHeal, false, "")
			return false, nil
		}
	}
	r.note(f, history.ActionInject, false, "")
	armed, text := r.strike(ctx, a)
	if err := r.scene.blind(ctx, a); err != nil {
		armed, text = false, fmt.Sprintf("%s; %s did not answer while %s was cut off: %s", text, witness, victim, firstLine(err))
	}
	r.note(f, history.ActionEvidence, armed, text)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	err = r.cut.heal(end)
	r.note(f, history.ActionHeal, false, "")
	if err != nil {
		return armed, fmt.Errorf("heal the links of %s: %w", victim, err)
	}
	if ctx.Err() != nil {
		return armed, ctx.Err()
	}
	if err := r.scene.after(ctx, a); err != nil {
		r.Problem("%s: %v", a.key, err)
	}
	return armed, nil
}

// trap goes through a trap's steps.
func (r *run) trap(ctx context.Context, a *attempt, f history.Fault) (took bool, err error) {
	r.note(f, history.ActionInject, false, "")
	took, text, err := r.scene.steps(ctx, a)
	if err != nil {
		took, text = false, firstLine(err)
	}
	r.note(f, history.ActionEvidence, took, text)
	r.note(f, history.ActionHeal, false, "")
	return took, ctx.Err()
}

// strike makes the write incomplete and says whether it is. The victim is left
// unable to speak.
func (r *run) strike(ctx context.Context, a *attempt) (armed bool, text string) {
	before, err := r.states(ctx, a.key)
	if err != nil {
		return false, err.Error()
	}
	if err := r.cut.hold(ctx); err != nil {
		return false, err.Error()
	}
	var res result
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res = r.scene.write(ctx, a)
	}()
	steerErr := r.steer(ctx, a.key, before, ended)
	if steerErr != nil {
		// The write is to end whatever went wrong.
		steerErr = errors.Join(steerErr, r.cut.isolate(context.WithoutCancel(ctx)))
	}
	<-ended // within requestTimeout
	if steerErr != nil {
		return false, fmt.Sprintf("%v (the write: %s)", steerErr, firstLine(res))
	}
	now, err := r.states(ctx, a.key)
	if err != nil {
		return false, err.Error()
	}
	return now.armed(before, res)
}

// steer follows the write from one round to the next and cuts the victim off when
// only its proposal is left to be sent.
func (r *run) steer(ctx context.Context, key string, before states, ended <-chan struct{}) error {
	for {
		s, err := r.states(ctx, key)
		if err != nil {
			return err
		}
		if s.promisedSince(before) {
			break
		}
		if err := wait(ctx, ended); err != nil {
			return err
		}
	}
	if err := r.cut.awaitHeld(ctx, ended); err != nil {
		return err
	}
	if strings.HasPrefix(r.Variant, "v1") {
		// Paxos v1 reads the row in a round of its own before it proposes.
		if err := r.cut.deliver(ctx); err != nil {
			return err
		}
		if err := r.cut.awaitHeld(ctx, ended); err != nil {
			return err
		}
	}
	return r.cut.isolate(ctx)
}

// commitTimeout bounds the wait until all nodes have a commit. It is normally there
// within milliseconds, as a coordinator sends it to all and waits for a majority.
const commitTimeout = 10 * time.Second

func (r *run) awaitCommit(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	for {
		s, err := r.states(ctx, key)
		if err != nil {
			return err
		}
		if s.committed() {
			return nil
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("not every node has the last write of %s: %w", key, err)
		}
	}
}
