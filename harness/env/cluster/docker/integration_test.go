//go:build docker

package docker

import (
	"bufio"
	"context"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
)

// hungEnv makes this binary an owner that makes a network, a volume and two containers,
// says so, and then waits to be killed.
const hungEnv = "FENCEPOST_DOCKER_TEST_HUNG"

func init() { acts[hungEnv] = hung }

func hung() int {
	c, err := halfMade(context.Background(), os.Getenv(hungEnv))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(c.id)
	select {}
}

// halfMade is a cluster with one node that is made but not started.
func halfMade(ctx context.Context, logs string) (*Cluster, error) {
	config, err := Config{LogDir: logs}.withDefaults()
	if err != nil {
		return nil, err
	}
	c, _, err := connected(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	return c, c.nodes[0].make(ctx)
}

// left counts what bears a cluster's label: containers, networks, volumes.
func left(t *testing.T, cli *client.Client, id string) (n int) {
	t.Helper()
	having := client.Filters{}.Add("label", labelCluster+"="+id)
	containers, err := cli.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: having})
	must(t, err)
	networks, err := cli.NetworkList(t.Context(), client.NetworkListOptions{Filters: having})
	must(t, err)
	volumes, err := cli.VolumeList(t.Context(), client.VolumeListOptions{Filters: having})
	must(t, err)
	return len(containers.Items) + len(networks.Items) + len(volumes.Items)
}

// What a killed owner has left is removed, what a living one has is not.
func TestSweep(t *testing.T) {
	living, err := halfMade(t.Context(), t.TempDir())
	must(t, err)
	defer living.Close(context.Background())
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hungEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	id := strings.TrimSpace(line)
	if err != nil || len(id) != 8 {
		t.Fatalf("the other owner says %q, %v", line, err)
	}
	if n := left(t, living.cli, id); n != 4 {
		t.Errorf("the other owner has made %d things, want a network, a volume and two containers", n)
	}
	me, err := thisProcess()
	must(t, err)
	if n, err := sweep(t.Context(), living.cli, me); n != 0 || err != nil {
		t.Errorf("while both owners live, %d clusters are removed, %v", n, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if n, err := sweep(t.Context(), living.cli, me); n != 1 || err != nil {
		t.Errorf("when one owner is dead, %d clusters are removed, %v", n, err)
	}
	if n := left(t, living.cli, id); n != 0 {
		t.Errorf("%d things of the dead owner are left", n)
	}
	if n := left(t, living.cli, living.id); n != 4 {
		t.Errorf("%d things of the living owner are left, want 4", n)
	}
}

func TestNoSuchImage(t *testing.T) {
	_, err := Start(t.Context(), Config{Image: "fencepost-test/no-such-image:0", LogDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "could not be pulled") {
		t.Errorf("%v", err)
	}
}

// An image that is not like the official one ends with the node's last words, and
// leaves nothing.
func TestStrangeImage(t *testing.T) {
	if os.Getenv("FENCEPOST_DOCKER_TEST_BASE") == "" {
		t.Skip("FENCEPOST_DOCKER_TEST_BASE names no image without Cassandra")
	}
	_, err := Start(t.Context(), Config{Image: os.Getenv("FENCEPOST_DOCKER_TEST_BASE"), LogDir: t.TempDir()})
	if err == nil {
		t.Error("it starts")
	}
	t.Log(err)
}

func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	began := time.Now()
	c, err := Start(ctx, Config{LogDir: t.TempDir(), Progress: func(s string) { t.Log(s) }})
	must(t, err)
	defer c.Close(context.Background())
	t.Logf("start: %s; %v", time.Since(began), c.Info())
	if got := c.Info(); got["cassandra"] != cluster.DefaultRelease || got["backend"] != "docker" {
		t.Errorf("info: %v", got)
	}
	one, two := c.nodes[0], c.nodes[1]
	step := func(name string, f func(t *testing.T)) {
		if t.Failed() {
			return
		}
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			f(t)
			t.Logf("%s", time.Since(began))
		})
	}
	step("nothing is published", func(t *testing.T) { published(ctx, t, c) })
	step("one way", func(t *testing.T) { oneWay(ctx, t, c) })
	step("pause", func(t *testing.T) {
		for _, visible := range []bool{true, false} {
			seen := two.life.visible
			two.life.visible = seen && visible
			must(t, two.Pause(ctx))
			if got := two.ProcessState(); got != "T" || two.State() != cluster.Paused {
				t.Errorf("paused (seen in /proc: %v): state %q, %s", visible, got, two.State())
			}
			if err := two.Stop(ctx); err == nil {
				t.Error("a paused node is stopped")
			}
			must(t, two.Resume(ctx))
			if got := two.ProcessState(); got == "T" || got == "" {
				t.Errorf("resumed (seen in /proc: %v): state %q", visible, got)
			}
			two.life.visible = seen
		}
		must(t, two.WaitReady(ctx))
	})
	step("kill and start", func(t *testing.T) {
		must(t, one.Kill(ctx))
		if one.State() != cluster.Killed || one.PID() != 0 || one.ProcessState() != "" {
			t.Errorf("killed: %s, pid %d, state %q", one.State(), one.PID(), one.ProcessState())
		}
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(one.IP(), strconv.Itoa(cqlPort)), time.Second); err == nil {
			conn.Close()
			t.Error("a killed node accepts connections")
		}
		before := map[string]int64{}
		for _, l := range c.Links().Of("n1") {
			before[l.Name()] = l.Counters().ConnsOpened
		}
		must(t, one.Start(ctx))
		must(t, c.WaitHealthy(ctx))
		// The redirects hold for the new process.
		eventually(t, "new connections on every link of n1", func() bool {
			return !slices.ContainsFunc(c.Links().Of("n1"), func(l *link.Link) bool { return l.Counters().ConnsOpened == before[l.Name()] })
		})
	})
	step("stop and start", func(t *testing.T) {
		must(t, two.Stop(ctx))
		if two.State() != cluster.Stopped {
			t.Errorf("stopped: %s", two.State())
		}
		must(t, two.Start(ctx))
		must(t, c.WaitHealthy(ctx))
	})
	step("crash", func(t *testing.T) {
		must(t, two.life.signal(ctx, syscall.SIGKILL))
		eventually(t, "the node counts as crashed", func() bool { return two.State() == cluster.Crashed })
		must(t, cluster.Heal(ctx, c))
	})
	log, err := os.ReadFile(one.LogFile())
	if err != nil || strings.Count(string(log), "[fencepost] starting n1") != 2 || strings.Count(string(log), "Starting listening for CQL clients") != 2 {
		t.Errorf("the log of n1 does not tell of its two lives, once each: %v", err)
	}
	cli, err := connect(ctx)
	must(t, err)
	defer cli.Close()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := left(t, cli, c.id); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// published: nodes ask for no password, so no port may be open to other machines.
