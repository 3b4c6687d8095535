package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fencepost/harness/env/cluster"
)

// site is where a command's runs are carried out, on one cluster at a time: that which it
// was given, or one of the layout that the next run needs.
type site struct {
	backend string
	cluster cluster.Cluster // nil: none is up
	// start starts a cluster and returns what ends it; nil: there is none but the given. What
	// nodes leave open is what the command asks for.
	start func(nodes nodeChoice, l cluster.Layout) (cluster.Cluster, func() error, error)
	end   func() error
	// nodes are what start was told last.
	nodes nodeChoice
}

// do does work on the site and ends what was started.
func (s *site) do(work func(*site) error) error {
	err := work(s)
	if closeErr := s.close(); closeErr != nil {
		return errors.Join(err, closeErr)
	}
	return err
}

// on returns a cluster of a layout. One of another layout is ended first.
func (s *site) on(l cluster.Layout) (cluster.Cluster, error) { return s.of(nodeChoice{}, l) }

// of is on for certain nodes; what they leave open is what the command asks for.
func (s *site) of(nodes nodeChoice, l cluster.Layout) (cluster.Cluster, error) {
	switch {
	case s.start == nil && !s.has(l):
		return nil, usageError(s.refusal(l))
	case s.start == nil:
		if err := nodes.on(s.cluster); err != nil {
			return nil, usageError(err)
		}
		return s.cluster, nil
	case s.has(l) && s.nodes == nodes:
		return s.cluster, nil
	}
	if err := s.close(); err != nil {
		return nil, fmt.Errorf("end the cluster before: %w", err)
	}
	c, end, err := s.start(nodes, l)
	if err != nil {
		return nil, err
	}
	s.cluster, s.end, s.nodes = c, end, nodes
	return c, nil
}

// close ends what was started.
func (s *site) close() error {
	end := s.end
	s.end = nil
	if end == nil {
		return nil
	}
	s.cluster = nil
	return end()
}

// has reports whether the cluster at hand will do. How many nodes somebody else's cluster has
// in its one data centre is its own affair.
func (s *site) has(l cluster.Layout) bool {
	if s.cluster == nil {
		return false
	}
	has := cluster.LayoutOf(s.cluster)
	return has.Equal(l) || s.start == nil && s.backend != "up" && len(has) < 2 && len(l) < 2
}

// refusal says why this site has no such layout, and what to do.
func (s *site) refusal(l cluster.Layout) error {
	if s.backend != "up" {
		return oneDatacenter(s.backend, l)
	}
	up := "fencepost up"
	if !l.Equal(cluster.Plain()) {
		up += " --datacenters=" + l.String()
	}
	return fmt.Errorf("the cluster that is kept up has %s, and %s are needed: use --cluster=local, or fencepost down and then %s", cluster.LayoutOf(s.cluster).Words(), l.Words(), up)
}

func oneDatacenter(backend string, l cluster.Layout) error {
	if backend == clusterExternal {
		return fmt.Errorf("%s are needed, and of an external cluster only one data centre is used: use --cluster=local", l.Words())
	}
	return fmt.Errorf("%s are needed, and containers make one data centre only: use --cluster=local", l.Words())
}

// wanted refuses work that cannot be done where somebody wants it, before anything starts.
func wanted(backend string, layouts []cluster.Layout) error {
	if backend != "docker" && backend != clusterExternal || len(layouts) == 0 || slices.ContainsFunc(layouts, func(l cluster.Layout) bool { return len(l) < 2 }) {
		return nil
	}
	return oneDatacenter(backend, layouts[0])
}

// needed are the layouts of jobs, each once, in their order.
func needed[J any](jobs []J, layout func(J) cluster.Layout) (out []cluster.Layout) {
	for _, j := range jobs {
		if l := layout(j); !slices.ContainsFunc(out, l.Equal) {
			out = append(out, l)
		}
	}
	return out
}

// inOrder moves the jobs that need another layout than the first to the end, so that few
// clusters are started.
func inOrder[J any](jobs []J, layout func(J) cluster.Layout) []J {
	all := needed(jobs, layout)
	at := func(j J) int { return slices.IndexFunc(all, layout(j).Equal) }
	return slices.SortedStableFunc(slices.Values(jobs), func(a, b J) int { return at(a) - at(b) })
}

// possible leaves out the jobs that cannot be done at the site, and says so; none that was
// named.
func possible[J any](s *site, jobs []J, layout func(J) cluster.Layout, name func(J) string, named bool, out io.Writer) ([]J, error) {
	var can []J
	var left []string
	var why error
	for _, j := range jobs {
		if s.start != nil || s.has(layout(j)) {
			can = append(can, j)
			continue
		}
		why = fmt.Errorf("%s: %w", name(j), s.refusal(layout(j)))
		if named {
			return nil, usageError(why)
		}
		if !slices.Contains(left, name(j)) {
			left = append(left, name(j))
		}
	}
	if len(can) == 0 && why != nil {
		return nil, usageError(why)
	}
	if len(left) > 0 {
		_, err := fmt.Fprintf(out, "left out: %s (%v)\n", strings.Join(left, ", "), errors.Unwrap(why))
		return can, err
	}
	return can, nil
}
