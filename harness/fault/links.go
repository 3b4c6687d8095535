package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fencepost/harness/fleet"
	"fencepost/harness/link"
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

// switched is ends of links switched away from pass.
type switched struct {
	env   *Env
	ends  []link.End
	watch *link.Watch
}

// newSwitched puts the ends into the mode, and watches them and the links of also.
func newSwitched(ctx context.Context, env *Env, ends []link.End, m link.Mode, also ...*link.Link) (*switched, error) {
	if len(ends) == 0 {
		return nil, errors.New("no links to switch")
	}
	if err := env.claims.take(ends); err != nil {
		return nil, err
	}
	s := &switched{env: env, ends: ends}
	if err := env.Links.Set(ctx, ends, m); err != nil {
		return nil, errors.Join(err, s.Heal(ctx))
	}
	seen := map[*link.Link]bool{}
	var links []*link.Link
	for _, e := range ends {
		if !seen[e.Link] {
			seen[e.Link] = true
			links = append(links, e.Link)
		}
	}
	for _, l := range also {
		if !seen[l] {
			seen[l] = true
			links = append(links, l)
		}
	}
	s.watch = link.NewWatch(links)
	return s, nil
}

// Heal lets the ends pass again.
func (s *switched) Heal(ctx context.Context) error {
	err := s.env.Links.Set(ctx, s.ends, link.Mode{Kind: link.Pass})
	s.env.claims.free(s.ends)
	return err
}

// stopped judges the ends as a cut: nothing passed, and something tried to.
func (s *switched) stopped() Evidence {
	delta := s.watch.Delta()
	var leaks []string
	var blocked, tried int64
	links := map[string]bool{}
	for _, e := range s.ends {
		n := delta[e.Link.Name()]
		c := n.Dir(e.Dir)
		if c.PassedBytes > 0 {
			leaks = append(leaks, fmt.Sprintf("%s %s passed %d bytes", e.Link.Name(), e.Dir, c.PassedBytes))
		}
		blocked += c.HeldTotalBytes + c.DroppedBytes
		if !links[e.Link.Name()] {
			links[e.Link.Name()] = true
			tried += n.ConnsBlackholed
		}
	}
	if len(leaks) > 0 {
		return Evidence{Text: "the cut leaks: " + strings.Join(leaks, "; ")}
	}
	if blocked == 0 {
		return Evidence{Text: fmt.Sprintf("no byte was held or dropped on the %d links: nothing shows that the cut was in force", len(links))}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("%d links passed 0 bytes; %d bytes held or dropped, %d new connections led nowhere", len(links), blocked, tried)}
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

// also adds what else a fault demands to the evidence.
func (ev *Evidence) also(holds bool, format string, args ...any) {
	ev.Proven = ev.Proven && holds
	ev.Text += "; " + fmt.Sprintf(format, args...)
}

// readTries is how often a read that must be answered is tried: on a busy machine
// one may time out though a majority is there.
const readTries = 3

// read asks for a SERIAL read through a node; want says whether it must be answered.
func (ev *Evidence) read(ctx context.Context, env *Env, node string, want bool) {
	err := env.Read(ctx, node)
	for n := 1; err != nil && want && n < readTries && ctx.Err() == nil; n++ {
		err = env.Read(ctx, node)
	}
	switch {
	case err == nil && want:
		ev.also(true, "a SERIAL read through %s is answered", node)
	case err == nil:
		ev.also(false, "yet a SERIAL read through %s, which sees no majority, is answered", node)
	case want:
		ev.also(false, "yet a SERIAL read through %s, which sees a majority, fails (%s)", node, firstLine(err))
	default:
		ev.also(true, "a SERIAL read through %s fails (%s)", node, firstLine(err))
	}
}

// firstLine keeps evidence to one line; the driver repeats the server's text.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
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
