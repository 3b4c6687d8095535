package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/record/history"
	"fencepost/internal/choice"
)

// The drills.
const (
	IncompleteRead = "paxos-incomplete-read"
	RejectedCAS    = "paxos-rejected-cas"
	Release        = "paxos-release"
	Lease          = "paxos-lease"
)

// scene is what one drill does around the write that is made incomplete, or all that a trap does.
type scene struct {
	name     string
	attempts int
	// rows are in a table of the drill's own; nil: in that of the core's locks.
	rows *table
	// steps are those of a trap: they say whether what it is about took place. It has no write.
	steps func(context.Context, *attempt) (took bool, text string, err error)
	// prepare brings the row to where the write begins; nil: there is no row.
	prepare func(context.Context, *attempt) error
	// write is the conditional write that n1 coordinates.
	write func(context.Context, *attempt) result
	// blind observes through n2 while n1 is cut off.
	blind func(context.Context, *attempt) error
	// after observes through n1 when all is healed.
	after func(context.Context, *attempt) error
}

var scenes = slices.Concat(incomplete, traps)

// incomplete are the drills in which a write is made incomplete.
var incomplete = []scene{
	{name: IncompleteRead, attempts: 5, write: acquire, blind: readAtN2, after: readAtN1},
	{name: RejectedCAS, attempts: 5, write: acquire, blind: rejectedAtN2, after: readAtN1},
	{name: Release, attempts: 5, prepare: hold, write: release, blind: holderReadsAtN2, after: rivalAcquiresAtN1},
	{name: Lease, attempts: 3, rows: ttlRows, prepare: holdWithTTL, write: renew, blind: readExpiredAtN2, after: readAtN1},
}

// fault is what its attempts are called in the record.
func (s *scene) fault() string {
	if s.steps != nil {
		return "trap"
	}
	return "incomplete-write"
}

// Names lists the drills.
func Names() []string {
	var out []string
	for _, s := range scenes {
		out = append(out, s.name)
	}
	return out
}

func find(name string) (*scene, error) {
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
	if i < 0 {
		return nil, choice.Unknown("drill", name, Names()...)
	}
	return &scenes[i], nil
}

// Attempts is the number of attempts of a drill, each on a key of its own; an
// error names the drills that there are.
func Attempts(name string) (int, error) {
	s, err := find(name)
	if err != nil {
		return 0, err
	}
	return s.attempts, nil
}

// LeaseTTL is the time to live of the locks that drills write.
const LeaseTTL = 6 * time.Second

// Promises are the properties that a drill's history can violate.
func Promises() []string { return []string{"P1", "P2", "P8", "P9"} }

// armedID is the fault that stands for all attempts.
const armedID = "f1"

// Expect is what a run must contain: a lock cycle through each node before and
// after, and an attempt that was armed.
func Expect() history.Expect {
	return history.Expect{
		MinCycles: map[string]int{history.PhaseBefore: len(nodes), history.PhaseRecover: len(nodes)},
		Faults:    []string{armedID},
	}
}

// Config is what a drill runs on.
type Config struct {
	Drill   string
	Cluster cluster.Cluster
	// Variant is the cluster's Paxos variant: the recipe differs.
	Variant string
	// DB is a session with the run's keyspace, Base its configuration.
	DB   *cassandra.DB
	Base cassandra.Config
	// Keys are the rows: one an attempt, then one for the cycles before and after.
	Keys []string
	// Inert is the known-broken harness: links are never switched, only said to be.
	Inert    bool
	Recorder *history.Recorder
	// Phase, Fault and Problem record what happens and show it.
	Phase   func(name string)
	Fault   func(history.Fault)
	Problem func(format string, args ...any)
}

// healTimeout bounds what must happen also when a run is interrupted.
const healTimeout = 2 * time.Minute

