package cluster

import (
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/sandbox"

	"go.uber.org/goleak"
)

func TestConfigDefaultsAndRefusals(t *testing.T) {
	t.Parallel()
	base := LocalConfig{CacheDir: "/cache"}
	c, err := base.WithDefaults()
	must(t, err)
	if !c.Layout.Equal(Plain()) || c.PaxosVariant != "v2" || c.HeapMiB != 512 || c.Progress == nil || c.Logger == nil {
		t.Errorf("defaults: %+v", c)
	}
	for _, v := range PaxosVariants() {
		if _, err := (LocalConfig{CacheDir: "/cache", PaxosVariant: v}).WithDefaults(); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	if c.CommitLog != CommitLogBatch {
		t.Errorf("commit log %q by default: a node killed would lose acknowledged writes", c.CommitLog)
	}
	for _, v := range CommitLogs() {
		if _, err := (LocalConfig{CacheDir: "/cache", CommitLog: v}).WithDefaults(); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	for _, bad := range []struct {
		field string
		c     LocalConfig
	}{
		{"Layout", LocalConfig{Layout: Layout{-1}}},
		{"Layout", LocalConfig{Layout: Layout{10}}},
		{"Layout", LocalConfig{Layout: Layout{3, 0}}},
		{"Layout", LocalConfig{Layout: Layout{6, 4}}},
		{"Layout", LocalConfig{Layout: Layout{}}},
		{"PaxosVariant", LocalConfig{PaxosVariant: "v3"}},
		{"PaxosVariant", LocalConfig{PaxosVariant: "V2"}},
		{"CommitLog", LocalConfig{CommitLog: "group"}},
		{"HeapMiB", LocalConfig{HeapMiB: 128}},
		{"CacheDir", LocalConfig{CacheDir: "/a dir"}},
		{"CacheDir", LocalConfig{CacheDir: "relative"}},
		{"CacheDir", LocalConfig{CacheDir: "/a:b"}},
	} {
		if bad.c.CacheDir == "" {
			bad.c.CacheDir = "/cache"
		}
		_, err := bad.c.WithDefaults()
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != bad.field {
			t.Errorf("%+v: %v, want a ConfigError of %s", bad.c, err, bad.field)
		}
	}
}

// plain is the line of the default release.
var plain = line{name: "5.0"}

// TestTokens: over all nodes the tokens are distinct, evenly spaced, and dealt
// out in turn, so that every node owns as much as every other.
func TestTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(t, "nodes")
		type owned struct {
			token int64
			node  int
		}
		var ring []owned
		for i := range nodes {
			for s := range strings.SplitSeq(tokens(i, nodes), ",") {
				v, err := strconv.ParseInt(s, 10, 64)
				if err != nil || v == math.MinInt64 {
					t.Fatalf("token %d, %v: the minimum token belongs to nobody", v, err)
				}
				ring = append(ring, owned{v, i})
			}
		}
		if len(ring) != nodes*vnodes {
			t.Fatalf("%d tokens, want %d", len(ring), nodes*vnodes)
		}
		slices.SortFunc(ring, func(a, b owned) int {
			if a.token < b.token {
				return -1
			}
			return 1
		})
		span := math.Pow(2, 64) / float64(len(ring))
		for i := range ring {
			if ring[i].node != i%nodes {
				t.Fatalf("token %d belongs to node %d, want %d", i, ring[i].node, i%nodes)
			}
			if i > 0 {
				if d := float64(ring[i].token) - float64(ring[i-1].token); math.Abs(d/span-1) > 1e-6 {
					t.Fatalf("gap %g, want %g", d, span)
				}
			}
		}
	})
}

