package fault

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/target/fleet"
)

// startService starts a process that answers anything.
func startService(t *testing.T) *osproc.Service {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	addr, err := osproc.FreeAddr()
	must(t, err)
	s := &osproc.Service{
		Name: "the test's service", Address: addr, Log: filepath.Join(t.TempDir(), "log"), Dir: t.TempDir(),
		Command: func() *exec.Cmd {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), serviceEnv+"="+addr)
			return cmd
		},
		Ready: func(ctx context.Context) error {
			_, err := greet(ctx, addr, greeting{ask: HTTPOptions})
			return err
		},
	}
	must(t, s.Start(t.Context()))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

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

// Faults of nodes and of the sink's process are seen when they were done, and when they were
// not.
func TestFaultsOfServicesMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inert bool
		proofs
	}{
		"kill-node":           {false, proofs{true, "SIGKILL ended n1 (pid", true, ""}},
		"kill-node nobody":    {true, proofs{false, "still runs, in state", true, ""}},
		"restart-node":        {false, proofs{true, "SIGTERM ended n1 (pid", true, ""}},
		"restart-node nobody": {true, proofs{false, "still runs, in state", true, ""}},
		"pause-node":          {false, proofs{true, "n1 answered a request before, and does not now", true, "n1 answers again"}},
		"pause-node nobody":   {true, proofs{false, "does not stand still", true, "n1 answers again"}},
		"kill-sink":           {false, proofs{true, "its port refuses connections", true, ""}},
		"kill-sink nobody":    {true, proofs{false, "still runs, in state", true, ""}},
		"pause-sink":          {false, proofs{true, "the sink answered a request before, and does not now", true, "the sink answers again"}},
		"pause-sink nobody":   {true, proofs{false, "does not stand still", true, "the sink answers again"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, _, _ := strings.Cut(name, " ")
			process, target := startService(t), SinkTarget
			env := (&Env{Sink: process, SinkGreeting: HTTPOptions, Read: func(context.Context, string) error { return nil }}).Ready()
			if Of(fault).On == Node {
				env.Cluster, target = oneNode{node: processNode{process}}, "n1"
			}
			if c.inert {
				env.Inert = Of(fault).Family
			}
			mustProve(t, env, Spec{Fault: fault, Targets: []string{target}}, 0, c.proofs)
			if _, err := greet(t.Context(), process.Addr(), greeting{ask: HTTPOptions}); err != nil {
				t.Errorf("it does not answer when it is over: %v", err)
			}
		})
	}
}

// Silence shows a stop only of what had answered.
func TestSilenceOfWhatWasSilent(t *testing.T) {
	t.Parallel()
	ev := Evidence{Proven: true}
	service{name: "n1", before: errors.New("no answer")}.silent(t.Context(), &ev)
	shows(t, ev, false, "n1 did not answer before either")
}

// noNodes is a cluster as far as links of workers are concerned.
type noNodes struct{ cluster.Cluster }

func (noNodes) Nodes() []cluster.Node { return nil }

// Faults of the sink act on the one link by which a worker reaches a sink that is a service.
func TestSinkLinkOfService(t *testing.T) {
	t.Parallel()
	links := link.NewFabric(link.Options{})
	f, err := fleet.New(fleet.Config{Sink: "127.0.0.1:9", Workers: 2, Links: links})
	must(t, err)
	of, err := (&Env{Cluster: noNodes{}, Fleet: f, WorkerLinks: links}).workerLinks([]string{"w2"})
	if err != nil || len(of.sink) != 1 || of.sink[0].Name() != "w2->sink/sink" || len(of.lock)+len(of.beat) > 0 {
		t.Errorf("%+v, %v", of, err)
	}
	if err := links.Close(); err != nil {
		t.Error(err)
	}
}
