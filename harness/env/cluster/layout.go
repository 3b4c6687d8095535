package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/login"
)

// Layout is how many nodes each data centre of a cluster has: of {3, 1} n1, n2 and n3 are
// in dc1, and n4 is in dc2. Clients are in dc1 and agree there. A single number is a
// cluster that knows no data centres.
type Layout []int

// maxNodes bounds a cluster.
const maxNodes = 9

// Plain is the layout of a cluster of which nothing is said: three nodes.
func Plain() Layout { return Layout{3} }

// ParseLayout reads what String writes.
func ParseLayout(s string) (Layout, error) {
	var l Layout
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: numbers of nodes with commas between, such as 3,1", s)
		}
		l = append(l, n)
	}
	return l, l.Check()
}

// String is such as 3,1.
func (l Layout) String() string {
	words := make([]string, len(l))
	for i, n := range l {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// Words says it to a person.
func (l Layout) Words() string {
	if len(l) < 2 {
		return fmt.Sprintf("%d nodes in one data centre", l.Nodes())
	}
	words := make([]string, len(l))
	for i, n := range l {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " + ") + " nodes in " + strconv.Itoa(len(l)) + " data centres"
}

// Nodes is the number of nodes.
func (l Layout) Nodes() int {
	sum := 0
	for _, n := range l {
		sum += n
	}
	return sum
}

// Equal reports whether two clusters are laid out alike.
func (l Layout) Equal(other Layout) bool { return slices.Equal(l, other) }

// Check says what is wrong with it.
func (l Layout) Check() error {
	switch {
	case len(l) == 0:
		return errors.New("no data centre")
	case slices.Min(l) < 1:
		return fmt.Errorf("%s: a data centre has at least 1 node", l)
	case l.Nodes() > maxNodes:
		return fmt.Errorf("%s: %d nodes, at most %d", l, l.Nodes(), maxNodes)
	}
	return nil
}

// Datacenter is that of the i-th node, from 0; "" without such a node or data centres.
func (l Layout) Datacenter(i int) string {
	if len(l) < 2 || i < 0 {
		return ""
	}
	for dc, n := range l {
		if i < n {
			return datacenter(dc)
		}
		i -= n
	}
	return ""
}

func datacenter(i int) string { return "dc" + strconv.Itoa(i+1) }

// rack is the only one of a data centre.
const rack = "rack1"

// rackdc is the text of the i-th node's cassandra-rackdc.properties, "" if it needs none.
func (l Layout) rackdc(i int) string {
	dc := l.Datacenter(i)
	if dc == "" {
		return ""
	}
	return "dc=" + dc + "\nrack=" + rack + "\n"
}

// replication has factor replicas in each data centre, as far as there are nodes.
func (l Layout) replication(factor int) cassandra.Replication {
	if len(l) < 2 {
		return cassandra.Replication{Class: "SimpleStrategy", Factor: min(factor, l.Nodes())}
	}
	dcs := map[string]int{}
	for i, n := range l {
		dcs[datacenter(i)] = min(factor, n)
	}
	return cassandra.Replication{DCs: dcs}
}

// login is what clients have to know: in which data centre they agree; nil: nothing.
func (l Layout) login() *login.Login {
	if len(l) < 2 {
		return nil
	}
	return &login.Login{LocalDC: datacenter(0), LocalSerial: true}
}

// laidOut is a Cluster that may have several data centres.
type laidOut interface{ Layout() Layout }

// LayoutOf is the layout of a cluster.
func LayoutOf(c Cluster) Layout {
	if l, ok := c.(laidOut); ok {
		return l.Layout()
	}
	return Layout{len(c.Nodes())}
}

// DatacenterOf is a node's data centre, "" if the cluster knows none.
func DatacenterOf(c Cluster, node string) string {
	l := LayoutOf(c)
	return l.Datacenter(slices.IndexFunc(c.Nodes(), func(n Node) bool { return n.Name() == node }))
}