func TestYAML(t *testing.T) {
	t.Parallel()
	c, err := LocalConfig{CacheDir: "/cache", PaxosVariant: PaxosV2UnsafeReads}.WithDefaults()
	must(t, err)
	text, err := c.yamlFor(1, "/cache/scratch/x/n2/data")
	must(t, err)
	var got map[string]any
	must(t, yaml.Unmarshal([]byte(text), &got))
	for key, want := range map[string]any{
		"listen_address": "10.77.0.12", "rpc_address": "10.77.0.12", "paxos_variant": PaxosV2UnsafeReads,
		"num_tokens": vnodes, "storage_port": InternodePort, "native_transport_port": cqlPort,
		"commitlog_directory": "/cache/scratch/x/n2/data/commitlog", "initial_token": tokens(1, 3),
	} {
		if got[key] != want {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
	if !strings.Contains(text, `seeds: "10.77.0.11,10.77.0.12,10.77.0.13"`) {
		t.Error("not every node is a seed: they could not all start at once")
	}
}

func TestJVMArgs(t *testing.T) {
	t.Parallel()
	jars := []string{"/lib/a.jar", "/lib/jamm-0.4.0.jar"}
	args, err := plain.jvmArgs(jars, 512, "/d", cds{use: "/t/classes.jsa"})
	must(t, err)
	for _, want := range []string{"-Xmx512M", "-javaagent:/lib/jamm-0.4.0.jar", "-XX:SharedArchiveFile=/t/classes.jsa", "/lib/a.jar:/lib/jamm-0.4.0.jar"} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if args[len(args)-1] != "org.apache.cassandra.service.CassandraDaemon" {
		t.Errorf("the main class is %s", args[len(args)-1])
	}
	if _, err := plain.jvmArgs([]string{"/lib/a.jar"}, 512, "/d", cds{}); err == nil {
		t.Error("no error without the memory meter")
	}
	args, err = plain.jvmArgs(jars, 512, "/d", cds{dump: "/t/new.jsa", use: "/t/old.jsa"})
	must(t, err)
	if !slices.Contains(args, "-XX:ArchiveClassesAtExit=/t/new.jsa") || slices.Contains(args, "-XX:SharedArchiveFile=/t/old.jsa") {
		t.Error("one process both makes and uses an archive")
	}
}

func TestTemplateKey(t *testing.T) {
	t.Parallel()
	jars := []string{"/lib/jamm-0.4.0.jar"}
	java := Java{Path: "/java", Version: "17.0.1", Runtime: "VM 1"}
	key := func(c LocalConfig, j Java) string {
		c.CacheDir = "/cache"
		c, err := c.WithDefaults()
		must(t, err)
		k, err := templateKey(c, j, jars)
		must(t, err)
		return k
	}
	base := key(LocalConfig{}, java)
	for name, same := range map[string]string{
		"again":         key(LocalConfig{}, java),
		"paxos variant": key(LocalConfig{PaxosVariant: PaxosV1}, java),
		"seed":          key(LocalConfig{Seed: 7}, java),
	} {
		if same != base {
			t.Errorf("%s: another template", name)
		}
	}
	for name, other := range map[string]string{
		"nodes":          key(LocalConfig{Layout: Layout{4}}, java),
		"data centres":   key(LocalConfig{Layout: Layout{3, 1}}, java),
		"another layout": key(LocalConfig{Layout: Layout{2, 2}}, java),
		"heap":           key(LocalConfig{HeapMiB: 300}, java),
		"java":           key(LocalConfig{}, Java{Path: "/java", Version: "17.0.2", Runtime: "VM 2"}),
	} {
		if other == base {
			t.Errorf("%s: the same template", name)
		}
	}
}

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
		must(t, err)
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
	must(t, err)
	l := &Local{config: c}
	for i := range c.Layout.Nodes() {
		text, err := c.yamlFor(i, "/data")
		must(t, err)
		if !strings.Contains(text, "endpoint_snitch: GossipingPropertyFileSnitch\n") || !strings.Contains(text, "initial_token: "+tokens(i, 4)+"\n") {
			t.Errorf("node %d: %s", i, text)
		}
		l.nodes = append(l.nodes, l.newNode(&localNode{}, MachineSpec{Name: NodeName(i), IP: NodeIP(i)}))
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
	statements, err := furniture(c.Layout)
	must(t, err)
	if text := strings.Join(statements, "; "); !strings.Contains(text, "fencepost_reach WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}") {
		t.Errorf("one replica a row and data centre is missing: %s", text)
	}
}

// A cluster of one data centre is as it was: nobody names any.
func TestOneDatacenter(t *testing.T) {
	t.Parallel()
	c, err := LocalConfig{CacheDir: "/cache"}.WithDefaults()
	must(t, err)
	l := &Local{config: c}
	for i := range c.Layout.Nodes() {
		l.nodes = append(l.nodes, l.newNode(&localNode{}, MachineSpec{Name: NodeName(i), IP: NodeIP(i)}))
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
