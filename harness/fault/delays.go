package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"fencepost/harness/cluster"
	"fencepost/harness/link"
	"fencepost/harness/workload"
)

func delayMode(s Spec) (link.Mode, error) {
	m := link.Mode{Kind: link.Latency, Latency: s.Latency, Jitter: s.Jitter, Seed: s.Seed}
	switch {
	case s.Latency <= 0:
		return m, errors.New("latency is missing: a one-way delay such as 200ms")
	case s.Jitter < 0 || s.Jitter > s.Latency:
		return m, fmt.Errorf("jitter %s is not between 0 and the latency %s", s.Jitter, s.Latency)
	}
	return m, nil
}

// delaying makes a fault whose parameters are those of a delay.
func delaying(make func(link.Mode) Fault) func(Spec) (Fault, error) {
	return func(s Spec) (Fault, error) {
		m, err := delayMode(s)
		return make(m), err
	}
}

// latency delays all that workers and nodes say to each other.
type latency struct{ mode link.Mode }

func (latency) Kind() TargetKind { return Worker }

func (p latency) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	s, err := newSwitched(ctx, env, link.Ends(links.all()), p.mode)
	if err != nil {
		return nil, err
	}
	return &activeLatency{switched: s, mode: p.mode, through: links.lock[0]}, nil
}

// slowNode delays all that nodes say and hear.
type slowNode struct{ mode link.Mode }

func (slowNode) Kind() TargetKind { return Node }