func published(ctx context.Context, t *testing.T, c *Cluster) {
	list, err := c.cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelCluster+"="+c.id)})
	must(t, err)
	if len(list.Items) != 2*nodes {
		t.Errorf("%d containers, want %d", len(list.Items), 2*nodes)
	}
	for _, ctr := range list.Items {
		for _, p := range ctr.Ports {
			if p.PublicPort != 0 {
				t.Errorf("%v publishes %+v", ctr.Names, p)
			}
		}
	}
}

// oneWay proves the direction of a cut: with one replica, at n1, and n2 as the
// coordinator, a write whose request is cut off leaves no row, and one whose answer is
// cut off leaves it. Both time out.
func oneWay(ctx context.Context, t *testing.T, c *Cluster) {
	open := func(n *node, keyspace string) *cassandra.DB {
		db, err := cassandra.Open(ctx, cassandra.Config{
			Pin: n.IP(), Port: cqlPort, NumConns: 1, Keyspace: keyspace,
			ConnectTimeout: 10 * time.Second, RequestTimeout: 10 * time.Second,
		})
		must(t, err)
		t.Cleanup(db.Close)
		return db
	}
	any := open(c.nodes[1], "")
	must(t, any.Exec(ctx, "CREATE KEYSPACE one_way WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"))
	must(t, any.Exec(ctx, "CREATE TABLE one_way.rows (id int PRIMARY KEY)"))
	n1, n2 := open(c.nodes[0], "one_way"), open(c.nodes[1], "one_way")
	keys := ownedBy(ctx, t, c, n2, 0)
	for i, tc := range []struct {
		name     string
		from, to string
		row      bool
	}{{"the request is cut off", "n2", "n1", false}, {"the answer is cut off", "n1", "n2", true}} {
		must(t, link.SetEnds(ctx, c.Links().Flow(tc.from, tc.to), link.Mode{Kind: link.Drop}))
		_, err := n2.Query(ctx, false, "INSERT INTO rows (id) VALUES (?)", keys[i])
		if err == nil {
			t.Errorf("%s: the write is answered", tc.name)
		}
		rows, readErr := n1.Query(ctx, false, "SELECT id FROM rows WHERE id = ?", keys[i])
		if readErr != nil || (len(rows) == 1) != tc.row {
			t.Errorf("%s: n1 has %d rows, %v; the write: %v", tc.name, len(rows), readErr, err)
		}
		must(t, c.Links().Heal(ctx))
		must(t, c.WaitHealthy(ctx))
	}
}

// ownedBy returns keys of the table rows whose only replica is that node.
func ownedBy(ctx context.Context, t *testing.T, c *Cluster, db *cassandra.DB, index int) (keys []int) {
	type token struct {
		at   *big.Int
		node int
	}
	var ring []token
	for i, n := range c.nodes {
		own, err := cassandra.Open(ctx, cassandra.Config{Pin: n.IP(), Port: cqlPort, NumConns: 1})
		must(t, err)
		rows, err := own.Query(ctx, false, "SELECT tokens FROM system.local")
		must(t, err)
		for _, s := range rows[0]["tokens"].([]string) {
			at, ok := new(big.Int).SetString(s, 10)
			if !ok {
				t.Fatalf("token %q", s)
			}
			ring = append(ring, token{at, i})
		}
		own.Close()
	}
	slices.SortFunc(ring, func(a, b token) int { return a.at.Cmp(b.at) })
	for id := range 100 {
		_, err := db.Query(ctx, false, "INSERT INTO rows (id) VALUES (?)", id)
		must(t, err)
		rows, err := db.Query(ctx, false, "SELECT token(id) AS at FROM rows WHERE id = ?", id)
		must(t, err)
		_, err = db.Query(ctx, false, "DELETE FROM rows WHERE id = ?", id)
		must(t, err)
		at := big.NewInt(rows[0]["at"].(int64))
		owner := ring[0].node
		for _, k := range ring {
			if k.at.Cmp(at) >= 0 {
				owner = k.node
				break
			}
		}
		if owner == index {
			keys = append(keys, id)
		}
	}
	if len(keys) < 2 {
		t.Fatalf("n%d owns %v of 100 keys", index+1, keys)
	}
	return keys
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 300 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(what + ": not within 30 s")
}
