package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
)

// claims keeps two faults off one end of a link: the first to heal would end the
// other's as well.
type claims struct {
	mu    sync.Mutex
	taken map[link.End]bool
}

func (c *claims) take(ends []link.End) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range ends {
		if c.taken[e] {
			return fmt.Errorf("link %s (%s) is under another fault already: let the two follow each other", e.Link.Name(), e.Dir)
		}
	}
	if c.taken == nil {
		c.taken = map[link.End]bool{}
	}
	for _, e := range ends {
		c.taken[e] = true
	}
	return nil
}

func (c *claims) free(ends []link.End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range ends {
		delete(c.taken, e)
	}
}

// switched is ends of links switched away from pass, and what watches them: the links'
// counters, and a probe of the harness's own in each link.
type switched struct {
	env   *Env
	ends  []link.End
	links []*link.Link // of the ends
	trial *trial
	watch *link.Watch
	freed bool
}

// newSwitched puts the ends into the mode, after before has measured them as they are. It
// watches them and the links of also.
func newSwitched(ctx context.Context, env *Env, ends []link.End, m link.Mode, before func(context.Context, *trial) error, also ...*link.Link) (*switched, error) {
	if len(ends) == 0 {
		return nil, errors.New("no links to switch")
	}
	if err := env.claims.take(ends); err != nil {
		return nil, err
	}
	s := &switched{env: env, ends: ends, links: linksOf(ends)}
	err := s.begin(ctx, m, before)
	if err != nil {
		err = errors.Join(err, s.Heal(ctx))
		s.close()
		return nil, err
	}
	s.watch = link.NewWatch(slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(s.links, also)), byName)))
	return s, nil
}

func linksOf(ends []link.End) (links []*link.Link) {
	for _, e := range ends {
		if !slices.Contains(links, e.Link) {
			links = append(links, e.Link)
		}
	}
	return links
}

func byName(a, b *link.Link) int { return strings.Compare(a.Name(), b.Name()) }

func (s *switched) begin(ctx context.Context, m link.Mode, before func(context.Context, *trial) error) (err error) {
	if s.trial, err = newTrial(s.links); err != nil {
		return err
	}
	if err := before(ctx, s.trial); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	return s.env.set(ctx, s.ends, m)
}

// Heal lets the ends pass again. They stay under this fault until close.
func (s *switched) Heal(ctx context.Context) error {
	return s.env.set(ctx, s.ends, link.Mode{Kind: link.Pass})
}

// close ends what watches, and gives the ends free for another fault.
func (s *switched) close() {
	if s.trial != nil {
		s.trial.close()
	}
	if !s.freed {
		s.freed = true
		s.env.claims.free(s.ends)
	}
}

// passed is the bytes that the links passed in the directions that are not switched.
func (s *switched) passed() int64 {
	cut := map[string]bool{}
	for _, e := range s.ends {
		cut[e.Link.Name()+e.Dir.String()] = true
	}
	var n int64
	for name, c := range s.watch.Delta() {
		for _, d := range link.Dirs {
			if !cut[name+d.String()] {
				n += c.Dir(d).PassedBytes
			}
		}
	}
	return n
}

// workerLinks are links of workers to nodes by what they are for.
type workerLinks struct{ lock, sink, beat []*link.Link }

// store is what leads to the lock store: heartbeats go there too.
func (l workerLinks) store() []*link.Link { return slices.Concat(l.lock, l.beat) }

func (l workerLinks) all() []*link.Link { return slices.Concat(l.lock, l.beat, l.sink) }

// workerLinks returns the workers' links to the nodes, and to a sink that is on none of them.
func (e *Env) workerLinks(workers []string) (out workerLinks, err error) {
	if _, err := e.workers(workers); err != nil {
		return out, err
	}
	for _, w := range workers {
		out.sink = append(out.sink, e.WorkerLinks.Between(w, fleet.SinkHost)...)
		for _, n := range e.Cluster.Nodes() {
			for _, l := range e.WorkerLinks.Between(w, n.Name()) {
				switch l.Purpose() {
				case fleet.SinkPurpose:
					out.sink = append(out.sink, l)
				case fleet.BeatPurpose:
					out.beat = append(out.beat, l)
				default:
					out.lock = append(out.lock, l)
				}
			}
		}
	}
	return out, nil
}
