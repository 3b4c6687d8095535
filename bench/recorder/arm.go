package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/link"
	"fencepost/harness/target/workload"
)

// connectTimeout bounds the opening of an arm's session.
const connectTimeout = 30 * time.Second

// Subject implements bench.Suite. Each arm is as a worker process of its own: a life with a lock
// client, a session, and, if it is recorded or has links, a history or links of its own.
func (s *Suite) Subject(a bench.Arm, stream uint64) (bench.Subject, error) {
	k, ok := kindOf(a.Kind)
	if !ok {
		return s.ceiling.Subject(), nil
	}
	s.lives++
	worker := fmt.Sprintf("w%d", s.lives)
	life := worker + ".1"
	client := locks.Client{
		Rows: s.env.Locks, TTL: a.TTL, Rand: s.env.Rand(stream), Clock: s.env.Clock,
		Name: func(th *bench.Thread) string { return fmt.Sprintf("%s/c%d", life, th.Number+1) },
	}
	x := &arm{}
	if k.recorded {
		r, err := newRecording(s.dir, a.ID, life)
		if err != nil {
			return nil, err
		}
		if s.spoil != nil {
			r.through = s.spoil(r.through)
		}
		s.recordings = append(s.recordings, r)
		x.recording, client.Observer, client.Acquire = r, r.observer(), r.acquire
	}
	if s.env.Session != nil {
		if err := s.connect(x, worker, k.linked); err != nil {
			return nil, fmt.Errorf("%s: %w", a.ID, err)
		}
		client.Rows = cassandra.NewLocks(x.db)
	}
	var err error
	x.Subject, err = s.cycles.Subject(client)
	return x, err
}

// arm is a lock client with what lies between it and the nodes.
type arm struct {
	bench.Subject
	recording *recording
	db        *cassandra.DB // nil: simulated
	links     []*link.Link
}

// connect opens the arm's session.
func (s *Suite) connect(x *arm, worker string, linked bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	var linkErr error
	db, err := s.env.Session(ctx, func(c *cassandra.Config) {
		if x.recording != nil {
			c.OnStatement = x.recording.statement
		}
		if linked {
			linkErr = s.link(x, worker, c)
		}
	})
	x.db = db
	return errors.Join(linkErr, err)
}

// link makes the arm's links, one a node, and has a session use no other way.
func (s *Suite) link(x *arm, worker string, c *cassandra.Config) error {
	addrs := map[string]string{}
	c.Dial = workload.DialThrough(addrs)
	for _, n := range s.env.Addrs {
		spec := link.Spec{From: worker, To: n.Name, Listen: "127.0.0.1:0", Upstream: n.Addr, Seed: s.env.Seed}
		if c.TLS == nil { // else nobody can read it
			spec.Tap = s.tap
		}
		l, err := s.fabric.Add(spec)
		if err != nil {
			return err
		}
		x.links = append(x.links, l)
		addrs[n.IP] = l.Addr()
	}
	c.ContactPoints = slices.Sorted(maps.Keys(addrs))
	return nil
}

// Close implements bench.Subject.
func (x *arm) Close(ctx context.Context) error {
	err := x.Subject.Close(ctx)
	if x.recording != nil {
		err = errors.Join(err, x.recording.close())
	}
	if x.db != nil {
		x.db.Close()
	}
	var opened int64
	for _, l := range x.links {
		opened += l.Counters().ConnsOpened
	}
	if len(x.links) > 0 && opened == 0 {
		err = errors.Join(err, errors.New("no connection passed its links"))
	}
	return err
}
