//go:build integration

package sizing_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/harness/sizing"
)

var (
	out   = flag.String("cost.out", "", "add what is measured to this file, as a line")
	count = flag.Int("cost.jobs", 300, "jobs without an effect; a tenth as many have one")
)

func TestMain(m *testing.M) { cassandratest.Main(m) }

// counting counts what an engine's batches consist of.
type counting struct {
	store.Shards
	commits, changes, bytes, scans atomic.Int64
}

func (c *counting) Commit(ctx context.Context, s store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
	c.commits.Add(1)
	c.changes.Add(int64(len(b.Ops)))
	c.bytes.Add(int64(b.Bytes()))
	return c.Shards.Commit(ctx, s, b, n)
}

func (c *counting) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	c.scans.Add(1)
	return c.Shards.Scan(ctx, s, r)
}

// use is what the machine has counted so far.
type use struct {
	sent  cassandra.Sent
	nodes time.Duration // processor time of the database
	own   time.Duration
	bytes int64 // sent by all nodes, to each other and to clients
	at    time.Time
}

// read needs the nodes' processes and network interfaces to be this sandbox's.
func read(t *testing.T, db *cassandra.DB) use {
	t.Helper()
	u := use{sent: db.Sent(), at: time.Now()}
	cpu := func(pid string) time.Duration {
		b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			return 0 // it has ended
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	for _, pid := range nodes(t) {
		u.nodes += cpu(pid)
	}
	u.own = cpu("self")
	// A node's end of its link to the bridge is fp-NODE (harness/env/sandbox).
	links, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(links)) {
		name, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
		if f := strings.Fields(counts); strings.HasPrefix(name, "fp-n") && len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64) // received from it
			u.bytes += n
		}
	}
	if u.nodes == 0 || u.bytes == 0 {
		t.Fatalf("the nodes are not seen (%s of processor time, %d bytes): run it beside them (bin/fencepost exec)", u.nodes, u.bytes)
	}
	return u
}

