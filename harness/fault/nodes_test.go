package fault

import (
	"context"
	"net"
	"strconv"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
)

// oneNode is a cluster of one node, which is a process that answers anything.
type oneNode struct {
	cluster.Cluster
	node processNode
}

func (c oneNode) Nodes() []cluster.Node { return []cluster.Node{c.node} }

func (c oneNode) Node(name string) (cluster.Node, bool) { return c.node, name == "n1" }

func (c oneNode) CQLPort() int {
	_, port, _ := net.SplitHostPort(c.node.Addr())
	n, _ := strconv.Atoi(port)
	return n
}

type processNode struct{ *osproc.Service }

func (n processNode) Name() string { return "n1" }
func (n processNode) IP() string   { return osproc.ServiceIP }
func (n processNode) State() cluster.State {
	if n.PID() == 0 {
		return cluster.Killed
	}
	return cluster.Running
}
func (n processNode) ProcessState() string            { return osproc.Letter(n.PID()) }
func (n processNode) Standing() error                 { _, err := n.Service.Standing(); return err }
func (n processNode) Stop(ctx context.Context) error  { return n.Service.Kill(ctx) }
func (n processNode) WaitReady(context.Context) error { return nil }
func (n processNode) LogFile() string                 { return n.Log }

// Faults of nodes are seen when they were done, and when they were not.
func TestFaultsOfNodesMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  string
		inert  bool
		proven bool
		probe  string
		after  string
	}{
		"kill":           {"kill-node", false, true, "SIGKILL ended n1 (pid", ""},
		"kill nobody":    {"kill-node", true, false, "still runs, in state", ""},
		"restart":        {"restart-node", false, true, "SIGTERM ended n1 (pid", ""},
		"restart nobody": {"restart-node", true, false, "still runs, in state", ""},
		"pause":          {"pause-node", false, true, "n1 answered a request before, and does not now", "n1 answers again"},
		"pause nobody":   {"pause-node", true, false, "does not stand still", "n1 answers again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := (&Env{Cluster: oneNode{node: processNode{startService(t)}}, Read: func(context.Context, string) error { return nil }}).Ready()
			if c.inert {
				env.Inert = FamilyNode
			}
			mustProve(t, env, Spec{Fault: c.fault, Targets: []string{"n1"}}, 0, proofs{c.proven, c.probe, true, c.after})
		})
	}
}
