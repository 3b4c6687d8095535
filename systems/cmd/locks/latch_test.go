//go:build integration

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

const latchSession = 4 * time.Second

// participant is a process with a LeaderLatch of Curator.
type participant struct {
	in  io.Writer
	out *bufio.Reader
}

func joinLatch(t *testing.T, jars, addr string) *participant {
	t.Helper()
	cmd := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"),
		filepath.Join("testdata", "Latch.java"), addr, fmt.Sprint(latchSession.Milliseconds()))
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = cmd.Wait()
	})
	return &participant{in, bufio.NewReader(out)}
}

// ask returns the state of its connection, whether it believes that it leads, and its node.
func (p *participant) ask(t *testing.T) (state string, leads bool, node string) {
	t.Helper()
	_, err := io.WriteString(p.in, "\n")
	must(t, err)
	line, err := p.out.ReadString('\n')
	must(t, err)
	f := strings.Fields(line)
	if len(f) != 3 {
		t.Fatalf("it says %q", line)
	}
	return f[0], f[1] == "true", f[2]
}

// await asks until it is as it is to be.
func (p *participant) await(t *testing.T, what string, is func(state string, leads bool, node string) bool) {
	t.Helper()
	var state, node string
	var leads bool
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if state, leads, node = p.ask(t); is(state, leads, node) {
			return
		}
	}
	t.Fatalf("%s: it is %s, leads: %t, its node is %s", what, state, leads, node)
}

// TestLatch: CURATOR-696. After an outage that is longer than a session, a server still has the nodes of
// sessions that their clients have given up. A latch of Curator up to 5.6.0 takes such a node for its own, and
// leads; when the node expires another leads too, and both do so for good. Later releases look whose session it is.
func TestLatch(t *testing.T) {
	for release, want := range map[string]int{"curator-old": 2, "curator": 1} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			jars, addr, dir := fetched(t, release), freeAddr(t), t.TempDir()
			_, port, err := net.SplitHostPort(addr)
			must(t, err)
			conf := filepath.Join(dir, "zoo.cfg")
			must(t, os.WriteFile(conf, fmt.Appendf(nil, "tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", dir, port), 0o600))
			start := func() *exec.Cmd {
				server := exec.Command("java", "-Xmx128M", "-XX:+UseSerialGC", "-cp", filepath.Join(fetched(t, "zookeeper"), "*"), "org.apache.zookeeper.server.ZooKeeperServerMain", conf)
				serve(t, server)
				return server
			}
			server := start()
			first := joinLatch(t, jars, addr)
			first.await(t, "alone", func(_ string, leads bool, _ string) bool { return leads })
			second := joinLatch(t, jars, addr)
			second.await(t, "the second", func(_ string, _ bool, node string) bool { return node != "null" })
			both := []*participant{first, second}

			must(t, server.Process.Kill())
			for _, p := range both {
				p.await(t, "without a server", func(state string, leads bool, _ string) bool { return state == "LOST" && !leads })
			}
			start()
			for _, p := range both {
				p.await(t, "with a server again", func(state string, _ bool, _ string) bool { return state == "RECONNECTED" })
			}
			time.Sleep(2 * latchSession) // the old sessions expire
			conn, _, err := zk.Connect([]string{addr}, latchSession, zk.WithLogInfo(false))
			must(t, err)
			defer conn.Close()
			nodes, _, err := conn.Children("/latch")
			must(t, err)
			// What stays so for longer than two sessions stays so.
			for until := time.Now().Add(2 * latchSession); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
				var leaders, gone []string // by their nodes
				for _, p := range both {
					if _, leads, node := p.ask(t); leads {
						leaders = append(leaders, filepath.Base(node))
					}
				}
				for _, node := range leaders {
					if !slices.Contains(nodes, node) {
						gone = append(gone, node)
					}
				}
				if len(leaders) != want || len(gone) != want-1 {
					t.Fatalf("the leaders have the nodes %q, want %d; the server has %q", leaders, want, nodes)
				}
			}
			if len(nodes) != 3-want {
				t.Errorf("the server has the nodes %q", nodes)
			}
		})
	}
}