// Run carries out a drill and seals its rows. When ctx ends it stops in order:
// links pass, rows are sealed, and the context's error is returned.
func Run(ctx context.Context, cfg Config) (err error) {
	sc, err := find(cfg.Drill)
	if err != nil {
		return err
	}
	if len(cfg.Keys) != sc.attempts+1 {
		return fmt.Errorf("drill %s: %d keys, want %d", sc.name, len(cfg.Keys), sc.attempts+1)
	}
	r := &run{Config: cfg, scene: sc}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return err
	}
	err = r.phases(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	cfg.Phase(history.PhaseSeal)
	err = errors.Join(err, r.cut.heal(end), r.seal(end))
	if sc.rows != nil && sc.rows.accord {
		err = errors.Join(err, r.DB.Exec(end, "DROP TABLE "+r.table))
	}
	return err
}

// run is a drill under way.
type run struct {
	Config
	scene *scene
	nodes map[string]*node
	cut   *cut
	table string // of the rows
	id    string // of the table, as system.paxos names it
}

func (r *run) phases(ctx context.Context) error {
	r.Phase(history.PhaseBefore)
	if err := r.cycles(ctx); err != nil {
		return err
	}
	r.Phase(history.PhaseFault)
	whole := history.Fault{ID: armedID, Name: r.scene.fault(), Targets: []string{victim}, Trigger: "step by step"}
	r.note(whole, history.ActionInject, false, "")
	armed := 0
	for i := range r.scene.attempts {
		ok, err := r.attempt(ctx, i)
		if err != nil {
			return err
		}
		if ok {
			armed++
		}
	}
	r.note(whole, history.ActionEvidence, armed > 0, fmt.Sprintf("%d of %d attempts armed on Paxos %s", armed, r.scene.attempts, r.Variant))
	r.note(whole, history.ActionHeal, false, "")
	r.Phase(history.PhaseHeal)
	if err := r.Cluster.WaitHealthy(ctx); err != nil {
		return fmt.Errorf("the cluster is not healthy after healing: %w", err)
	}
	r.Phase(history.PhaseRecover)
	return r.cycles(ctx)
}

func (r *run) note(f history.Fault, action string, proven bool, text string) {
	f.Action, f.Proven, f.Text = action, proven, text
	r.Fault(f)
}

// cycles makes a plain lock cycle through each node, on the last key.
func (r *run) cycles(ctx context.Context) error {
	key := r.Keys[len(r.Keys)-1]
	for _, name := range nodes {
		c := &client{proc: "harness/cycle", locks: cassandra.NewLocks(r.nodes[name].db), rec: r.Recorder}
		row, err := c.read(ctx, key)
		if err != nil {
			return fmt.Errorf("read %s through %s: %w", key, name, err)
		}
		// A cycle before it may have ended without an answer: what it has is left to it for its time.
		if !row.Free() {
			if err := pause(ctx, LeaseTTL); err != nil {
				return err
			}
		}
		held := c.grant(row)
		if res := c.cas(ctx, history.OpAcquire, key, row, held); !res.applied {
			r.Problem("a plain acquire through %s did not succeed: %s", name, res)
			continue
		}
		if res := c.cas(ctx, history.OpRelease, key, &held, freed(held)); !res.applied {
			r.Problem("a plain release through %s did not succeed: %s", name, res)
		}
	}
	return nil
}

// seal ends every row's history with a write of the harness.
func (r *run) seal(ctx context.Context) error {
	for i, key := range r.Keys {
		var locks store.Locks = cassandra.NewLocks(r.DB)
		if t := r.scene.rows; t != nil && i < r.scene.attempts {
			locks = t.sealed(r.DB)
		}
		c := &client{proc: history.Harness, locks: locks, rec: r.Recorder}
		if err := c.seal(ctx, key); err != nil {
			return fmt.Errorf("seal %s: %w", key, err)
		}
	}
	return nil
}

// attempt is one try at the bug, on a row of its own.
type attempt struct {
	key string
	// Actors: the holder acts through n1, where its write is made incomplete; it
	// reads through n2 too. Rival and observer are others.
	holder, holderAtN2, rivalAtN1, rivalAtN2, observerAtN1, observerAtN2 *client
	// held is the version that the holder's write names, to the one that it sets.
	held *store.Version
	to   store.Version
	// granted is when the grant with a TTL had been answered.
	granted time.Time
	// committed waits until every node has the last write.
	committed func(context.Context) error
	// rivalAtN3 acts while n2 is cut off.
	rivalAtN3 *client
	// outage is one of nodes.
	outage func() outage
	// driver opens rows of which the answer to a write is lost, with the driver's retry policy.
	driver func(gocql.RetryPolicy) (losing, error)
}

