//go:build integration

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startEtcd starts a server and returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	program, addr, peers := filepath.Join(fetched(t, "etcd"), "etcd"), freeAddr(t), "http://"+freeAddr(t)
	serve(t, exec.Command(program, "--name", "n1", "--data-dir", t.TempDir(), "--listen-client-urls", "http://"+addr, "--advertise-client-urls", "http://"+addr,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "n1="+peers))
	return addr
}

func TestEtcdMutexUnanswered(t *testing.T) { testUnanswered(t, openEtcdMutex, startEtcd(t)) }

// TestEtcdMutexLateUnlock: a copy of an unlock that arrives when its client has the lock again deletes the
// key of that grant if it is the same session's, as Unlock goes by the key alone. It must not be.
func TestEtcdMutexLateUnlock(t *testing.T) {
	server := startEtcd(t)
	door := openDoor(t, server)
	l, other := clientAt(t, openEtcdMutex, door.Addr().String()), clientAt(t, openEtcdMutex, server)
	client := l.(*etcdMutex)
	takes(t, client, "lock", "first")
	late := *client.mutex
	door.drops.servers.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	released, err := client.Release(ctx, "lock", "first")
	cancel()
	if released || err == nil {
		t.Fatalf("a release without an answer: %t, %v", released, err)
	}
	door.mend()
	takes(t, client, "lock", "second")
	must(t, late.Unlock(t.Context()))
	held(t, other, "lock", "second")
	if renewed, err := client.Renew(t.Context(), "lock", "second", lease); err != nil || !renewed {
		t.Errorf("it is lost: %v", err)
	}
}

// TestEtcdMutexOwing: an unlock that is sent again beside a renewal ends the grant that the client has by then,
// if its session is still the same, and it learns of that with the next renewal. A new session's it does not end.
func TestEtcdMutexOwing(t *testing.T) {
	server := startEtcd(t)
	for name, c := range map[string]struct {
		open opener
		left string
	}{"one session": {openOneSession, ""}, "new session": {openNewSession, "second"}} {
		t.Run(name, func(t *testing.T) {
			door := openDoor(t, server)
			client, other := clientAt(t, c.open, door.Addr().String()), clientAt(t, openEtcdMutex, server)
			takes(t, client, name, "first")
			door.drops.servers.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			released, err := client.Release(ctx, name, "first")
			cancel()
			if released || err == nil {
				t.Fatalf("a release without an answer: %t, %v", released, err)
			}
			door.mend()
			takes(t, client, name, "second")
			held(t, other, name, "second")
			renewed, err := client.Renew(t.Context(), name, "second", lease)
			says(t, "renew before the unlock comes", renewed, err, "yes")
			held(t, other, name, c.left)
			renewed, err = client.Renew(t.Context(), name, "second", lease)
			says(t, "renew after it", renewed, err, map[bool]string{true: "no", false: "yes"}[c.left == ""])
		})
	}
}
