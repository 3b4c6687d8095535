package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// The simulation of two data centres with three nodes each: a LOCAL_SERIAL statement is
// decided by its coordinator's data centre alone, so the lock rows are two stores. What
// chooses coordinators and compares agreements is this package's own.

// twoDCs is such a cluster, and what was granted by it.
type twoDCs struct {
	seed  uint64
	rows  map[string]*sim.Store // by data centre
	plant func(*member)

	mu         sync.Mutex
	agreement  string          // what all data centres have agreed on
	near       map[string]bool // where the row has arrived
	leases     []*lock.Lease
	violations map[string]string
	counts     map[string]int
}

// member is the session of one process.
type member struct {
	c      *twoDCs
	dc     string
	policy *coordinators
	domain *domain
	at     map[string]*sim.Session
}

// localFirst returns the nodes as the driver's own policy does: those of the local data
// centre first, and then the others.
type localFirst struct {
	gocql.HostSelectionPolicy
	hosts []*gocql.HostInfo
}

func (p localFirst) Pick(gocql.ExecutableQuery) gocql.NextHost {
	return (&inOrder{hosts: p.hosts}).Pick(nil)
}

func (c *twoDCs) connect(name, dc string) *member {
	order := []byte{1, 2, 3, 4, 5, 6}
	if dc == "dc2" {
		order = []byte{4, 5, 6, 1, 2, 3}
	}
	var hosts []*gocql.HostInfo
	for _, last := range order {
		hosts = append(hosts, (&gocql.HostInfo{}).SetConnectAddress(net.IPv4(10, 0, 0, last)))
	}
	m := &member{c: c, dc: dc, at: map[string]*sim.Session{},
		domain: newDomain(Config{Keyspace: "k", Serial: LocalSerial, LocalDC: dc}),
		policy: &coordinators{HostSelectionPolicy: localFirst{hosts: hosts}, now: time.Now, local: dc, dcOf: dcByIP, suspect: map[string]suspicion{}}}
	for dc, rows := range c.rows {
		m.at[dc] = rows.Connect(name+" in "+dc, c.seed)
		m.at[dc].SetFaults(sim.Faults{Latency: 5 * time.Millisecond, LoseRequest: 0.25, LoseReply: 0.1})
	}
	if c.plant != nil {
		c.plant(m)
	}
	return m
}

// settle is what Prepare does: the first one writes how it agrees, by a quorum of all
// replicas. The row comes to the other data centre later.
func (m *member) settle() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.agreement == "" {
		m.c.agreement, m.c.near[m.dc] = m.domain.own, true
	}
}

func (m *member) look(everywhere bool) (string, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if everywhere || m.c.near[m.dc] {
		return m.c.agreement, nil
	}
	return "", nil
}

// do makes a request by the coordinator that is chosen for its copy.
func (m *member) do(ctx context.Context, copyNo int, f func(*sim.Session) error) error {
	if err := m.domain.check(m.look); err != nil {
		return err
	}
	r := &route{copyNo: copyNo, key: []byte("r")}
	q := (&gocql.Session{}).Query("SELECT 1").WithContext(context.WithValue(ctx, routeKey{}, r))
	h := m.policy.Pick(q)()
	if h == nil {
		return &store.Error{Outcome: store.Fail, Cause: gocql.ErrNoConnections}
	}
	err := f(m.at[dcByIP(h.Info())])
	var e *store.Error
	if errors.As(err, &e) {
		m.policy.failed(r, e)
	} else {
		m.policy.answered(r)
	}
	return err
}

func (m *member) Read(ctx context.Context, resource string, serial bool) (row *store.Version, err error) {
	err = m.do(ctx, 0, func(s *sim.Session) error { row, err = s.Read(ctx, resource, serial); return err })
	return row, err
}

func (m *member) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (res store.CASResult, err error) {
	err = m.do(ctx, copyNo, func(s *sim.Session) error { res, err = s.CAS(ctx, resource, from, to, copyNo); return err })
	return res, err
}