// acquire: the first write of the row.
func acquire(ctx context.Context, a *attempt) result {
	a.to = a.holder.grant(nil)
	return a.holder.cas(ctx, history.OpAcquire, a.key, nil, a.to)
}

func readAtN1(ctx context.Context, a *attempt) error {
	_, err := a.observerAtN1.read(ctx, a.key)
	return err
}

func readAtN2(ctx context.Context, a *attempt) error {
	_, err := a.observerAtN2.read(ctx, a.key)
	return err
}

// rejectedAtN2 sends a conditional write that cannot apply, as the version that it
// names never existed: its rejection shows the row as a read does.
func rejectedAtN2(ctx context.Context, a *attempt) error {
	never := renewed(a.to)
	return a.rivalAtN2.cas(ctx, history.OpAcquire, a.key, &never, a.rivalAtN2.grant(&never)).err
}

// hold lets the holder take the lock. The last commit must be everywhere: a node
// that lacks it costs Paxos v1 a round more, and the cut would come too early.
func hold(ctx context.Context, a *attempt) error {
	v := a.holder.grant(nil)
	if res := a.holder.cas(ctx, history.OpAcquire, a.key, nil, v); !res.applied {
		return notPrepared{res}
	}
	a.held = &v
	return a.committed(ctx)
}

func release(ctx context.Context, a *attempt) result {
	a.to = freed(*a.held)
	return a.holder.cas(ctx, history.OpRelease, a.key, a.held, a.to)
}

// holderReadsAtN2: the holder resolves its unknown release, as one does.
func holderReadsAtN2(ctx context.Context, a *attempt) error {
	_, err := a.holderAtN2.read(ctx, a.key)
	return err
}

// rivalAcquiresAtN1 takes the lock if it looks free.
func rivalAcquiresAtN1(ctx context.Context, a *attempt) error {
	row, err := a.rivalAtN1.read(ctx, a.key)
	if err != nil || !row.Free() {
		return err
	}
	return a.rivalAtN1.cas(ctx, history.OpAcquire, a.key, row, a.rivalAtN1.grant(row)).err
}

// renewAfter is when the holder of a lease with a TTL renews it: late, so that its
// renewed lease outlives the first by more than the observations take.
const renewAfter = LeaseTTL * 7 / 12

// holdWithTTL takes a lease with a TTL and waits until it is to be renewed.
func holdWithTTL(ctx context.Context, a *attempt) error {
	v := a.holder.grant(nil)
	a.holder.expiry(a.key, v) // recorded before it can happen
	if res := a.holder.cas(ctx, history.OpAcquire, a.key, nil, v); !res.applied {
		return notPrepared{res}
	}
	a.held, a.granted = &v, time.Now()
	if err := a.committed(ctx); err != nil {
		return err
	}
	return pause(ctx, time.Until(a.granted.Add(renewAfter)))
}

func renew(ctx context.Context, a *attempt) result {
	a.to = renewed(*a.held)
	a.holder.expiry(a.key, a.to)
	return a.holder.cas(ctx, history.OpRenew, a.key, a.held, a.to)
}

// readExpiredAtN2 reads when the first lease's TTL is certainly over: the server
// counts whole seconds, from the write at the latest.
func readExpiredAtN2(ctx context.Context, a *attempt) error {
	if err := pause(ctx, time.Until(a.granted.Add(LeaseTTL+200*time.Millisecond))); err != nil {
		return err
	}
	return readAtN2(ctx, a)
}

// notPrepared: the write before the one to be made incomplete did not succeed.
type notPrepared struct{ result }

func (e notPrepared) Error() string { return "the row could not be prepared: " + e.String() }
