package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"fencepost/core/clock"
	"fencepost/core/store/cassandra"
)

// Joint is a suite whose arms may be spread over processes. Each of those, an agent, makes
// the same suite and runs the same subjects; what is added are the audits, which only
// together tell whether what is measured keeps its promises.
type Joint interface {
	Suite
	// Export is what the audit of an agent knows when its subjects are closed.
	Export() any
	// Import adds what the audits of agents know, in the order of their numbers.
	Import(all []json.RawMessage) error
}

// Serve is the life of an agent: it reads its configuration and then orders from in, a line
// each, and writes an answer a line to out, until in ends. suite makes a suite from what
// the benchmark's was made from.
func Serve(ctx context.Context, in io.Reader, out io.Writer, suite func(json.RawMessage) (Joint, error)) error {
	return serve(ctx, in, out, func(ctx context.Context, cfg AgentConfig) (Joint, *Env, func(), error) {
		s, err := suite(cfg.Suite)
		if err != nil {
			return nil, nil, nil, err
		}
		at, err := cfg.Reach.config()
		if err != nil {
			return nil, nil, nil, err
		}
		env, end, err := open(ctx, at)
		return s, env, end, err
	})
}

// config is a session's.
func (r Reach) config() (cassandra.Config, error) {
	cfg := cassandra.Config{
		ContactPoints: slices.Sorted(maps.Keys(r.Nodes)), Port: r.Port, Keyspace: r.Keyspace, ConnectTimeout: r.ConnectTimeout,
		Dial: func(ctx context.Context, ip string) (net.Conn, error) {
			addr, ok := r.Nodes[ip]
			if !ok {
				return nil, fmt.Errorf("%s is none of the nodes in use", ip)
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
	}
	if r.Login == nil {
		return cfg, nil
	}
	return cfg, r.Login.Apply(&cfg)
}

// served is an agent in its own process.
type served struct {
	cfg      AgentConfig
	suite    Joint
	env      *Env
	subjects map[string]Subject // by arm ID
	orders   chan order
	abort    context.CancelFunc // of the last window; of the goroutine that reads orders
	out      *json.Encoder
}

func serve(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, AgentConfig) (Joint, *Env, func(), error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &served{subjects: map[string]Subject{}, orders: make(chan order), out: json.NewEncoder(out)}
	lines := json.NewDecoder(in)
	if err := lines.Decode(&a.cfg); err != nil || a.cfg.Process < 1 {
		return fmt.Errorf("no configuration came on standard input (an agent is started by fencepost bench): %v", err)
	}
	var end func()
	var err error
	if a.suite, a.env, end, err = open(ctx, a.cfg); err != nil {
		return errors.Join(err, a.answer(answer{Step: stepReady}, err))
	}
	defer end()
	a.env.Process, a.env.Seed = a.cfg.Process, a.cfg.Seed
	if err := a.suite.Open(ctx, a.env); err != nil {
		return errors.Join(err, a.answer(answer{Step: stepReady}, err))
	}
	if err := a.answer(answer{Step: stepReady}, nil); err != nil {
		return err
	}
	go func() {
		defer close(a.orders)
		defer cancel() // the benchmark is gone, or wants no more
		a.read(ctx, lines)
	}()
	for o := range a.orders {
		if err := a.do(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// read hands on orders until there are no more. A window's context ends when it is aborted.
func (a *served) read(ctx context.Context, lines *json.Decoder) {
	a.abort = func() {}
	defer func() { a.abort() }()
	for {
		var o order
		if lines.Decode(&o) != nil {
			return
		}
		switch o.Do {
		case doAbort:
			a.abort()
			continue
		case doWindow:
			a.abort()
			o.ctx, a.abort = context.WithCancel(ctx)
		}
		select {
		case a.orders <- o:
		case <-ctx.Done():
			return
		}
	}
}

// answer writes a line. why is the reason if the step was not done.
func (a *served) answer(x answer, why error) error {
	if why != nil {
		x.Error = why.Error()
	}
	return a.out.Encode(x)
}

func (a *served) do(ctx context.Context, o order) error {
	switch o.Do {
	case doWindow:
		line, err := a.window(o)
		return a.answer(answer{Step: stepSample, Sample: line}, err)
	case doClose:
		var err error
		if s := a.subjects[o.Arm]; s != nil {
			closing, cancel := context.WithTimeout(ctx, closeTimeout)
			defer cancel()
			err = s.Close(closing)
		}
		return a.answer(answer{Step: stepClosed}, err)
	case doExport:
		audit, err := json.Marshal(a.suite.Export())
		return a.answer(answer{Step: stepExported, Audit: audit}, err)
	}
	return fmt.Errorf("no such order: %q", o.Do)
}

// window measures the agent's part of one.
func (a *served) window(o order) (*sampleLine, error) {
	plan := a.suite.Design().Plan
	at := slices.IndexFunc(plan.Arms, func(x Arm) bool { return x.ID == o.Arm && x.Processes >= a.cfg.Process })
	if at < 0 {
		return nil, fmt.Errorf("%q is no arm of process %d", o.Arm, a.cfg.Process)
	}
	arm := plan.Arms[at]
	first, n := arm.part(a.cfg.Process)
	arm.Threads = n
	s := a.subjects[arm.ID]
	if s == nil {
		var err error
		if s, err = a.suite.Subject(arm, uint64(a.cfg.Process)<<40|uint64(at)); err != nil {
			return nil, err
		}
		a.subjects[arm.ID] = s
	}
	sample, err := s.Window(o.ctx, Window{Arm: arm, Round: o.Round, Lead: o.Lead, Length: o.Length, Seed: o.Seed, First: first, Company: a})
	if err != nil {
		return nil, err
	}
	return lineOf(sample)
}

// Start implements Company.
func (a *served) Start(ctx context.Context) (time.Time, error) {
	o, err := a.next(ctx, stepPrepared, doStart)
	return time.Now().Add(o.At - clock.System().Now()), err
}

// End implements Company.
func (a *served) End(ctx context.Context) error {
	_, err := a.next(ctx, stepEnded, doEnd)
	return err
}

// next says that a step is done, and waits for the order to go on.
func (a *served) next(ctx context.Context, done, want string) (order, error) {
	if err := a.answer(answer{Step: done}, nil); err != nil {
		return order{}, err
	}
	select {
	case o, ok := <-a.orders:
		if !ok || o.Do != want {
			return o, fmt.Errorf("%q came instead of %q", o.Do, want)
		}
		return o, nil
	case <-ctx.Done():
		return order{}, errAborted
	}
}

var errAborted = errors.New("the window was aborted")
