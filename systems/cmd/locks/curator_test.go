//go:build integration

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"fencepost/systems/drive"
)

// openCurator builds the program of the locks through Curator. Each client has a child of its own, as
// they may be at different addresses.
func openCurator(t *testing.T) opener {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "../../../scripts/build-java", "curator", dir)
	build.Stderr = os.Stderr
	must(t, build.Run())
	return func(ctx context.Context, at drive.Place) (drive.Locker, error) {
		return (&family{program: func() (string, error) { return filepath.Join(dir, "curator", "run"), nil }}).open(ctx, at)
	}
}

func TestCuratorUnanswered(t *testing.T) { testUnanswered(t, openCurator(t), startZooKeeper(t)) }

// TestCurator: one client at a time has the mutex, tokens rise, and who has lost the node is not told
// that the mutex is still its own, though Curator believes so.
func TestCurator(t *testing.T) {
	server, open := startZooKeeper(t), openCurator(t)
	a, b := clientAt(t, open, server), clientAt(t, open, server)
	takes(t, a, "lock", "a")
	first, taken, err := a.Acquire(t.Context(), "lock", "a", lease) // a copy
	if err != nil || !taken || first == 0 {
		t.Fatalf("a copy of the request: %d, %t, %v", first, taken, err)
	}
	if _, taken, err := b.Acquire(t.Context(), "lock", "b", lease); err != nil || taken {
		t.Errorf("two have it: %v", err)
	}
	held(t, b, "lock", "a")
	if sealed, err := b.Seal(t.Context(), "lock", "seal"); err != nil || sealed {
		t.Errorf("sealed, though it is held: %v", err)
	}
	if renewed, err := a.Renew(t.Context(), "lock", "a", lease); err != nil || !renewed {
		t.Errorf("it is held and not renewed: %v", err)
	}
	if released, err := b.Release(t.Context(), "lock", "a"); err != nil || released {
		t.Errorf("released by another: %v", err)
	}

	conn, _, err := zk.Connect([]string{server}, lease, zk.WithLogInfo(false))
	must(t, err)
	defer conn.Close()
	nodes, _, err := conn.Children("/test.lock")
	must(t, err)
	if len(nodes) != 1 {
		t.Fatalf("nodes of the lock: %q", nodes)
	}
	must(t, conn.Delete("/test.lock/"+nodes[0], -1))
	if _, taken, err := a.Acquire(t.Context(), "lock", "a", lease); err == nil || !strings.Contains(err.Error(), "was acquired and its node is gone") {
		t.Errorf("Curator believes that it has the mutex: %t, %v", taken, err)
	}
	if renewed, err := a.Renew(t.Context(), "lock", "a", lease); err != nil || renewed {
		t.Errorf("renewed without a node: %v", err)
	}
	if released, err := a.Release(t.Context(), "lock", "a"); err != nil || released {
		t.Errorf("released without a node: %v", err)
	}
	second, taken, err := b.Acquire(t.Context(), "lock", "b2", lease)
	if err != nil || !taken || second <= first {
		t.Fatalf("the next token is %d after %d: %t, %v", second, first, taken, err)
	}
	if released, err := b.Release(t.Context(), "lock", "b2"); err != nil || !released {
		t.Errorf("not released: %v", err)
	}
	held(t, a, "lock", "")
	if sealed, err := a.Seal(t.Context(), "lock", "seal"); err != nil || !sealed {
		t.Errorf("free and not sealed: %v", err)
	}
	if _, taken, err := b.Acquire(t.Context(), "lock", "b3", lease); err != nil || taken {
		t.Errorf("taken, though it is sealed: %v", err)
	}
	held(t, b, "lock", "seal")
}

// TestCuratorKilled: the mutex of a killed process is held until its session is over.
func TestCuratorKilled(t *testing.T) {
	server, open := startZooKeeper(t), openCurator(t)
	l, other := clientAt(t, open, server), clientAt(t, openZooKeeper, server)
	takes(t, l, "lock", "mine")
	takes(t, other, "any", "any") // it is connected
	c := l.(*childLock)
	c.child.Kill()
	<-c.child.Ended()
	conn := other.(*zkNode).conn
	began := time.Now()
	for {
		nodes, _, err := conn.Children("/test.lock")
		must(t, err)
		if len(nodes) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if took := time.Since(began); took < lease {
		t.Errorf("its session was over after %s: it was closed", took)
	}
	if _, err := c.Renew(t.Context(), "lock", "mine", lease); err == nil {
		t.Error("renewed by a dead process")
	}
}
