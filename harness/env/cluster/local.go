package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/history"
)

// closeTimeout bounds waiting for killed processes; SIGKILL takes milliseconds.
const closeTimeout = 30 * time.Second

var errStartTimeout = errors.New("the cluster took too long to start; is the machine overloaded?")

// Local is a cluster of child processes in the sandbox.
type Local struct {
	config  LocalConfig
	network *sandbox.Network
	scratch *Scratch
	links   *link.Fabric
	nodes   NodeSet[*localNode]
	info    map[string]string
	Watchers

	closeOnce sync.Once
	closeErr  error
}

var _ Cluster = (*Local)(nil)

// StartLocal starts a cluster in the sandbox's network and returns when it is
// healthy. It must run inside the sandbox. The first start on a machine also
// bootstraps the template (about a minute). On error nothing is left running.
// Errors that a person can mend say how: *[JavaError], *[JarsError],
// *[MemoryError], *[ConfigError], *[ExitError].
func StartLocal(ctx context.Context, network *sandbox.Network, config LocalConfig) (*Local, error) {
	config, err := config.WithDefaults()
	if err != nil {
		return nil, err
	}
	java, err := FindJava(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := CheckJars(config.CacheDir, config.Release)
	if err != nil {
		return nil, err
	}
	have, need, err := Memory(config)
	if err != nil {
		return nil, err
	}
	if have < need {
		return nil, &MemoryError{NeedMiB: need, AvailableMiB: have}
	}
	tmpl, err := ensureTemplate(ctx, network, config, java, jars)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	config.Progress(fmt.Sprintf("starting %d Cassandra %s nodes …", config.Layout.Nodes(), config.name()))
	l, err := newLocal(network, config, java, jars, tmpl, cds{use: tmpl.archive})
	if err != nil {
		return nil, err
	}
	startCtx, cancel := context.WithTimeoutCause(ctx, config.StartTimeout, errStartTimeout)
	defer cancel()
	if err = l.startAll(startCtx); err == nil {
		err = l.WaitHealthy(startCtx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(context.WithoutCancel(ctx)))
	}
	config.Progress(fmt.Sprintf("%d nodes are ready after %.1f s", config.Layout.Nodes(), time.Since(began).Seconds()))
	return l, nil
}

// Memory returns the machine's available memory and what config's nodes need
// (heap and what a JVM takes beside it), in MiB.
func Memory(config LocalConfig) (available, needed int, err error) {
	config, err = config.WithDefaults()
	if err != nil {
		return 0, 0, err
	}
	available, err = availableMiB()
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: %w", err)
	}
	return available, config.Layout.Nodes() * (config.HeapMiB + beyondHeapMiB), nil
}

// newLocal prepares hosts, links, directories and command lines; no process yet.
func newLocal(network *sandbox.Network, config LocalConfig, java Java, jars []string, tmpl *dataTemplate, archive cds) (_ *Local, err error) {
	s, err := NewScratch(config.CacheDir)
	if err != nil {
		return nil, err
	}
	l := &Local{
		config: config, network: network, scratch: s, info: localInfo(config, java, archive),
		links: link.NewFabric(link.Options{Logger: config.Logger}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close(context.Background()))
		}
	}()
	if l.config.LogDir, err = config.MakeLogDir(filepath.Base(s.Dir)); err != nil {
		return nil, err
	}
	for i := range config.Layout.Nodes() {
		n, err := l.prepareNode(i, java, jars, tmpl, archive)
		if err != nil {
			return nil, err
		}
		l.nodes = append(l.nodes, n)
	}
	if err := l.connect(); err != nil {
		return nil, err
	}
	return l, nil
}

// connect makes the links, and turns the nodes' connections to each other through them.
func (l *Local) connect() error {
	return l.nodes.Mesh(l.links, MeshSpec{Gateway: sandbox.Gateway, Port: InternodePort, Seed: l.config.Seed}, func(from *localNode, to, proxy netip.AddrPort) error {
		return from.host.Redirect(to, proxy)
	})
}

// dataDir is node i's data directory.
func (l *Local) dataDir(i int) string { return dataOf(filepath.Join(l.scratch.Dir, NodeName(i))) }

