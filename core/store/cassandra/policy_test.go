package cassandra

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// inOrder is a policy that returns its hosts in order, as the token-aware one
// returns the replicas of a partition.
type inOrder struct {
	gocql.HostSelectionPolicy
	hosts []*gocql.HostInfo
	key   []byte // of the last pick
}

func (p *inOrder) HostUp(*gocql.HostInfo)   {}
func (p *inOrder) HostDown(*gocql.HostInfo) {}
func (p *inOrder) AddHost(*gocql.HostInfo)  {}

type selected struct{ h *gocql.HostInfo }

func (s selected) Info() *gocql.HostInfo { return s.h }
func (s selected) Mark(error)            {}

func (p *inOrder) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	if r, ok := q.(routed); ok { // a bare query would ask a session
		p.key, _ = r.GetRoutingKey()
	}
	i := 0
	return func() gocql.SelectedHost {
		if i == len(p.hosts) {
			return nil
		}
		i++
		return selected{p.hosts[i-1]}
	}
}

type policyTest struct {
	c     *coordinators
	inner *inOrder
	now   time.Time
}

func newPolicyTest(n int) *policyTest {
	p := &policyTest{inner: &inOrder{}, now: time.Unix(1000, 0)}
	for i := range n {
		p.inner.hosts = append(p.inner.hosts, (&gocql.HostInfo{}).SetConnectAddress(net.IPv4(10, 0, 0, byte(i+1))))
	}
	p.c = &coordinators{HostSelectionPolicy: p.inner, now: func() time.Time { return p.now },
		dcOf: dcByIP, dcs: map[string]bool{}, hosts: map[string]bool{}, suspect: map[string]suspicion{}}
	return p
}

// dcByIP puts nodes 1 to 3 into data centre dc1, and all others into dc2.
func dcByIP(h *gocql.HostInfo) string {
	if h.ConnectAddress().To4()[3] <= 3 {
		return "dc1"
	}
	return "dc2"
}

// order returns the last bytes of the hosts' IPs in the order of the picks, and
// leaves r as after a request that used the first one.
func (p *policyTest) order(r *route) (ips []int) {
	q := (&gocql.Session{}).Query("SELECT 1").WithContext(context.WithValue(context.Background(), routeKey{}, r))
	next := p.c.Pick(q)
	var first *gocql.HostInfo
	for h := next(); h != nil; h = next() {
		if first == nil {
			first = r.host
		}
		ips = append(ips, int(h.Info().ConnectAddress().To4()[3]))
	}
	r.host = first
	return ips
}

func TestCoordinatorByCopy(t *testing.T) {
	t.Parallel()
	for copyNo, want := range [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}, {1, 2, 3}} {
		p := newPolicyTest(3)
		if got := p.order(&route{copyNo: copyNo}); !slices.Equal(got, want) {
			t.Errorf("copy %d asks %v, want %v", copyNo, got, want)
		}
	}
	if got := newPolicyTest(0).order(&route{copyNo: 3}); got != nil {
		t.Errorf("without hosts: %v", got)
	}
	if got := newPolicyTest(12).order(&route{copyNo: 1}); len(got) != 12 || got[0] != 2 {
		t.Errorf("of twelve hosts: %v", got)
	}
}

// TestCoordinatorIsLocal: no copy leaves the local data centre, also when none of its
// nodes answers or is up, whoever is asked for.
func TestCoordinatorIsLocal(t *testing.T) {
	t.Parallel()
	timeout := &store.Error{Outcome: store.Unknown, Cause: context.DeadlineExceeded}
	local := func(n int) *policyTest {
		p := newPolicyTest(n)
		p.c.local = "dc1"
		return p
	}
	p := local(6)
	for copyNo, want := range [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}, {1, 2, 3}, {2, 3, 1}, {3, 1, 2}} {
		if got := p.order(&route{copyNo: copyNo}); !slices.Equal(got, want) {
			t.Errorf("copy %d asks %v, want %v", copyNo, got, want)
		}
	}
	for range 3 {
		r := &route{}
		p.order(r)
		p.c.failed(r, timeout)
	}
	if got := p.order(&route{}); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("after a timeout of each local node: %v", got)
	}
	if got := p.order(&route{ip: "10.0.0.4"}); got != nil {
		t.Errorf("asked for a remote node: %v", got)
	}
	p.inner.hosts = p.inner.hosts[3:]
	if got := p.order(&route{}); got != nil {
		t.Errorf("without local nodes: %v", got)
	}
	for name, q := range map[string]gocql.ExecutableQuery{"of the driver's own": nil, "without a route": (&gocql.Session{}).Query("SELECT 1").WithContext(t.Context())} {
		if h := p.c.Pick(q)(); h != nil {
			t.Errorf("a request %s goes to %s", name, h.Info().ConnectAddress())
		}
	}
	for _, h := range local(6).inner.hosts {
		p.c.HostUp(h)
	}
	if up := p.c.up(); len(up) != 3 {
		t.Errorf("possible coordinators: %v", up)
	}
	var e *ReplicasError
	p.c.AddHosts(local(3).inner.hosts)
	if err := p.c.nobody(); err != nil {
		t.Error(err)
	}
	if p.c.local = "dc3"; !errors.As(p.c.nobody(), &e) || !slices.Equal(e.Known, []string{"dc1"}) {
		t.Errorf("a data centre that is none: %v", p.c.nobody())
	}
}