// granted judges a grant: no token twice, no two entitled at once.
func (c *twoDCs) granted(l *lock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts["grant"]++
	for _, other := range c.leases {
		if other.Token() == l.Token() {
			c.violations["token"] = fmt.Sprintf("%s and %s have token %d", other.Holder(), l.Holder(), l.Token())
		}
		if other.Valid() && l.Valid() {
			c.violations["exclusive"] = fmt.Sprintf("%s and %s are entitled at once, with tokens %d and %d", other.Holder(), l.Holder(), other.Token(), l.Token())
		}
	}
	c.leases = append(c.leases, l)
}

// live is a process: it prepares, then takes the lock again and again.
func (c *twoDCs) live(ctx context.Context, name, dc string, rnd *rand.Rand) {
	m := c.connect(name, dc)
	_ = clock.Go().Sleep(ctx, time.Duration(rnd.Int64N(int64(time.Second))))
	m.settle()
	// The client's numbers are its own: it draws them in goroutines of its own.
	own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
	cl, err := lock.New(m, lock.Options{TTL: time.Second, MarginBase: 10 * time.Millisecond, Clock: clock.Go(), Rand: own,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		l, err := cl.Acquire(ctx, lock.Request{Resource: "r", Holder: name})
		switch {
		case errors.As(err, new(*AgreementError)) && errors.Is(err, lock.ErrRefused):
			c.mu.Lock()
			c.counts["refused"]++
			c.mu.Unlock()
			err = cl.Close(context.Background())
			if err != nil {
				panic(err)
			}
			return
		case err != nil:
			continue
		}
		c.granted(l)
		_ = clock.Go().Sleep(ctx, time.Duration(rnd.Int64N(int64(500*time.Millisecond))))
		_ = l.Release(ctx)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = cl.Close(ended)
}

func runTwoDCs(t *testing.T, seed uint64, plant func(*member)) *twoDCs {
	c := &twoDCs{seed: seed, rows: map[string]*sim.Store{"dc1": sim.New(), "dc2": sim.New()}, plant: plant,
		near: map[string]bool{}, violations: map[string]string{}, counts: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i, dc := range []string{"dc1", "dc1", "dc2"} {
			wg.Go(func() { c.live(ctx, fmt.Sprintf("p%d", i), dc, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
		wg.Wait()
		time.Sleep(time.Minute) // what is on its way arrives
	})
	deciding := 0
	for _, rows := range c.rows {
		deciding += min(1, len(rows.Changes()))
	}
	if deciding > 1 {
		c.violations["agreements"] = "both data centres have decided"
	}
	return c
}

// TestTwoDataCentres: processes of two data centres, of which the later one is refused,
// and copies that never leave the data centre that decides.
func TestTwoDataCentres(t *testing.T) {
	t.Parallel()
	total := map[string]int{}
	for seed := uint64(1); seed <= 100; seed++ {
		c := runTwoDCs(t, seed, nil)
		for rule, what := range c.violations {
			t.Errorf("seed %d: %s: %s", seed, rule, what)
		}
		for what, n := range c.counts {
			total[what] += n
		}
		if t.Failed() {
			return
		}
	}
	if total["grant"] < 1000 || total["refused"] < 100 {
		t.Errorf("too little happened: %v", total)
	}
}

// TestTwoDataCentresFindsMutants: a test that cannot fail proves nothing.
func TestTwoDataCentresFindsMutants(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*member){
		"remote-coordinator":     func(m *member) { m.policy.local = "" },
		"agreement not compared": func(m *member) { m.domain.settled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 100; seed++ {
				c := runTwoDCs(t, seed, plant)
				if c.violations["token"] != "" && c.violations["exclusive"] != "" {
					t.Logf("found with seed %d: %v", seed, c.violations)
					return
				}
			}
			t.Error("not found within 100 seeds")
		})
	}
}
