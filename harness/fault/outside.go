package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
)

// A proof past the link's own counters: what is behind a link is asked through it, as a
// client asks, by a connection to the link's address and with the service's own protocol.

// Greetings that services answer before anybody has logged in.
var (
	// cqlOptions is OPTIONS of version 4 of the native protocol.
	cqlOptions = []byte{0x04, 0, 0, 0, 0x05, 0, 0, 0, 0}
	// HTTPOptions is answered by every HTTP server.
	HTTPOptions = []byte("OPTIONS * HTTP/1.1\r\nHost: fencepost\r\n\r\n")
)

// Time limits of requests past a fault.
const (
	// answerTimeout bounds the wait for an answer that must come.
	answerTimeout = 2 * time.Second
	// silence is how long no answer may come to one that must not: some hundred times
	// what an answer takes.
	silence = 500 * time.Millisecond
)

// greeting is what a service answers; without ask none is known.
type greeting struct {
	ask []byte
	// second: the service speaks first on each connection; only what it says then is an answer.
	second bool
	secure *tls.Config // the TLS that is spoken to it, nil for none
}

// greet sends a greeting to addr and waits for an answer, or the beginning of one. The
// time is that of this exchange alone.
func greet(ctx context.Context, addr string, g greeting) (time.Duration, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { conn.Close() }()
	if g.secure != nil {
		secured := tls.Client(conn, g.secure)
		if err := secured.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		conn = secured
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if g.second {
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if _, err := conn.Write(g.ask); err != nil {
		return 0, err
	}
	if _, err := conn.Read(make([]byte, 4096)); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// greeting is that of the service behind a link; none is known between nodes.
func (e *Env) greeting(l *link.Link) greeting {
	switch {
	case l.To() == fleet.SinkHost:
		return greeting{ask: e.SinkGreeting}
	case l.From() == fleet.Peers:
		return greeting{ask: HTTPOptions}
	}
	if e.Cluster == nil {
		return greeting{}
	}
	if _, internode := e.Cluster.Node(l.From()); internode {
		return greeting{}
	}
	n, known := e.Cluster.Node(l.To())
	if !known {
		return greeting{}
	}
	return e.hello(n.IP())
}

// hello is what the node with this IP answers.
func (e *Env) hello(ip string) greeting {
	if e.Hello != nil {
		return greeting{ask: e.Hello(ip), second: e.SpeaksFirst}
	}
	return greeting{ask: cqlOptions, secure: e.secure(ip)}
}

// secure is the TLS that is spoken to a node, nil for none.
func (e *Env) secure(ip string) *tls.Config {
	if e.TLS == nil {
		return nil
	}
	return e.TLS(ip)
}

// ask asks the service behind a link: through the link, or beside it.
func (e *Env) ask(ctx context.Context, l *link.Link, through bool, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	addr := l.Upstream()
	if through {
		addr = l.Addr()
	}
	return greet(ctx, addr, e.greeting(l))
}

// answers reports whether the service behind a link answers through it. Not known: it
// does not answer beside it either. On a busy machine one try may fail.
func (e *Env) answers(ctx context.Context, l *link.Link) (yes, known bool, err error) {
	if _, err := e.ask(ctx, l, false, silence); err != nil {
		return false, false, err // stopped by another fault, say, which nobody should wait for
	}
	for range readTries {
		if _, err = e.ask(ctx, l, true, answerTimeout); err == nil {
			return true, true, nil
		}
	}
	_, beside := e.ask(ctx, l, false, answerTimeout)
	return false, beside == nil, err
}

// refuses returns nil if nobody accepts connections at addr. No answer at all would not
// show that: the kernel of a machine that is up refuses.
func refuses(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: answerTimeout}
	conn, err := d.DialContext(ctx, "tcp", addr)
	var timeout net.Error
	switch {
	case err == nil:
		conn.Close()
		return errors.New("still accepts connections")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("does not refuse connections: %w", err)
	}
	return nil
}

// service is a process that answers requests, until it is stopped. before is why it did
// not when the fault was about to come.
type service struct {
	name, addr string
	greeting   greeting
	before     error
}

func newService(ctx context.Context, name, addr string, g greeting) service {
	s := service{name: name, addr: addr, greeting: g}
	s.before = s.answer(ctx, answerTimeout)
	return s
}

func (s service) answer(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := greet(ctx, s.addr, s.greeting)
	return err
}

// silent adds that it answers no more.
func (s service) silent(ctx context.Context, ev *Evidence) {
	switch {
	case s.before != nil:
		ev.also(false, "%s did not answer before either (%s)", s.name, firstLine(s.before))
	case s.answer(ctx, silence) == nil:
		ev.also(false, "yet %s answers a request", s.name)
	default:
		ev.also(true, "%s answered a request before, and does not now", s.name)
	}
}

// back adds that it answers again.
func (s service) back(ctx context.Context, ev *Evidence) {
	var err error
	for range readTries {
		if err = s.answer(ctx, answerTimeout); err == nil {
			ev.also(true, "%s answers again", s.name)
			return
		}
	}
	ev.also(false, "healed, but %s does not answer (%s)", s.name, firstLine(err))
}

// doors are the services behind some links, as far as they answered through them when the
// fault was about to come.
type doors struct {
	env    *Env
	links  []*link.Link // with a service that can be asked
	opened []*link.Link
}

// newDoors asks all services before the fault.
func newDoors(ctx context.Context, env *Env, links []*link.Link) *doors {
	d := &doors{env: env}
	for _, l := range links {
		if env.greeting(l).ask != nil {
			d.links = append(d.links, l)
		}
	}
	ok := each(d.links, func(l *link.Link) bool { yes, _, _ := env.answers(ctx, l); return yes })
	for i, l := range d.links {
		if ok[i] {
			d.opened = append(d.opened, l)
		}
	}
	return d
}

// each calls f for all links side by side.
func each[T any](links []*link.Link, f func(*link.Link) T) []T { return some(len(links), links, f) }

// some calls f for all links, and for so many at once.
func some[T any](atOnce int, links []*link.Link, f func(*link.Link) T) []T {
	out := make([]T, len(links))
	var g errgroup.Group
	g.SetLimit(max(atOnce, 1))
	for i, l := range links {
		g.Go(func() error { out[i] = f(l); return nil })
	}
	_ = g.Wait() // none has an error
	return out
}

// shut adds that none of the services answers through its link, and that what is left of
// them answers beside it.
func (d *doors) shut(ctx context.Context, ev *Evidence) {
	if len(d.links) == 0 {
		return
	}
	type result struct{ through, beside bool }
	all := each(d.opened, func(l *link.Link) (r result) {
		_, err := d.env.ask(ctx, l, true, silence)
		r.through = err == nil
		_, err = d.env.ask(ctx, l, false, answerTimeout)
		r.beside = err == nil
		return r
	})
	dead := 0
	for i, r := range all {
		switch {
		case r.through:
			ev.also(false, "yet a request through %s is answered", d.opened[i].Name())
		case r.beside:
			dead++
		}
	}
	ev.also(dead > 0, "%d of %d services that answered through the links before do so no more, but beside them", dead, len(d.links))
}

// open adds that the services answer through their links, as far as they answer at all.
func (d *doors) open(ctx context.Context, ev *Evidence, when string) {
	if len(d.links) == 0 {
		return
	}
	type result struct {
		yes, known bool
		err        error
	}
	all := each(d.opened, func(l *link.Link) (r result) {
		r.yes, r.known, r.err = d.env.answers(ctx, l)
		return r
	})
	alive := 0
	for i, r := range all {
		switch {
		case r.yes:
			alive++
		case r.known:
			ev.also(false, "yet the service behind %s does not answer through it (%s)", d.opened[i].Name(), firstLine(r.err))
		}
	}
	ev.also(alive > 0, "%d of %d services answer through the links %s", alive, len(d.links), when)
}

// tripSamples is how many requests are timed through each link, tripLinks through how many links
// at once. All at once are a load of their own: on two cores 36 services took 200 ms to answer five
// requests each, and hardly longer when a delay had spread these.
const (
	tripSamples = 5
	tripLinks   = 8
)

// trip is how long requests through a link take: the median.
type trip struct {
	took   time.Duration
	err    error
	beside bool // with an error: the service answers beside the link
}

// roundTrips times requests through the links, some at once through each.
func (d *doors) roundTrips(ctx context.Context, limit time.Duration) []trip {
	return some(tripLinks, d.opened, func(l *link.Link) (t trip) {
		var took [tripSamples]time.Duration
		var errs [tripSamples]error
		var wg sync.WaitGroup
		for i := range tripSamples {
			wg.Go(func() { took[i], errs[i] = d.env.ask(ctx, l, true, limit) })
		}
		wg.Wait()
		t.took = median(took[:])
		if t.err = errors.Join(errs[:]...); t.err != nil {
			_, err := d.env.ask(ctx, l, false, answerTimeout)
			t.beside = err == nil
		}
		return t
	})
}