// TestMeasure measures what a job costs. It is quick unless it is asked for more:
//
//	bin/fencepost exec -- go test -tags integration ./harness/sizing -run TestMeasure -v -cost.jobs=20000 -cost.out=…/results/cost.jsonl
func TestMeasure(t *testing.T) {
	cfg := cassandratest.Keyspace(t)
	db, sinkDB := cassandratest.Open(t, cfg), cassandratest.Open(t, cfg)
	got := sizing.Cost{Version: 1, Measured: time.Now().UTC().Truncate(time.Second), Nodes: len(cfg.ContactPoints), Replicas: replicas(cfg),
		Cores: runtime.NumCPU(), Shards: 8, Payload: 200}
	idle := read(t, db)
	time.Sleep(10 * time.Second)
	rest := read(t, db)
	background := float64(rest.bytes-idle.bytes) / rest.at.Sub(idle.at).Seconds()

	for n, effects := range []bool{false, true} {
		m := measure(t, fmt.Sprint("cost", n), db, sinkDB, *count/(1+9*n), got.Payload, got.Shards, effects, background)
		if effects {
			got.Effect = m
		} else {
			got.Job = m
		}
	}
	got.Disk = disk(t, cfg, *count)
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	if *out != "" {
		f, err := os.OpenFile(*out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
	}
}

type payload struct{ Text string }

const kind scheduler.Kind[payload] = "cost"

// measure runs jobs to their end and divides what was used by their number.
func measure(t *testing.T, queue string, db, sinkDB *cassandra.DB, jobs, size, shards int, effects bool, background float64) sizing.Per {
	t.Helper()
	counted := &counting{Shards: cassandra.NewShards(db)}
	done := make(chan struct{}, jobs)
	handlers := scheduler.Handlers{}
	if err := kind.Register(handlers, func(ctx context.Context, k *scheduler.Task, _ payload) error {
		if !effects {
			return nil
		}
		return k.Do(ctx, sink.Effect{Key: "a", Intent: "a", Value: 1})
	}); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(scheduler.Options{
		Shards: counted, Runs: cassandra.NewRuns(db), Sink: cassandrasink.New(sinkDB, cassandrasink.Options{}), Handlers: handlers, Slots: 100 * shards,
		Engine: engine.Options{Name: queue, Queues: []engine.Queue{{Name: queue, Shards: shards}}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Observer: engine.Watch(nil, func(s engine.Step) {
				if s.Kind == engine.StepComplete {
					done <- struct{}{}
				}
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for n := range shards {
		for !s.Owns(store.ShardID{Queue: queue, Shard: n}) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	var args payload
	for len(args.Text) < size-len(`{"Text":""}`) {
		args.Text += rand.Text()
	}
	args.Text = args.Text[:size-len(`{"Text":""}`)]
	before, sinkBefore := read(t, db), sinkDB.Sent()
	commits, changes, batch, scans := counted.commits.Load(), counted.changes.Load(), counted.bytes.Load(), counted.scans.Load()
	inFlight := make(chan struct{}, 100*shards)
	go func() {
		for range jobs {
			inFlight <- struct{}{}
			go func() {
				if _, err := kind.Enqueue(ctx, s, args); err != nil {
					t.Errorf("enqueue: %v", err)
				}
			}()
		}
	}()
	for range jobs {
		<-done
		<-inFlight
	}
	after, sinkAfter := read(t, db), sinkDB.Sent()
	seconds := after.at.Sub(before.at).Seconds()
	per := func(n float64) float64 { return n / float64(jobs) }
	m := sizing.Per{
		Jobs: jobs, Seconds: seconds,
		LWTs: per(float64(counted.commits.Load() - commits)), SinkLWTs: per(float64(sinkAfter.Conditional - sinkBefore.Conditional)),
		Changes: per(float64(counted.changes.Load() - changes)), BatchBytes: per(float64(counted.bytes.Load() - batch)),
		Plain: per(float64(after.sent.Plain - before.sent.Plain + sinkAfter.Plain - sinkBefore.Plain)), Scans: per(float64(counted.scans.Load() - scans)),
		NetworkBytes: per(float64(after.bytes-before.bytes) - background*seconds),
		NodeCPU:      per((after.nodes - before.nodes).Seconds()), OwnCPU: per((after.own - before.own).Seconds()),
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return m
}

// disk has everything flushed and looks how large a node's files are.
func disk(t *testing.T, cfg cassandra.Config, jobs int) sizing.Disk {
	t.Helper()
	db := cassandratest.Open(t, cfg)
	n := float64(jobs) * 1.1
	var d sizing.Disk
	for table, of := range map[string]struct {
		to   *float64
		jobs float64
	}{"shards": {&d.Shards, n}, "runs": {&d.Runs, n}, "sink": {&d.Sink, float64(jobs / 10)}} {
		if err := db.Exec(t.Context(), fmt.Sprintf("ALTER TABLE %s.%s WITH memtable_flush_period_in_ms = 1000", cfg.Keyspace, table)); err != nil {
			t.Fatal(err)
		}
		last, same := int64(0), 0
		for deadline := time.Now().Add(time.Minute); same < 3 && time.Now().Before(deadline); time.Sleep(2 * time.Second) {
			now := files(t, filepath.Join("data", cfg.Keyspace, table+"-*", "*.db"))
			if same++; now == 0 || now != last {
				last, same = now, 0
			}
		}
		*of.to = float64(last) / float64(replicas(cfg)) / of.jobs
	}
	return d
}

// replicas is how many there are of everything.
func replicas(cfg cassandra.Config) int { return min(3, len(cfg.ContactPoints)) }

// files is how large files below the storage directories of all nodes are together.
func files(t *testing.T, pattern string) (n int64) {
	t.Helper()
	for _, pid := range nodes(t) {
		b, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil {
			continue
		}
		for arg := range strings.SplitSeq(string(b), "\x00") {
			dir, ok := strings.CutPrefix(arg, "-Dcassandra.storagedir=")
			if !ok {
				continue
			}
			found, err := filepath.Glob(filepath.Join("/proc", pid, "root", dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if i, err := os.Stat(f); err == nil {
					n += i.Size()
				}
			}
		}
	}
	return n
}

// nodes are the processes of the database.
func nodes(t *testing.T) (pids []string) {
	t.Helper()
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, comm := range comms {
		if name, _ := os.ReadFile(comm); strings.TrimSpace(string(name)) == "java" {
			pids = append(pids, filepath.Base(filepath.Dir(comm)))
		}
	}
	return pids
}
