package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// portPoll is how often a starting node's CQL port is tried.
const portPoll = 20 * time.Millisecond

// host starts processes; *sandbox.Host is one.
type host interface {
	Start(cmd *exec.Cmd) error
	Redirect(dst, to netip.AddrPort) error
	Close() error
}

// localNode is a Cassandra JVM on a sandbox host.
type localNode struct {
	*Machine
	host host
	java string
	args []string // of java
	dir  string   // its working directory
}

// newNode adds a machine's lives to a node that is otherwise complete.
func (l *Local) newNode(n *localNode, s MachineSpec) *localNode {
	s.LogFile, s.Logger, s.Login = filepath.Join(l.config.LogDir, s.Name+".log"), l.config.Logger, l.config.login()
	s.Begin, s.Ended = n.begin, l.Tell
	n.Machine = NewMachine(s)
	return n
}

// DataDir has the node's data and its commit log.
func (n *localNode) DataDir() string { return dataOf(n.dir) }

// dataOf is the data directory of a node with this working directory.
func dataOf(dir string) string { return filepath.Join(dir, "data") }

// begin starts the JVM.
func (n *localNode) begin(_ context.Context, _ int64, ended func(*history.ProcessLife)) (Life, error) {
	cmd := exec.Command(n.java, n.args...)
	cmd.Dir, cmd.Env = n.dir, NodeEnv()
	return osproc.Start(osproc.Spec{
		Kind: history.LifeNode, Name: n.Name(), Command: cmd, Log: n.LogFile(), Traces: true, Start: n.host.Start, Ended: ended,
	})
}

// foreignEnv are variables by which a person's own options would reach servers: a JVM's, and
// proxies that are not in the sandbox.
var foreignEnv = []string{
	"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// NodeEnv is the environment of a node, of whatever store: options in the person's own must not
// reach it.
func NodeEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "ETCD_") || slices.Contains(foreignEnv, strings.ToUpper(name))
	})
}

// NodeSet is the nodes of a backend, in order of their names.
type NodeSet[N Node] []N

// All returns them as scenarios and faults see them.
func (s NodeSet[N]) All() []Node {
	out := make([]Node, len(s))
	for i, n := range s {
		out[i] = n
	}
	return out
}

// Named returns the node of that name.
func (s NodeSet[N]) Named(name string) (Node, bool) {
	for _, n := range s {
		if n.Name() == name {
			return n, true
		}
	}
	return nil, false
}

// Each runs f for every node at the same time.
func (s NodeSet[N]) Each(f func(N) error) error {
	errs := make([]error, len(s))
	var wg sync.WaitGroup
	for i, n := range s {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Kill kills all that have a process.
func (s NodeSet[N]) Kill(ctx context.Context) error {
	return s.Each(func(n N) error {
		if err := n.Kill(ctx); err != nil && !errors.Is(err, ErrState) {
			return err
		}
		return nil
	})
}

// MeshSpec says which links between nodes there are.
type MeshSpec struct {
	// Gateway is the address at which they listen, Port the one of the nodes to which they lead.
	Gateway string
	Port    int
	// Purpose tells those to different ports apart, Seed and Patience are as of link.Spec.
	Purpose  string
	Seed     uint64
	Patience time.Duration
}

// Mesh makes a link for each ordered pair of nodes, and has turn lead the first's connections
// to the second's address to the link.
func (s NodeSet[N]) Mesh(links *link.Fabric, m MeshSpec, turn func(from N, to, proxy netip.AddrPort) error) error {
	for _, from := range s {
		for _, to := range s {
			if from.Name() == to.Name() {
				continue
			}
			l, err := links.Add(link.Spec{
				From: from.Name(), To: to.Name(), Purpose: m.Purpose, Seed: m.Seed, Patience: m.Patience, Listen: net.JoinHostPort(m.Gateway, "0"),
				Upstream: net.JoinHostPort(to.IP(), strconv.Itoa(m.Port)),
			})
			if err != nil {
				return fmt.Errorf("cluster: link %s->%s: %w", from.Name(), to.Name(), err)
			}
			dst, err := netip.ParseAddrPort(l.Upstream())
			proxy, err2 := netip.ParseAddrPort(l.Addr())
			if err := errors.Join(err, err2); err != nil {
				return fmt.Errorf("cluster: link %s: %w", l.Name(), err)
			}
			if err := turn(from, dst, proxy); err != nil {
				return err
			}
		}
	}
	return nil
}

// errEnded is why awaitPort gave up: the process at the port is gone.
var errEnded = errors.New("cluster: the process ended before it answered")

// awaitPort returns when somebody accepts connections at addr. It ends early with
// errEnded when ended is closed, and with ctx's cause.
func awaitPort(ctx context.Context, addr string, ended <-chan struct{}) error {
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	dialer := net.Dialer{Timeout: time.Second}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
