//go:build integration

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startRedis starts the machine's own Redis, or what scripts/fetch-store has fetched.
func startRedis(t *testing.T) (at drive.Place, db *redis.Client) {
	t.Helper()
	fetch := exec.CommandContext(t.Context(), "../../../scripts/fetch-store", "redis")
	fetch.Stderr = os.Stderr
	dir, err := fetch.Output()
	must(t, err)
	root := strings.TrimSpace(string(dir))
	path, env := filepath.Join(root, "redis-server"), os.Environ()
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(root, "usr", "bin", "redis-server")
		libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*"))
		must(t, err)
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, free.Close())
	host, port, err := net.SplitHostPort(free.Addr().String())
	must(t, err)
	server := exec.Command(path, "--bind", host, "--port", port, "--save", "", "--dir", t.TempDir())
	server.Env, server.Stderr = env, os.Stderr
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // it has no more to do
		_ = server.Wait()
	})
	db = redis.NewClient(&redis.Options{Addr: free.Addr().String()})
	t.Cleanup(func() { _ = db.Close() })
	for until := time.Now().Add(10 * time.Second); db.Ping(t.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("Redis does not answer")
		}
	}
	return drive.Place{Nodes: []string{free.Addr().String()}, Name: "test", Locks: []string{"lock"}, TTL: 6 * time.Second}, db
}

// TestAsynqRetries: a task whose lease is over is run again with a higher token, by a process that looks; put again,
// it is not run again, even when it is completed.
func TestAsynqRetries(t *testing.T) {
	at, db := startRedis(t)
	runs := make(chan drive.Job, 10)
	hang := make(chan struct{})
	first, err := openAsynq(t.Context(), at, 1, func(_ context.Context, j drive.Job) error {
		runs <- j
		<-hang
		return nil
	})
	must(t, err)
	must(t, first.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	a := next(t, runs)
	// As if it had stood still.
	must(t, db.ZAddXX(t.Context(), "asynq:{test}:lease", redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: a.ID()}).Err())
	second, err := openAsynq(t.Context(), at, 1, func(_ context.Context, j drive.Job) error { runs <- j; return nil })
	must(t, err)
	b := next(t, runs)
	if a.ID() != "lock#7" || b.ID() != a.ID() || b.Token <= a.Token {
		t.Errorf("%+v, and then %+v", a, b)
	}
	close(hang)
	completed := func() bool {
		info, err := asynq.NewInspectorFromRedisClient(db).GetTaskInfo("test", a.ID())
		must(t, err)
		return info.State == asynq.TaskStateCompleted
	}
	for until := time.Now().Add(10 * time.Second); !completed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is not completed")
		}
	}
	must(t, second.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	must(t, second.Put(t.Context(), drive.Job{Lock: "lock", N: 8}))
	if c := next(t, runs); c.N != 8 || c.Token <= b.Token {
		t.Errorf("%+v after %+v", c, b)
	}
	must(t, errors.Join(first.Close(t.Context()), second.Close(t.Context())))
}

func next(t *testing.T, runs chan drive.Job) drive.Job {
	t.Helper()
	select {
	case j := <-runs:
		return j
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is run")
		return drive.Job{}
	}
}

// TestGocronLocks: the lock by name is free again when a run and the least time are over, also for the same
// occurrence; the lock by time is not.
func TestGocronLocks(t *testing.T) {
	at, db := startRedis(t)
	for _, byTime := range []bool{false, true} {
		r := &recurring{key: at.Name + "/lock", ttl: at.TTL, byTime: byTime, locks: redislock.New(db)}
		take := func(n int64) error {
			held, err := r.take(t.Context(), n)
			if err != nil {
				return err
			}
			if _, err := r.take(t.Context(), n+1); !errors.Is(err, redislock.ErrNotObtained) {
				t.Errorf("by time %t: two runs at once: %v", byTime, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // as when gocron is shut down
			err = held.Unlock(ctx)
			if n, there := db.Exists(t.Context(), r.key).Result(); there != nil || (n == 0) != byTime {
				t.Errorf("by time %t: the lock by name is there %d times after a short run, %v", byTime, n, there)
			}
			time.Sleep(gocronLeast)
			return err
		}
		must(t, take(1))
		if err := take(1); errors.Is(err, redislock.ErrNotObtained) != byTime || !byTime && err != nil {
			t.Errorf("by time %t: again: %v", byTime, err)
		}
		must(t, take(10))
	}
}
