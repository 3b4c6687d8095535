package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	me, err := thisProcess()
	must(t, err)
	again, ok := parseOwner(me.String())
	if !ok || again != me {
		t.Errorf("%q is read as %+v, %v", me, again, ok)
	}
	ended := exec.Command("true")
	must(t, ended.Run())
	with := func(change func(*owner)) owner {
		o := me
		change(&o)
		return o
	}
	for _, tc := range []struct {
		name string
		o    owner
		gone bool
	}{
		{"this process", me, false},
		{"a process that has ended", with(func(o *owner) { o.pid = ended.Process.Pid }), true},
		{"an earlier process of this number", with(func(o *owner) { o.start = "1" }), true},
		{"before the machine was started", with(func(o *owner) { o.pid, o.boot = ended.Process.Pid, "x" }), false},
		{"in another PID namespace", with(func(o *owner) { o.pid, o.pidSpace = ended.Process.Pid, "pid:[1]" }), false},
	} {
		if got := tc.o.gone(me); got != tc.gone {
			t.Errorf("%s: gone is %v", tc.name, got)
		}
	}
	for _, bad := range []string{"", "1", "x/1/2/3", "0/1/2/3", "1/2/3/4/5"} {
		if _, ok := parseOwner(bad); ok {
			t.Errorf("%q is taken for an owner", bad)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	of := func(subnet, gateway string) []network.IPAMConfig {
		c := network.IPAMConfig{Subnet: netip.MustParsePrefix(subnet)}
		if gateway != "" {
			c.Gateway = netip.MustParseAddr(gateway)
		}
		return []network.IPAMConfig{c}
	}
	for _, tc := range []struct {
		name    string
		ranges  []network.IPAMConfig
		gateway string
		ips     string
	}{
		{"usual", of("172.18.0.0/16", "172.18.0.1"), "172.18.0.1", "172.18.0.11 172.18.0.12 172.18.0.13"},
		{"no gateway named", of("10.1.2.0/24", ""), "10.1.2.1", "10.1.2.11 10.1.2.12 10.1.2.13"},
		{"gateway in the way", of("10.1.2.0/24", "10.1.2.12"), "10.1.2.12", "10.1.2.11 10.1.2.13 10.1.2.14"},
		{"not from the start", of("10.1.2.64/27", "10.1.2.65"), "10.1.2.65", "10.1.2.75 10.1.2.76 10.1.2.77"},
	} {
		b, err := plan("x", tc.ranges)
		if err != nil || b.gateway.String() != tc.gateway || strings.Join(b.ips, " ") != tc.ips {
			t.Errorf("%s: %+v, %v", tc.name, b, err)
		}
	}
	for name, ranges := range map[string][]network.IPAMConfig{"none": nil, "IPv6": of("fd00::/64", "fd00::1"), "too small": of("10.1.2.0/28", "10.1.2.1")} {
		if b, err := plan("x", ranges); err == nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// daemon answers at a socket as a Docker daemon of that API version would.
func daemon(t *testing.T, version string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", version)
		w.Header().Set("Ostype", "linux")
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "unix://" + socket
}

// Each way in which a daemon is not there has its remedy.
func TestDaemonError(t *testing.T) {
	t.Parallel()
	dead := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, tc := range []struct{ name, host, want, remedy string }{
		{"no socket", "unix:///nowhere/docker.sock", "no such socket", "install Docker"},
		{"nobody listens", "unix://" + dead, "nobody listens", "systemctl start docker"},
		{"too old", daemon(t, "1.30"), "1.30", "API 1.40"},
	} {
		cli, err := client.New(client.WithHost(tc.host))
		must(t, err)
		err = ask(t.Context(), cli)
		if err == nil {
			t.Errorf("%s: a daemon answers", tc.name)
			continue
		}
		e := daemonError(tc.host, err)
		if !strings.Contains(e.Err.Error(), tc.want) || !strings.Contains(e.Remedy, tc.remedy) {
			t.Errorf("%s: %v", tc.name, e)
		}
	}
	e := daemonError("unix:///var/run/docker.sock", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)})
	if !strings.Contains(e.Remedy, "usermod -aG docker") {
		t.Errorf("permission denied: %v", e)
	}
	cli, err := client.New(client.WithHost(daemon(t, "1.44")))
	must(t, err)
	if err := ask(t.Context(), cli); err != nil || cli.ClientVersion() != "1.44" {
		t.Errorf("a daemon of today: API %s, %v", cli.ClientVersion(), err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := Config{Image: "x"}.withDefaults()
	if err != nil || c.PaxosVariant != cluster.PaxosV2 || c.HeapMiB != 512 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []Config{{PaxosVariant: "v3"}, {HeapMiB: 10}} {
		var ce *cluster.ConfigError
		if _, err := bad.withDefaults(); !errors.As(err, &ce) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	env := c.environment("10.0.0.12", []string{"10.0.0.11", "10.0.0.12"})
	for key, want := range map[string]string{"CASSANDRA_SEEDS": "10.0.0.11,10.0.0.12", "CASSANDRA_LISTEN_ADDRESS": "10.0.0.12", "MAX_HEAP_SIZE": "512M"} {
		if env[key] != want {
			t.Errorf("%s is %q", key, env[key])
		}
	}
	// Before anything is asked of a daemon.
	if _, err := Start(context.Background(), Config{HeapMiB: 1}); err == nil {
		t.Error("a cluster with a heap of 1 MiB starts")
	}
}

func TestTopLetter(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"12", "Ss"}, {"123", "Tl"}}
	if got, err := topLetter(rows, 123); got != "T" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := topLetter(rows, 1); err == nil {
		t.Errorf("a process that is not listed is in state %q", got)
	}
}

func TestRunsHere(t *testing.T) {
	t.Parallel()
	if runsHere(os.Getpid(), "no-such-container") || runsHere(0, "") {
		t.Error("a process that is in no such container is taken for its first")
	}
}

func TestPull(t *testing.T) {
	t.Parallel()
	p := pull{layers: map[string]layer{"a": {1_000_000, 3_000_000}, "b": {2_000_000, 2_000_000}}}
	if got := p.String(); got != "3 of 5 MB in 2 layers" {
		t.Error(got)
	}
}

func TestHoldRefusesNonsense(t *testing.T) {
	t.Parallel()
	if hold("nonsense") == 0 || hold(`[{"to":"x"}]`) == 0 {
		t.Error("a holder that was told nonsense says that all is well")
	}
}

// A cluster is not healthy while a link is silent, whatever the others carry.
func TestCarry(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	c := &Cluster{links: link.NewFabric(link.Options{}), bridge: &bridge{}}
	defer c.links.Close()
	speak := func(from, to string) {
		lk, ok := c.links.Get(from + "->" + to)
		if !ok {
			t.Fatalf("no link %s->%s", from, to)
		}
		conn, err := net.Dial("tcp", lk.Addr())
		must(t, err)
		defer conn.Close()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []link.Spec{{From: "n1", To: "n2"}, {From: "n2", To: "n1"}} {
		s.Listen, s.Upstream = "127.0.0.1:0", l.Addr().String()
		if _, err := c.links.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	speak("n1", "n2")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var silent *LinksError
	if err := c.carry(over); !errors.As(err, &silent) || !slices.Equal(silent.Silent, []string{"n2->n1"}) {
		t.Errorf("with a silent link: %v", err)
	}
	speak("n2", "n1")
	if err := c.carry(t.Context()); err != nil {
		t.Errorf("when all have carried bytes: %v", err)
	}
}

// A gateway that is elsewhere, as with Docker Desktop, is told at once.
func TestGatewayElsewhere(t *testing.T) {
	t.Parallel()
	c := &Cluster{links: link.NewFabric(link.Options{}), bridge: &bridge{gateway: netip.MustParseAddr("203.0.113.1")}}
	c.nodes = cluster.NodeSet[*node]{newNode(c, 0, "203.0.113.11"), newNode(c, 1, "203.0.113.12")}
	defer c.links.Close()
	var ge *GatewayError
	if err := c.connect(); !errors.As(err, &ge) {
		t.Errorf("%v", err)
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err   error
		wants []string
	}{
		{&ImageError{Image: "cassandra:5.0.6", Err: errors.New("no route")}, []string{"cassandra:5.0.6", "docker load", "--image"}},
		{&GatewayError{Gateway: "172.18.0.1", Err: errors.New("x")}, []string{"172.18.0.1", "compose/Dockerfile.lab"}},
		{&HolderError{Node: "n1", Err: errors.New("exit"), Log: "no nf_tables"}, []string{"NET_ADMIN", "no nf_tables"}},
		{&LinksError{Silent: []string{"n1->n2"}, Gateway: "172.18.0.1", Subnet: "172.18.0.0/16"}, []string{"n1->n2", "firewall", "at 172.18.0.1", "from 172.18.0.0/16"}},
	} {
		missing := slices.DeleteFunc(slices.Clone(tc.wants), func(w string) bool { return strings.Contains(tc.err.Error(), w) })
		if len(missing) > 0 {
			t.Errorf("%v does not speak of %v", tc.err, missing)
		}
	}
}

// acts are what this test binary does instead of testing, by environment variable.
var acts = map[string]func() int{}

func TestMain(m *testing.M) {
	Init() // this binary is the program in the holders
	for env, act := range acts {
		if os.Getenv(env) != "" {
			os.Exit(act())
		}
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