func (l *Local) prepareNode(i int, java Java, jars []string, tmpl *dataTemplate, archive cds) (*localNode, error) {
	name, data := NodeName(i), l.dataDir(i)
	dir := filepath.Dir(data)
	for _, d := range []string{commitLogDir(data), filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("cluster: %s: %w", name, err)
		}
	}
	if err := sandbox.MountMemory(commitLogDir(data), commitLogMemoryMiB<<20); err != nil {
		return nil, fmt.Errorf("cluster: commit log of %s: %w", name, err)
	}
	if tmpl != nil {
		if err := CopyTree(tmpl.data(name), data); err != nil {
			return nil, fmt.Errorf("cluster: copy the template of %s: %w", name, err)
		}
	}
	yaml, err := l.config.yamlFor(i, data)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"cassandra.yaml": yaml, "logback.xml": Logback}
	if text := l.config.Layout.rackdc(i); text != "" {
		files[rackdcFile] = text
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("cluster: %s: %w", name, err)
		}
	}
	if i > 0 {
		archive.dump = "" // one node's classes are every node's
	}
	args, err := l.config.line.jvmArgs(jars, l.config.HeapMiB, dir, archive)
	if err != nil {
		return nil, err
	}
	if files[rackdcFile] != "" {
		args = append([]string{"-D" + rackdcFile + "=file://" + filepath.Join(dir, rackdcFile)}, args...)
	}
	if l.config.Auth {
		// Else the first role is there only after 10 s.
		args = append([]string{"-Dcassandra.superuser_setup_delay_ms=0"}, args...)
	}
	host, err := l.network.AddHost(name, NodeIP(i))
	if err != nil {
		return nil, err
	}
	return l.newNode(&localNode{host: host, java: java.Path, args: args, dir: dir}, MachineSpec{Name: name, IP: NodeIP(i)}), nil
}

// rackdcFile says where a node stands; the system property of its path is called alike.
const rackdcFile = "cassandra-rackdc.properties"

// startAll starts all nodes at once and waits for their CQL ports.
func (l *Local) startAll(ctx context.Context) error {
	return l.nodes.Each(func(n *localNode) error { return n.Start(ctx) })
}

// Nodes returns n1, n2, n3 …
func (l *Local) Nodes() []Node { return l.nodes.All() }

// Node returns the node of that name.
func (l *Local) Node(name string) (Node, bool) { return l.nodes.Named(name) }

// Layout is how its nodes are laid out.
func (l *Local) Layout() Layout { return l.config.Layout }

// Access is past all links, with the data centre in which clients agree if there are several.
func (l *Local) Access() Access {
	a := direct(l)
	a.Replication, a.Login = l.config.Layout.replication(maxReplicas), l.config.Layout.login()
	if a.Login != nil {
		a.Login.Agree(&a.Config)
	}
	return a
}

// Addr is where a node's native protocol is reached.
func (l *Local) Addr(node string) string {
	n, _ := l.nodes.Named(node)
	return net.JoinHostPort(n.IP(), strconv.Itoa(cqlPort))
}

// Links holds the internode links.
func (l *Local) Links() *link.Fabric { return l.links }

// CQLPort is 9042.
func (l *Local) CQLPort() int { return cqlPort }

// Info describes the cluster: backend, cassandra, java, paxos_variant, nodes,
// heap_mib, vnodes, cds (whether a class archive is used), commit_log; datacenters (3,1) if
// there are several.
func (l *Local) Info() map[string]string { return maps.Clone(l.info) }

func localInfo(config LocalConfig, java Java, archive cds) map[string]string {
	shared := "no"
	if archive.use != "" {
		shared = "yes"
	}
	info := map[string]string{
		"backend": "local", "cassandra": config.name(), "java": java.Version, "java_runtime": java.Runtime,
		"paxos_variant": config.PaxosVariant, "nodes": strconv.Itoa(config.Layout.Nodes()), "heap_mib": strconv.Itoa(config.HeapMiB),
		"vnodes": strconv.Itoa(vnodes), "cds": shared, "cores": strconv.Itoa(runtime.NumCPU()),
		"commit_log": config.CommitLog + ", in memory",
	}
	if len(config.Layout) > 1 {
		info["datacenters"] = config.Layout.String()
	}
	return info
}

// Close kills all nodes, removes hosts, links and data, and returns when every
// process is gone. The logs stay.
func (l *Local) Close(context.Context) error {
	l.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs := []error{l.nodes.Kill(ctx)}
		for _, n := range l.nodes {
			errs = append(errs, n.host.Close())
		}
		for i := range l.config.Layout.Nodes() {
			// Also of nodes that were not made in the end.
			errs = append(errs, sandbox.Unmount(commitLogDir(l.dataDir(i))))
		}
		errs = append(errs, l.links.Close())
		errs = append(errs, l.scratch.Close())
		l.closeErr = errors.Join(errs...)
	})
	return l.closeErr
}

// Watchers are told how processes of nodes end. The zero value has none.
type Watchers struct {
	mu   sync.Mutex
	next int
	all  map[int]func(*history.ProcessLife)
}

// Watch has ended called with each end from now on, until stop is called.
func (w *Watchers) Watch(ended func(*history.ProcessLife)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[int]func(*history.ProcessLife){}
	}
	w.next++
	n := w.next
	w.all[n] = ended
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, n)
	}
}

// Tell tells all of an end.
func (w *Watchers) Tell(l *history.ProcessLife) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.all {
		f(l)
	}
}

// Watch has ended called with each end of a process of a cluster's nodes, until stop is
// called. Of nodes that the harness has not started nobody hears.
func Watch(c Cluster, ended func(*history.ProcessLife)) (stop func()) {
	if w, ok := c.(interface {
		Watch(func(*history.ProcessLife)) func()
	}); ok {
		return w.Watch(ended)
	}
	return func() {}
}
