package broken

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	for _, m := range mistake.All {
		plant(m.ID, func() workload.Hooks { return shared(m) })
	}
}

// shared plants a mistake that the simulated world has too.
func shared(m mistake.Mistake) (h workload.Hooks) {
	if m.Shards != nil {
		h.Shards = func(cfg workload.Config, db *cassandra.DB, inner store.Shards) store.Shards {
			p := mistake.Process{TTL: cfg.TTL, Members: cassandra.NewMembers(db), Cell: cfg.Jobs.Queue}
			if afterHold[m.ID] {
				inner = holdEnds(cfg.TTL/24, inner)
			}
			return m.Shards(p, inner)
		}
	}
	if m.Locks != nil {
		h.Locks = func(cfg workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return m.Locks(mistake.Process{TTL: cfg.TTL}, inner)
		}
	}
	if m.Engine != nil {
		h.Engine = func(cfg workload.Config, o *engine.Options) { m.Engine(mistake.Process{TTL: cfg.TTL}, o) }
	}
	if m.Executor != nil {
		var wrap func(engine.Executor) engine.Executor
		h.Engine = func(cfg workload.Config, o *engine.Options) { wrap = m.Executor(mistake.Process{TTL: cfg.TTL}, o) }
		h.Executor = func(_ workload.Config, inner engine.Executor) engine.Executor { return wrap(inner) } // the options come first
	}
	return h
}

// afterHold are the mistakes about what comes just before a shard's last batch, which would be rare: a
// batch that begins no run is held back, so that more comes for the next one.
var afterHold = map[string]bool{"jobs-lost-in-move": true}

func holdEnds(hold time.Duration, inner store.Shards) store.Shards {
	return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
		if c.N == 0 && !c.Takeover() && c.Batch.To.Owner != "" && !mistake.Has(c.Batch, mistake.Claims) {
			_ = clock.Go().Sleep(c.Ctx, hold)
		}
		return c.Send()
	}}
}

// variants make the hooks of a process; those of one variant may share state.
var variants = map[string]func() workload.Hooks{}

// plant makes known what hooks plant the variant of a name, which is a row of package
// system without "broken/". It panics on a second one.
func plant(name string, hooks func() workload.Hooks) {
	if variants[name] != nil {
		panic("broken: variant " + name + " is planted twice")
	}
	variants[name] = hooks
}

// only is hooks without shared state.
func only(h workload.Hooks) func() workload.Hooks { return func() workload.Hooks { return h } }

// Names lists the variants of the worker.
func Names() []string { return slices.Sorted(maps.Keys(variants)) }

// Worker returns the hooks of a variant by its name without "broken/".
func Worker(name string) (workload.Hooks, error) {
	if h, ok := variants[name]; ok {
		return h(), nil
	}
	return workload.Hooks{}, fmt.Errorf("unknown variant %q; there are: %s", name, strings.Join(Names(), ", "))
}

// table is a map that several goroutines use.
type table[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

func (t *table[K, V]) get(k K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[k]
	return v, ok
}

func (t *table[K, V]) set(k K, v V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[K]V{}
	}
	t.m[k] = v
}