func (p slowNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.nodes(targets); err != nil {
		return nil, err
	}
	var ends []link.End
	var through *link.Link
	for i, t := range targets {
		for _, l := range env.Cluster.Links().Of(t) {
			if taken := targets[:i]; slices.Contains(taken, l.From()) || slices.Contains(taken, l.To()) {
				continue // a link between two targets has its delay already
			}
			ends = append(ends, link.Ends([]*link.Link{l})...)
		}
		clients := env.WorkerLinks.To(t)
		if len(clients) == 0 {
			return nil, fmt.Errorf("no worker has a link to %s", t)
		}
		through = clients[0]
		ends = append(ends, link.Ends(clients)...)
	}
	s, err := newSwitched(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activeLatency{switched: s, mode: p.mode, through: through}, nil
}

type activeLatency struct {
	*switched
	mode    link.Mode
	through *link.Link
}

// Probe times a round trip through a delayed link and one past it, and counts
// the bytes that were given a delay.
func (a *activeLatency) Probe(ctx context.Context) Evidence {
	var delayed int64
	for _, c := range a.watch.Delta() {
		delayed += c.Up.DelayedBytes + c.Down.DelayedBytes
	}
	if delayed == 0 {
		return Evidence{Text: "no byte was delayed"}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("%d bytes delayed by %s ± %s each way", delayed, a.mode.Latency, a.mode.Jitter)}
	n, known := a.env.Cluster.Node(a.through.To())
	if !known {
		ev.also(false, "no node %s", a.through.To())
		return ev
	}
	slow, err := a.env.cqlRoundTrip(ctx, a.through.Addr(), n)
	if err != nil {
		ev.also(false, "a probe through %s failed: %s", a.through.Name(), firstLine(err))
		return ev
	}
	least := 2 * (a.mode.Latency - a.mode.Jitter)
	ev.also(slow >= least, "a round trip through %s took %d ms, at least %d are due", a.through.Name(), slow.Milliseconds(), least.Milliseconds())
	if fast, err := a.env.cqlRoundTrip(ctx, cluster.AddrOf(a.env.Cluster, n), n); err == nil {
		ev.Text += fmt.Sprintf(", one past it %d ms", fast.Milliseconds())
	}
	return ev
}

// cqlRoundTrip sends OPTIONS, which needs no login, to the node by way of addr and
// awaits the answer's header.
func (e *Env) cqlRoundTrip(ctx context.Context, addr string, n cluster.Node) (time.Duration, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { conn.Close() }()
	if e.TLS != nil {
		if t := e.TLS(n.IP()); t != nil {
			secured := tls.Client(conn, t)
			if err := secured.HandshakeContext(ctx); err != nil {
				return 0, err
			}
			conn = secured
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	const version4, options, supported = 0x04, 0x05, 0x06
	start := time.Now()
	if _, err := conn.Write([]byte{version4, 0, 0, 0, options, 0, 0, 0, 0}); err != nil {
		return 0, err
	}
	var head [9]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, err
	}
	if head[4] != supported {
		return 0, fmt.Errorf("opcode %d in answer to OPTIONS", head[4])
	}
	return time.Since(start), nil
}

// flakyLinks changes the mode of one link after the other, by the seed.
type flakyLinks struct{ seed uint64 }

func (flakyLinks) Kind() TargetKind { return Worker }

// flakyModes are drawn from evenly; pass, so that something works in between.
var flakyModes = []link.Mode{
	{Kind: link.Pass}, {Kind: link.Pass}, {Kind: link.Stall}, {Kind: link.Drop}, {Kind: link.Close},
	{Kind: link.Latency, Latency: 150 * time.Millisecond, Jitter: 100 * time.Millisecond},
}

// flakyPause is the mean time between two changes.
const flakyPause = 150 * time.Millisecond

func (p flakyLinks) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	of, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	links := of.all()
	// Pass is no change, but takes the ends and starts the watch.
	s, err := newSwitched(ctx, env, link.Ends(links), link.Mode{Kind: link.Pass})
	if err != nil {
		return nil, err
	}
	a := &activeFlaky{switched: s, links: links, stop: make(chan struct{}), done: make(chan struct{})}
	go a.flip(p.seed)
	return a, nil
}

type activeFlaky struct {
	*switched
	links []*link.Link
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	flips int
	err   error
}

func (a *activeFlaky) flip(seed uint64) {
	defer close(a.done)
	rng := workload.Rand(seed, "flaky-links")
	for {
		t := time.NewTimer(time.Duration((0.5 + rng.Float64()) * float64(flakyPause)))
		select {
		case <-a.stop:
			t.Stop()
			return
		case <-t.C:
		}
		l, m := a.links[rng.IntN(len(a.links))], flakyModes[rng.IntN(len(flakyModes))]
		ctx, cancel := context.WithTimeout(context.Background(), OpTimeout)
		err := a.env.Links.Set(ctx, link.Ends([]*link.Link{l}), m)
		cancel()
		a.mu.Lock()
		a.flips++
		if a.err == nil {
			a.err = err
		}
		a.mu.Unlock()
	}
}

// Probe: bytes were lost or held, connections were cut, and some bytes passed.
func (a *activeFlaky) Probe(context.Context) Evidence {
	a.mu.Lock()
	flips, err := a.flips, a.err
	a.mu.Unlock()
	if err != nil {
		return Evidence{Text: "switching a link failed: " + firstLine(err)}
	}
	n := a.watch.Total()
	blocked := n.Up.HeldTotalBytes + n.Up.DroppedBytes + n.Down.HeldTotalBytes + n.Down.DroppedBytes
	cut := n.ConnsCut + n.ConnsRefused
	passed := n.Up.PassedBytes + n.Down.PassedBytes
	return Evidence{
		Proven: flips > 0 && blocked > 0 && passed > 0,
		Text: fmt.Sprintf("%d changes on %d links: %d bytes held or dropped, %d connections cut or refused, %d bytes delayed, %d bytes passed",
			flips, len(a.links), blocked, cut, n.Up.DelayedBytes+n.Down.DelayedBytes, passed),
	}
}

// Heal stops the changes and lets the links pass.
func (a *activeFlaky) Heal(ctx context.Context) error {
	a.once.Do(func() { close(a.stop) })
	<-a.done
	return errors.Join(a.err, a.switched.Heal(ctx))
}
