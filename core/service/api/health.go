package api

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
)

// status is the answer to a probe.
type status struct {
	Status string `json:"status"`
}

// probeTimeout bounds what a probe waits for the database, probeAge how old an answer
// may be that a probe is given.
const (
	probeTimeout = 2 * time.Second
	probeAge     = time.Second
)

// pulse is whether the database answers, by a quorum. However many ask, it is asked once
// at a time and at most once in probeAge: probes cannot load it.
type pulse struct {
	ask    func(context.Context) error
	flight singleflight.Group
	// Of the last answer, when it was asked for; only what is in flight touches them.
	asked time.Time
	err   error
}

// check does not end what is in flight when ctx ends: others wait for it, too.
func (p *pulse) check(ctx context.Context) error {
	answer := p.flight.DoChan("", func() (any, error) {
		if p.asked.IsZero() || time.Since(p.asked) >= probeAge {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			p.asked = time.Now()
			p.err = p.ask(ctx)
		}
		return nil, p.err
	})
	select {
	case a := <-answer:
		return a.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// health is whether the database answers.
func (s *server) health(r *http.Request) (reply, error) {
	if err := s.pulse.check(r.Context()); err != nil {
		p := problemOf(err)
		if why := s.o.Why(err); why != "" {
			p.Detail = "the database does not answer as it should: " + why
		}
		p.cause = err
		return reply{}, p
	}
	return reply{body: status{"ok"}}, nil
}

// ready is whether this process should be given requests.
func (s *server) ready(r *http.Request) (reply, error) {
	if err := s.o.Ready(); err != nil {
		return reply{}, problem{Status: http.StatusServiceUnavailable, Code: "not-ready", Detail: err.Error()}
	}
	return s.health(r)
}
