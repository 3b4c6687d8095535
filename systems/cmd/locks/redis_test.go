//go:build integration

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"fencepost/systems/drive"
)

// redisServers are processes; signal sends the first of them a signal.
type redisServers struct {
	addrs []string
	procs []*os.Process
}

func (s *redisServers) signal(t *testing.T, n int, what os.Signal) {
	t.Helper()
	for _, p := range s.procs[:n] {
		must(t, p.Signal(what))
	}
}

// startRedis starts servers of the machine's own Redis, or of what scripts/fetch-store has fetched.
func startRedis(t *testing.T, n int) *redisServers {
	t.Helper()
	root := fetched(t, "redis")
	path, env := filepath.Join(root, "redis-server"), os.Environ()
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(root, "usr", "bin", "redis-server")
		libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*"))
		must(t, err)
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	}
	s := &redisServers{}
	for range n {
		addr := freeAddr(t)
		_, port, err := net.SplitHostPort(addr)
		must(t, err)
		server := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
		server.Env = env
		serve(t, server)
		s.addrs, s.procs = append(s.addrs, addr), append(s.procs, server.Process)
	}
	for _, addr := range s.addrs {
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
				break
			}
			if time.Now().After(until) {
				t.Fatal(err)
			}
		}
	}
	return s
}

// says compares an answer: done, or not, or an error.
func says(t *testing.T, what string, done bool, err error, want string) {
	t.Helper()
	got := map[bool]string{true: "yes", false: "no"}[done]
	if err != nil {
		got = "error"
	}
	if got != want {
		t.Errorf("%s: %s (%v), want %s", what, got, err, want)
	}
}

// gets tries with one id after the other until the client has the lock.
func gets(t *testing.T, l drive.Locker, name string) string {
	t.Helper()
	var err error
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		id, taken := uuid.NewString(), false
		if _, taken, err = l.Acquire(t.Context(), name, id, lease); taken {
			return id
		}
	}
	t.Fatalf("nobody gets %s: %v", name, err)
	return ""
}

// over waits until nobody has a lock.
func over(t *testing.T, l drive.Locker, name string) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if id, err := l.Holder(t.Context(), name); err == nil && id == "" {
			return
		}
	}
	t.Fatalf("%s is not over", name)
}

// TestRedisLibraries: what both locks owe drive, also when another client has had the lock in between. A lock
// that is over is not renewed.
func TestRedisLibraries(t *testing.T) {
	for name, c := range map[string]struct {
		servers int
		open    opener
	}{"redislock": {1, openRedislock}, "redlock": {5, openRedlock}} {
		t.Run(name, func(t *testing.T) {
			servers := startRedis(t, c.servers)
			mine, theirs := clientAt(t, c.open, servers.addrs...), clientAt(t, c.open, servers.addrs...)
			ctx, short := t.Context(), time.Second

			m1 := gets(t, mine, "a")
			_, taken, err := theirs.Acquire(ctx, "a", "t1", lease)
			says(t, "acquire what another has", taken, err, "no")
			done, err := theirs.Renew(ctx, "a", "t1", lease)
			says(t, "renew what another has", done, err, "no")
			done, err = theirs.Release(ctx, "a", "t1")
			says(t, "release what another has", done, err, "no")
			done, err = mine.Renew(ctx, "a", m1, lease)
			says(t, "renew", done, err, "yes")
			held(t, theirs, "a", m1)
			done, err = mine.Release(ctx, "a", m1)
			says(t, "release", done, err, "yes")
			held(t, theirs, "a", "")

			_, taken, err = mine.Acquire(ctx, "a", "m2", short)
			says(t, "acquire for a second", taken, err, "yes")
			over(t, theirs, "a")
			done, err = mine.Renew(ctx, "a", "m2", lease)
			says(t, "renew what is over", done, err, "no")
			done, err = theirs.Release(ctx, "a", gets(t, theirs, "a"))
			says(t, "release", done, err, "yes")
			done, err = mine.Renew(ctx, "a", "m2", lease)
			says(t, "renew what another had", done, err, "no")
			done, err = mine.Release(ctx, "a", "m2")
			says(t, "release what is over", done, err, "no")

			done, err = mine.Seal(ctx, "a", "sealed")
			says(t, "seal", done, err, "yes")
			held(t, theirs, "a", "sealed")
			done, err = theirs.Seal(ctx, "a", "other")
			says(t, "seal what is sealed", done, err, "no")
			_, taken, err = mine.Acquire(ctx, "a", "m3", lease)
			says(t, "acquire what is sealed", taken, err, "no")
		})
	}
}