func TestCoordinatorByIP(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(3)
	if got := p.order(&route{ip: "10.0.0.2"}); !slices.Equal(got, []int{2}) {
		t.Errorf("pinned: %v", got)
	}
	if got := p.order(&route{ip: "10.0.0.9"}); got != nil {
		t.Errorf("pinned to an unknown node: %v", got)
	}
}

func TestRoutingKeyIsGiven(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(3)
	p.order(&route{key: []byte("resource")})
	if string(p.inner.key) != "resource" {
		t.Errorf("routing key %q", p.inner.key)
	}
}

func TestSuspicion(t *testing.T) {
	t.Parallel()
	timeout := &store.Error{Outcome: store.Unknown, Cause: context.DeadlineExceeded}
	p := newPolicyTest(3)
	r := &route{}
	p.order(r)
	p.c.failed(r, timeout)
	if got := p.order(&route{}); !slices.Equal(got, []int{2, 3, 1}) {
		t.Errorf("after a timeout of 1: %v", got)
	}
	if got := p.order(&route{copyNo: 1}); !slices.Equal(got, []int{2, 3, 1}) {
		t.Errorf("copy 1 after a timeout of 1: %v", got)
	}
	p.now = p.now.Add(suspectMin)
	if got := p.order(&route{}); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("after the suspicion: %v", got)
	}
	// The second failure in a row counts double, an answer ends it.
	p.c.failed(r, timeout)
	p.now = p.now.Add(suspectMin)
	if got := p.order(&route{}); got[0] == 1 {
		t.Errorf("after the second failure: %v", got)
	}
	p.c.answered(r)
	if got := p.order(&route{}); got[0] != 1 {
		t.Errorf("after an answer: %v", got)
	}
	for range 10 {
		p.c.failed(r, timeout)
		p.now = p.now.Add(suspectMax)
		if got := p.order(&route{}); got[0] != 1 {
			t.Fatalf("suspected for longer than %s: %v", suspectMax, got)
		}
	}
}

func TestWhoIsSuspected(t *testing.T) {
	t.Parallel()
	serial := gocql.Consistency(gocql.Serial)
	for name, c := range map[string]struct {
		err     error
		suspect bool
	}{
		"time limit":          {context.DeadlineExceeded, true},
		"connection closed":   {gocql.ErrConnectionClosed, true},
		"server timeout":      {&gocql.RequestErrWriteTimeout{}, true},
		"sees no quorum":      {&gocql.RequestErrUnavailable{Consistency: serial}, true},
		"invalid statement":   {frame{gocql.ErrCodeInvalid}, false},
		"overloaded":          {frame{gocql.ErrCodeOverloaded}, false},
		"cannot be marshaled": {gocql.MarshalError("x"), false},
		"cancelled by caller": {errors.Join(errCanceled, context.Canceled), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPolicyTest(2)
			r := &route{}
			p.order(r)
			p.c.failed(r, classify(t.Context(), "op", c.err))
			if got := p.order(&route{})[0] == 2; got != c.suspect {
				t.Errorf("suspected: %v, want %v", got, c.suspect)
			}
		})
	}
	p := newPolicyTest(1)
	p.c.failed(&route{}, &store.Error{Cause: gocql.ErrNoConnections}) // nobody was asked
	p.c.answered(&route{})
}

func TestConnectedNodes(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(2)
	for _, h := range p.inner.hosts {
		p.c.HostUp(h)
	}
	if up := p.c.up(); len(up) != 2 {
		t.Errorf("up: %v", up)
	}
	p.c.HostDown(p.inner.hosts[0])
	if up := p.c.up(); !slices.Equal(up, []string{"10.0.0.2"}) {
		t.Errorf("up: %v", up)
	}
}

func TestPartitionKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   []any
		want []byte
		ok   bool
	}{
		"none":      {nil, nil, true},
		"text":      {[]any{"abc"}, []byte("abc"), true},
		"int":       {[]any{int32(258)}, []byte{0, 0, 1, 2}, true},
		"bigint":    {[]any{int64(258)}, []byte{0, 0, 0, 0, 0, 0, 1, 2}, true},
		"composite": {[]any{"ab", int32(1)}, []byte{0, 2, 'a', 'b', 0, 0, 4, 0, 0, 0, 1, 0}, true},
		"int of Go": {[]any{1}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := partitionKey(c.in)
			if (err == nil) != c.ok || !bytes.Equal(got, c.want) {
				t.Errorf("%x, %v", got, err)
			}
		})
	}
}
