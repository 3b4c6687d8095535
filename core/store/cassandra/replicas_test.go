package cassandra

import (
	"strings"
	"testing"
)

// TestMisfit: which existing keyspaces carry which agreement.
func TestMisfit(t *testing.T) {
	t.Parallel()
	type replication = map[string]string
	simple := func(n string) replication {
		return replication{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": n}
	}
	byDC := func(dcs ...string) replication {
		r := replication{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy"}
		for i := 0; i < len(dcs); i += 2 {
			r[dcs[i]] = dcs[i+1]
		}
		return r
	}
	two := map[string]int{"dc1": 3, "dc2": 3}
	one := map[string]int{"dc1": 3}
	for name, c := range map[string]struct {
		replication replication
		local       string // data centre; "": SERIAL
		nodes       map[string]int
		want        string // "": it fits
	}{
		"one data centre":                        {byDC("dc1", "3"), "", one, ""},
		"simple":                                 {simple("3"), "", one, ""},
		"simple over two data centres":           {simple("3"), "", two, ""},
		"a single node":                          {simple("1"), "", map[string]int{"dc1": 1}, ""},
		"both":                                   {byDC("dc1", "3", "dc2", "3"), "", two, ""},
		"local":                                  {byDC("dc1", "3"), "dc1", two, ""},
		"local, both have replicas":              {byDC("dc1", "3", "dc2", "3"), "dc1", two, ""},
		"local, the other one's nodes are few":   {byDC("dc1", "3", "dc2", "9"), "dc1", two, ""},
		"more replicas than nodes, yet a quorum": {simple("3"), "", map[string]int{"dc1": 2}, ""},
		"local and simple":                       {simple("3"), "dc1", two, "knows no data centres"},
		"local, replicas elsewhere":              {byDC("dc2", "3"), "dc1", two, "no replica in data centre dc1"},
		"local, no replicas here":                {byDC("dc1", "0", "dc2", "3"), "dc1", two, "no replica in data centre dc1"},
		"no quorum":                              {simple("5"), "", map[string]int{"dc1": 2}, "no quorum"},
		"no quorum over both":                    {byDC("dc1", "3", "dc3", "3"), "", two, "no quorum"},
		"no quorum in the local one":             {byDC("dc1", "7", "dc2", "3"), "dc1", two, "no quorum"},
		"transient replicas":                     {byDC("dc1", "3/1"), "", one, "transient"},
		"another class":                          {replication{"class": "EverywhereStrategy"}, "", one, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Serial: Serial}
			if c.local != "" {
				cfg = Config{Serial: LocalSerial, Consistency: LocalQuorum, LocalDC: c.local}
			}
			problem, remedy := misfit(c.replication, true, cfg, c.nodes)
			if c.want == "" && problem != "" || !strings.Contains(problem, c.want) || (problem == "") != (remedy == "") {
				t.Errorf("%q, %q, want %q", problem, remedy, c.want)
			}
			if problem, _ := misfit(c.replication, false, cfg, c.nodes); !strings.Contains(problem, "durable_writes") {
				t.Errorf("without durable writes: %q", problem)
			}
		})
	}
}