// TestRedislockAgain: an earlier copy that was not answered took it.
func TestRedislockAgain(t *testing.T) {
	l := clientAt(t, openRedislock, startRedis(t, 1).addrs...)
	_, taken, err := l.Acquire(t.Context(), "a", gets(t, l, "a"), lease)
	says(t, "acquire again", taken, err, "yes")
}

// TestRedlockSilent: what a majority does not answer is open, and is not taken when it is asked again; two
// silent servers hinder nobody.
func TestRedlockSilent(t *testing.T) {
	servers := startRedis(t, 5)
	mine, theirs := clientAt(t, openRedlock, servers.addrs...), clientAt(t, openRedlock, servers.addrs...)
	ctx := t.Context()
	servers.signal(t, 2, syscall.SIGSTOP)
	m1 := gets(t, mine, "two")
	once, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	done, err := mine.Renew(once, "two", m1, lease)
	says(t, "renew with two silent", done, err, "yes")

	servers.signal(t, 3, syscall.SIGSTOP)
	for range 2 {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, taken, err := mine.Acquire(once, "three", "m2", lease)
		says(t, "acquire with three silent", taken, err, "error")
		_, err = theirs.Holder(once, "three")
		says(t, "holder with three silent", false, err, "error")
		cancel()
	}
	servers.signal(t, 3, syscall.SIGCONT)
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, taken, e := mine.Acquire(once, "three", "m2", lease)
		cancel()
		if err = e; taken || err == nil {
			says(t, "acquire again with none silent", taken, err, "no")
			break
		}
	}
	must(t, err)
	over(t, theirs, "three")
	gets(t, theirs, "three")
}

// TestRedlockSplit: without a majority nobody has it, and the seal waits; a minority does not hinder it.
func TestRedlockSplit(t *testing.T) {
	servers := startRedis(t, 5)
	l := clientAt(t, openRedlock, servers.addrs...).(*redlock)
	ctx := t.Context()
	put := func(ids ...string) {
		for i, id := range ids {
			must(t, l.clients[i].Set(ctx, "test/a", id, 0).Err())
		}
	}
	put("x", "x", "y", "y")
	held(t, l, "a", "")
	done, err := l.Seal(ctx, "a", "sealed")
	says(t, "seal what is split", done, err, "error")
	must(t, l.clients[0].Del(ctx, "test/a").Err())
	must(t, l.clients[2].Del(ctx, "test/a").Err())
	done, err = l.Seal(ctx, "a", "sealed")
	says(t, "seal", done, err, "yes")
	held(t, l, "a", "sealed")
}

// TestRedsyncExtend: a lock that is over is not extended, but with WithSetNXOnExtend it is, though another had
// it and gave it back (redsync #149). What another has is not.
func TestRedsyncExtend(t *testing.T) {
	servers := startRedis(t, 5)
	for name, c := range map[string]struct {
		open opener
		want string
	}{"default": {openRedlock, "no"}, "SetNXOnExtend": {openRedlockNX, "yes"}} {
		mine, theirs := clientAt(t, c.open, servers.addrs...), clientAt(t, openRedlock, servers.addrs...)
		_, taken, err := mine.Acquire(t.Context(), name, "mine", time.Second)
		says(t, "acquire, "+name, taken, err, "yes")
		over(t, theirs, name)
		id := gets(t, theirs, name)
		done, err := mine.Renew(t.Context(), name, "mine", time.Second)
		says(t, "extend what another has, "+name, done, err, "no")
		_, err = theirs.Release(t.Context(), name, id)
		must(t, err)
		done, err = mine.Renew(t.Context(), name, "mine", time.Second)
		says(t, "extend what another had, "+name, done, err, c.want)
	}
}
