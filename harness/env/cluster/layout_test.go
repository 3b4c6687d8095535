package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/sandbox"
)

func TestLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given string
		dcs   []string // of the nodes
		words string
	}{
		{"3", []string{"", "", ""}, "3 nodes in one data centre"},
		{"3,1", []string{"dc1", "dc1", "dc1", "dc2"}, "3 + 1 nodes in 2 data centres"},
		{"1,2,1", []string{"dc1", "dc2", "dc2", "dc3"}, "1 + 2 + 1 nodes in 3 data centres"},
	} {
		l, err := ParseLayout(c.given)
		if err != nil {
			t.Fatal(err)
		}
		var dcs []string
		for i := range l.Nodes() {
			dcs = append(dcs, l.Datacenter(i))
		}
		if !slices.Equal(dcs, c.dcs) || l.String() != c.given || l.Words() != c.words {
			t.Errorf("%s: %q, %s, %s", c.given, dcs, l, l.Words())
		}
		if l.Datacenter(-1) != "" || l.Datacenter(l.Nodes()) != "" {
			t.Errorf("%s: a node that there is not has a data centre", c.given)
		}
	}
	for given, want := range map[string]string{"": "numbers of nodes", "3,x": "numbers of nodes", "3,0": "at least 1 node", "-1": "at least 1 node", "9,1": "10 nodes, at most 9"} {
		if _, err := ParseLayout(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", given, err, want)
		}
	}
}

// In several data centres each node says where it stands, clients agree in the first one, and
// every keyspace names each.
func TestDatacenters(t *testing.T) {
	t.Parallel()
	c, err := LocalConfig{CacheDir: "/cache", Layout: Layout{3, 1}}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{config: c}
	for i := range c.Layout.Nodes() {
		text, err := c.yamlFor(i, "/data")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "endpoint_snitch: GossipingPropertyFileSnitch\n") || !strings.Contains(text, "initial_token: "+tokens(i, 4)+"\n") {
			t.Errorf("node %d: %s", i, text)
		}
		l.nodes = append(l.nodes, l.newNode(&localNode{}, MachineSpec{Name: nodeName(i), IP: nodeIP(i)}))
	}
	if got, want := c.Layout.rackdc(3), "dc=dc2\nrack=rack1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a := AccessTo(l)
	if a.Login == nil || a.Login.LocalDC != "dc1" || !a.Login.LocalSerial {
		t.Errorf("workers are told %#v", a.Login)
	}
	if a.Config.LocalDC != "dc1" || a.Config.Serial != cassandra.LocalSerial || a.Config.Consistency != cassandra.LocalQuorum || len(a.Config.ContactPoints) != 4 {
		t.Errorf("the harness has %+v", a.Config)
	}
	if got, err := a.Replication.CQL(); err != nil || got != "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 1}" {
		t.Errorf("%s, %v", got, err)
	}
	if DatacenterOf(l, "n3") != "dc1" || DatacenterOf(l, "n4") != "dc2" || DatacenterOf(l, "n5") != "" || !LayoutOf(l).Equal(c.Layout) {
		t.Error("nodes are not where they are")
	}
	if text := strings.Join(must(furniture(c.Layout)), "; "); !strings.Contains(text, "fencepost_reach WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}") {
		t.Errorf("one replica a row and data centre is missing: %s", text)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A cluster of one data centre is as it was: nobody names any.
func TestOneDatacenter(t *testing.T) {
	t.Parallel()
	c, err := LocalConfig{CacheDir: "/cache"}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{config: c}
	for i := range c.Layout.Nodes() {
		l.nodes = append(l.nodes, l.newNode(&localNode{}, MachineSpec{Name: nodeName(i), IP: nodeIP(i)}))
	}
	a := AccessTo(l)
	if a.Login != nil || a.Config.LocalDC != "" || a.Config.Serial != "" || c.Layout.rackdc(0) != "" || DatacenterOf(l, "n1") != "" {
		t.Errorf("%+v", a)
	}
	if got, err := a.Replication.CQL(); err != nil || got != "{'class': 'SimpleStrategy', 'replication_factor': 3}" {
		t.Errorf("%s, %v", got, err)
	}
}

// acts are what this test binary does instead of running tests, by the
// environment variable that asks for it; its value is the argument.
var acts = map[string]func(string) int{fakeNodeEnv: fakeNode}

func TestMain(m *testing.M) {
	sandbox.Init()
	for env, act := range acts {
		if arg := os.Getenv(env); arg != "" {
			os.Exit(act(arg))
		}
	}
	goleak.VerifyTestMain(m)
}
