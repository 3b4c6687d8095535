package plan

import (
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// What a scenario needs of the cluster goes into its plans, whose targets are there.
func TestClusterOfAScenario(t *testing.T) {
	t.Parallel()
	s := loaded(t, "two-datacenters")
	if !s.Layout().Equal(cluster.Layout{3, 1}) || !loaded(t, "steady").Layout().Equal(cluster.Plain()) {
		t.Errorf("%s, and %s of a scenario that says nothing", s.Layout(), loaded(t, "steady").Layout())
	}
	p, err := New(*s, 1, system.Core)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil || !read.Spec.Layout().Equal(s.Layout()) {
		t.Fatalf("%v, %v", read, err)
	}
	heir, err := scenario.Parse("f.yaml", []byte("name: mine\nabout: mine\nextends: two-datacenters\nexpect: {min_cycles: {medium: {before: 1}}}\n"))
	if err != nil || !heir.Layout().Equal(s.Layout()) {
		t.Errorf("what it extends has targets in two data centres: %v, %v", heir, err)
	}
	s.Cluster.Datacenters = cluster.Layout{2, 1}
	if _, err := New(*s, 1, system.Core); err == nil || !strings.Contains(err.Error(), "there is no n4 among 3 nodes") {
		t.Errorf("a target that there is not: %v", err)
	}
	if s.NeedsControl() == "" {
		t.Error("somebody else's cluster has two data centres for it")
	}
	own, err := system.Find("exec:true")
	if err != nil {
		t.Fatal(err)
	}
	if err := Suits(s, own); err == nil || !strings.Contains(err.Error(), "it has several data centres") {
		t.Errorf("a program of a user's own: %v", err)
	}
}
