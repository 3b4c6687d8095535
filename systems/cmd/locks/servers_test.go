//go:build integration

package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/systems/drive"
)

const lease = 6 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fetched is the directory of what scripts/fetch-store has fetched for a store.
func fetched(t *testing.T, store string) string {
	t.Helper()
	fetch := exec.CommandContext(t.Context(), "../../../scripts/fetch-store", store)
	fetch.Stderr = os.Stderr
	dir, err := fetch.Output()
	must(t, err)
	return strings.TrimSpace(string(dir))
}

func freeAddr(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, free.Close())
	return free.Addr().String()
}

// serve runs a server until the test is over.
func serve(t *testing.T, server *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	server.Stdout, server.Stderr = log, log
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // it has no more to do
		_ = server.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the server said:\n%s", text)
		}
	})
}

// door is a proxy before a server. It can drop what comes from one side.
type door struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
	drops *sides // of the connections that there are
}

// sides say whose bytes are dropped.
type sides struct{ clients, servers atomic.Bool }

func openDoor(t *testing.T, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d := &door{Listener: l, to: to, drops: &sides{}}
	t.Cleanup(func() { _ = l.Close(); d.mend() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil { // not up yet
				_ = client.Close()
				continue
			}
			d.mu.Lock()
			d.conns = append(d.conns, client, server)
			drops := d.drops
			d.mu.Unlock()
			go carry(server, client, &drops.clients)
			go carry(client, server, &drops.servers)
		}
	}()
	return d
}

func carry(to io.WriteCloser, from io.ReadCloser, drop *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if drop.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// mend closes the connections, on which bytes are missing; new ones carry all.
func (d *door) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns, d.drops = nil, &sides{}
}

// opener connects a client.
type opener func(context.Context, drive.Place) (drive.Locker, error)

// clientAt is a client of the servers at these addresses.
func clientAt(t *testing.T, open opener, addrs ...string) drive.Locker {
	t.Helper()
	l, err := open(t.Context(), drive.Place{Nodes: addrs, Name: "test", TTL: lease})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// takes tries until the client has the lock.
func takes(t *testing.T, l drive.Locker, name, id string) {
	t.Helper()
	var taken bool
	var err error
	for until := time.Now().Add(30 * time.Second); !taken && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, taken, err = l.Acquire(ctx, name, id, lease)
		cancel()
	}
	if !taken {
		t.Fatalf("%s does not get %s: %v", id, name, err)
	}
}

// held asks the server itself who has a lock.
func held(t *testing.T, l drive.Locker, name, want string) {
	t.Helper()
	if got, err := l.Holder(t.Context(), name); err != nil || got != want {
		t.Errorf("%s is held by %q (%v), want %q", name, got, err, want)
	}
}

// testUnanswered: a release of which no copy was answered leaves the lock taken if none arrived; the
// client's next attempt for another lock gives it up, as the session that keeps it goes on. If one
// did arrive, another client may have the lock, and keeps it.
func testUnanswered(t *testing.T, open opener, server string) {
	for i, c := range []struct {
		name    string
		lose    func(*sides)
		arrives bool
	}{
		{"no copy arrives", func(s *sides) { s.clients.Store(true) }, false},
		{"no answer arrives", func(s *sides) { s.servers.Store(true) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := "first"+strconv.Itoa(i), "second"+strconv.Itoa(i)
			door := openDoor(t, server)
			client, other := clientAt(t, open, door.Addr().String()), clientAt(t, open, server)
			takes(t, client, first, "mine")
			takes(t, other, "any", "any") // it is connected
			c.lose(door.drops)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				released, err := client.Release(ctx, first, "mine")
				cancel()
				if released || err == nil {
					t.Fatalf("a release without an answer: %t, %v", released, err)
				}
			}
			left := "mine"
			if c.arrives {
				left = "theirs"
				takes(t, other, first, left)
			}
			held(t, other, first, left)
			door.mend()
			if c.arrives { // one more copy, and the lock is another's
				var err error
				for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err = client.Release(ctx, first, "mine")
					cancel()
					if err == nil {
						break
					}
				}
				must(t, err)
				held(t, other, first, left)
			}
			takes(t, client, second, "next")
			if !c.arrives {
				left = ""
			}
			held(t, other, first, left)
			held(t, other, second, "next")
		})
	}
}
