package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
)

// laid is a cluster of which only the layout counts.
type laid struct {
	cluster.Cluster
	layout cluster.Layout
}

func (l laid) Layout() cluster.Layout { return l.layout }

var several = cluster.Layout{3, 1}

func TestSiteStartsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	var log []string
	s := &site{backend: "local", start: func(n nodeChoice, l cluster.Layout) (cluster.Cluster, func() error, error) {
		name := n.store + n.release + " " + l.String()
		log = append(log, "start "+name)
		return laid{layout: l}, func() error { log = append(log, "end "+name); return nil }, nil
	}}
	for _, l := range []cluster.Layout{cluster.Plain(), cluster.Plain(), several, several, cluster.Plain()} {
		c, err := s.on(l)
		if err != nil || !cluster.LayoutOf(c).Equal(l) {
			t.Fatalf("%v, %v, want %s", c, err, l)
		}
	}
	for _, n := range []nodeChoice{{release: "4.0.19"}, {release: "4.0.19"}, {release: "4.1.10"}, {store: "etcd"}, {store: "etcd"}, {}} {
		if _, err := s.of(n, cluster.Plain()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.close(), s.close()); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(log, ";"), "start  3;end  3;start  3,1;end  3,1;start  3;end  3;"+
		"start 4.0.19 3;end 4.0.19 3;start 4.1.10 3;end 4.1.10 3;start etcd 3;end etcd 3;start  3;end  3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A cluster that was there before is never ended, and what it cannot be is refused with a
// remedy.
func TestSiteRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		backend   string
		has, need cluster.Layout
		want      string // "": it will do
	}{
		"kept":                           {"up", cluster.Plain(), cluster.Plain(), ""},
		"kept in two data centres":       {"up", several, several, ""},
		"kept in one":                    {"up", cluster.Plain(), several, "has 3 nodes in one data centre, and 3 + 1 nodes in 2 data centres are needed: use --cluster=local, or fencepost down and then fencepost up --datacenters=3,1"},
		"kept in two, one is needed":     {"up", several, cluster.Plain(), "fencepost down and then fencepost up"},
		"containers":                     {"docker", cluster.Plain(), several, "containers make one data centre only: use --cluster=local"},
		"somebody else's":                {clusterExternal, cluster.Layout{5}, several, "only one data centre is used: use --cluster=local"},
		"somebody else's, of five nodes": {clusterExternal, cluster.Layout{5}, cluster.Plain(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := (&site{backend: c.backend, cluster: laid{layout: c.has}}).on(c.need)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if ee := (*exitError)(nil); !errors.As(err, &ee) || ee.code != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if before := wanted(c.backend, []cluster.Layout{c.need}); (before != nil) != (c.backend != "up") {
				t.Errorf("before anything starts: %v", before)
			}
		})
	}
}

func TestPossible(t *testing.T) {
	t.Parallel()
	jobs := []string{"a", "two", "b", "two"}
	layout := func(j string) cluster.Layout {
		if j == "two" {
			return several
		}
		return cluster.Plain()
	}
	name := func(j string) string { return j }
	if got := strings.Join(inOrder(jobs, layout), " "); got != "a b two two" {
		t.Errorf("in the order %s", got)
	}
	if got := needed(jobs, layout); len(got) != 2 || !got[1].Equal(several) {
		t.Errorf("%v are needed", got)
	}
	s := &site{backend: "up", cluster: laid{layout: cluster.Plain()}}
	var out bytes.Buffer
	got, err := possible(s, jobs, layout, name, false, &out)
	if err != nil || strings.Join(got, " ") != "a b" || !strings.HasPrefix(out.String(), "left out: two (the cluster that is kept up has") {
		t.Errorf("%q, %v: %s", got, err, out.String())
	}
	if _, err := possible(s, jobs, layout, name, true, &out); err == nil || !strings.HasPrefix(err.Error(), "two: ") {
		t.Errorf("one that was named: %v", err)
	}
	if _, err := possible(s, jobs[1:2], layout, name, false, &out); err == nil {
		t.Error("nothing is left, and nobody says so")
	}
}
