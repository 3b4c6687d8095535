//go:build integration

package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/core/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	locks := cassandra.NewLocks(cassandratest.Open(t, cassandratest.Keyspace(t)))
	t.Run("cases", func(t *testing.T) {
		storetest.RunAll(t, locks, "conformance", func(name string, f func(storetest.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		})
	})
}

// TestMigrateTwice: it changes nothing that exists.
func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	locks := cassandra.NewLocks(cassandratest.Open(t, cfg))
	v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
	if _, err := locks.CAS(t.Context(), "migrate", nil, v, 0); err != nil {
		t.Fatal(err)
	}
	if err := cassandra.Migrate(t.Context(), cfg, cassandra.Replication{Factor: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := locks.Read(t.Context(), "migrate", true); err != nil || !store.Same(got, &v) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOpenWithoutKeyspace(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Config(t)
	cfg.Keyspace = "does_not_exist"
	db, err := cassandra.Open(t.Context(), cfg)
	if err == nil {
		db.Close()
		t.Fatal("opened a keyspace that does not exist")
	}
	t.Logf("error: %v", err)
}

// TestBatch: what a conditional batch does and what it returns.
func TestBatch(t *testing.T) {
	t.Parallel()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	ctx := t.Context()
	header := store.Statement{CQL: "INSERT INTO sink (resource, kind, seq, key, issuer, highest, last_seq) VALUES (?, 0, 0, '', 'i', 1, 1) IF NOT EXISTS", Args: []any{"batch"}, Partition: []any{"batch"}}
	ledger := store.Statement{CQL: "INSERT INTO sink (resource, kind, seq, key, fence) VALUES (?, 2, ?, '', 1)", Args: []any{"batch", int64(1)}}
	applied, rows, err := db.CAS(ctx, 0, header, ledger)
	if err != nil || !applied || len(rows) != 0 {
		t.Fatalf("first: applied %v, rows %v, %v", applied, rows, err)
	}
	applied, rows, err = db.CAS(ctx, 1, header, ledger)
	if err != nil || applied || len(rows) != 1 {
		t.Fatalf("second: applied %v, rows %v, %v", applied, rows, err)
	}
	if rows[0]["issuer"] != "i" || rows[0]["highest"] != int64(1) || rows[0]["kind"] != int8(0) || rows[0]["attempt"] != "" {
		t.Errorf("row %v", rows[0])
	}
	got, err := db.Query(ctx, true, "SELECT kind, fence, attempt FROM sink WHERE resource = ?", "batch")
	if err != nil || len(got) != 2 || got[1]["fence"] != int64(1) || got[0]["fence"] != nil || got[0]["attempt"] != nil {
		t.Errorf("rows %v, %v", got, err)
	}
	// A condition that names a row that does not exist: no row comes back.
	upd := store.Statement{CQL: "UPDATE sink SET highest = 2 WHERE resource = ? AND kind = 0 AND seq = 0 AND key = '' IF highest = 1", Args: []any{"absent"}, Partition: []any{"absent"}}
	led := store.Statement{CQL: ledger.CQL, Args: []any{"absent", int64(1)}}
	if applied, rows, err = db.CAS(ctx, 0, upd, led); err != nil || applied || len(rows) != 0 {
		t.Errorf("absent: applied %v, rows %v, %v", applied, rows, err)
	}
}

// TestOutcomes: real answers are classified.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	for name, run := range map[string]func(ctx context.Context) error{
		"syntax":         func(ctx context.Context) error { return db.Exec(ctx, "SELEKT") },
		"unknown table":  func(ctx context.Context) error { return db.Exec(ctx, "INSERT INTO nowhere (a) VALUES (1)") },
		"argument count": func(ctx context.Context) error { return db.Exec(ctx, "INSERT INTO ids (name) VALUES (?)") },
		"argument type":  func(ctx context.Context) error { return db.Exec(ctx, "INSERT INTO ids (name) VALUES (?)", struct{}{}) },
		"batch, arguments": func(ctx context.Context) error {
			s := store.Statement{CQL: "UPDATE ids SET next_id = ? WHERE name = ? IF next_id = 1", Args: []any{int64(1)}}
			_, _, err := db.CAS(ctx, 0, s, s)
			return err
		},
		"no statement": func(ctx context.Context) error { _, _, err := db.CAS(ctx, 0); return err },
		"context over": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return db.Exec(ctx, "INSERT INTO ids (name) VALUES ('a')")
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context())
			var e *store.Error
			if !errors.As(err, &e) || e.Outcome != store.Fail {
				t.Errorf("%v: want a *store.Error that says fail", err)
			}
		})
	}
	t.Run("no [applied]", func(t *testing.T) {
		// Statements without a condition: the answer is void.
		s := store.Statement{CQL: "INSERT INTO ids (name, next_id) VALUES (?, 1)", Args: []any{"plain"}}
		for n, stmts := range map[int][]store.Statement{1: {s}, 2: {s, s}} {
			if _, _, err := db.CAS(t.Context(), 0, stmts...); store.OutcomeOf(err) != store.Unknown {
				t.Errorf("%d statements: %v", n, err)
			}
		}
	})
}

// TestStatements: every shape is reported once, with its consistencies.
func TestStatements(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	var mu sync.Mutex
	seen := map[string]cassandra.StatementInfo{}
	cfg.OnStatement = func(s cassandra.StatementInfo) {
		mu.Lock()
		defer mu.Unlock()
		words := strings.Fields(s.CQL)
		key := words[0] + " " + s.Consistency + " " + s.SerialConsistency
		if i := slices.Index(words, "settings"); i > 0 { // how the processes agree, looked at once
			key += " " + words[i]
		}
		if _, dup := seen[key]; dup {
			t.Errorf("reported twice: %+v", s)
		}
		seen[key] = s
	}
	locks := cassandra.NewLocks(cassandratest.Open(t, cfg))
	v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
	for range 2 {
		_, _ = locks.CAS(t.Context(), "statements", nil, v, 0)
		_, _ = locks.Read(t.Context(), "statements", true)
		_, _ = locks.Read(t.Context(), "statements", false)
	}
	var keys []string
	for k := range seen {
		keys = append(keys, strings.TrimSpace(k))
	}
	sort.Strings(keys)
	if got := fmt.Sprint(keys); got != "[INSERT QUORUM SERIAL SELECT QUORUM SELECT QUORUM  settings SELECT SERIAL]" {
		t.Errorf("reported %s", got)
	}
}

// dials counts the connections that are opened to each node.
type dials struct {
	mu   sync.Mutex
	n    map[string]int
	port int
}

func (d *dials) dial(ctx context.Context, ip string) (net.Conn, error) {
	d.mu.Lock()
	d.n[ip]++
	d.mu.Unlock()
	var nd net.Dialer
	return nd.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(d.port)))
}

// TestPin: a pinned session talks to its node only, and reports which it is.
func TestPin(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	for _, ip := range cfg.ContactPoints {
		d := &dials{n: map[string]int{}, port: cfg.Port}
		pinned := cfg
		pinned.Pin, pinned.Dial = ip, d.dial
		db := cassandratest.Open(t, pinned)
		for range 3 {
			rows, err := db.Query(t.Context(), false, "SELECT broadcast_address FROM system.local WHERE key = 'local'")
			if err != nil || len(rows) != 1 || fmt.Sprint(rows[0]["broadcast_address"]) != ip {
				t.Errorf("pinned to %s: %v, %v", ip, rows, err)
			}
		}
		locks := cassandra.NewLocks(db)
		v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
		if res, err := locks.CAS(t.Context(), "pin-"+ip, nil, v, 0); err != nil || !res.Applied {
			t.Errorf("pinned to %s: %+v, %v", ip, res, err)
		}
		if len(d.n) != 1 || d.n[ip] == 0 {
			t.Errorf("pinned to %s, connections %v", ip, d.n)
		}
	}
}

// TestCopiesByOtherNodes: copy n goes through replica n, the same for every session.
func TestCopiesByOtherNodes(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	if len(cfg.ContactPoints) < 3 {
		t.Skip("needs three nodes")
	}
	coordinator := func(db *cassandra.DB, resource string, n int) string {
		t.Helper()
		// The coordinator of a plain read is asked who it is by the system
		// table of the node that the routing key leads to.
		rows, err := db.QueryBy(t.Context(), n, false, store.Statement{
			CQL: "SELECT broadcast_address FROM system.local WHERE key = 'local'", Partition: []any{resource}})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return fmt.Sprint(rows[0]["broadcast_address"])
	}
	a, b := cassandratest.Open(t, cfg), cassandratest.Open(t, cfg)
	first := map[string]bool{}
	for i := range 20 {
		resource := fmt.Sprintf("r%d", i)
		nodes := map[string]bool{}
		for n := range 3 {
			ip := coordinator(a, resource, n)
			nodes[ip] = true
			if n == 0 {
				first[ip] = true
				for range 3 {
					if other := coordinator(b, resource, 0); other != ip {
						t.Errorf("%s: one session asks %s first, another %s", resource, ip, other)
					}
				}
			}
		}
		if len(nodes) != 3 {
			t.Errorf("%s: three copies go through %v", resource, nodes)
		}
	}
	if len(first) < 2 {
		t.Errorf("all of 20 partitions have the first coordinator %v", first)
	}
}

// TestOneNodeUnreachable: a session opens with one node that refuses and one that
// swallows connections, works, and finds the nodes when they are back.
func TestOneNodeUnreachable(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	if len(cfg.ContactPoints) < 3 {
		t.Skip("needs three nodes")
	}
	var mu sync.Mutex
	down := map[string]bool{cfg.ContactPoints[1]: true}
	swallow := cfg.ContactPoints[2]
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := cfg.Port
	if port == 0 {
		port = cassandra.DefaultPort
	}
	cfg.ConnectTimeout = time.Second
	cfg.Dial = func(ctx context.Context, ip string) (net.Conn, error) {
		mu.Lock()
		refuse, hang := down[ip], ip == swallow
		mu.Unlock()
		var d net.Dialer
		switch {
		case refuse:
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused by the test")}
		case hang:
			return d.DialContext(ctx, "tcp", ln.Addr().String())
		}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	}
	start := time.Now()
	db := cassandratest.Open(t, cfg)
	t.Logf("opened after %s", time.Since(start))
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("Open took %s", d)
	}
	locks := cassandra.NewLocks(db)
	for i := range 10 {
		v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
		var res store.CASResult
		var err error
		// A coordinator on a busy machine may run into its own time limit: the
		// identical copy then settles it.
		for n := range 5 {
			res, err = locks.CAS(t.Context(), fmt.Sprintf("unreachable%d", i), nil, v, i+n)
			if err == nil || !store.IsServerTimeout(err) {
				break
			}
		}
		if err != nil || !res.Applied && !store.Same(res.Row, &v) {
			t.Errorf("with one node: %+v, %v", res, err)
		}
	}
	mu.Lock()
	clear(down)
	swallow = ""
	mu.Unlock()
	start = time.Now()
	for i, seen := 0, map[string]bool{}; len(seen) < 3; i++ {
		rows, err := db.QueryBy(t.Context(), i, false, store.Statement{
			CQL: "SELECT broadcast_address FROM system.local WHERE key = 'local'", Partition: []any{"r"}})
		if err == nil && len(rows) == 1 {
			seen[fmt.Sprint(rows[0]["broadcast_address"])] = true
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("after 10 s only %v were found again", seen)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("all nodes found %s after their return", time.Since(start))
}

func TestIDs(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	const processes, callers, each, block = 3, 4, 50, 7
	var mu sync.Mutex
	got := map[int64]int{}
	highest := int64(0)
	var wg sync.WaitGroup
	var all []*cassandra.IDs
	for range processes {
		ids := cassandra.NewIDs(cassandratest.Open(t, cfg), block)
		all = append(all, ids)
		for range callers {
			wg.Go(func() {
				last := int64(0)
				for range each {
					n, err := ids.Next(t.Context(), "n")
					if err != nil {
						t.Errorf("Next: %v", err)
						return
					}
					if n <= last {
						t.Errorf("%d after %d by one caller", n, last)
					}
					last = n
					mu.Lock()
					got[n]++
					highest = max(highest, n)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for n, times := range got {
		if times != 1 {
			t.Errorf("%d was handed out %d times", n, times)
		}
	}
	if len(got) != processes*callers*each {
		t.Errorf("%d numbers", len(got))
	}
	if highest > int64(processes*callers*each+processes*block) {
		t.Errorf("highest %d: whole blocks were lost", highest)
	}
	// Without an end of a process there are no gaps: use every block up.
	seen := map[int64]bool{}
	for i := range 4 * block {
		n, err := all[i%processes].Next(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		seen[n] = true
	}
	for _, ids := range all {
		for len(seen)%block != 0 || int64(len(seen)) != maxOf(seen) {
			n, err := ids.Next(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			seen[n] = true
			if n%block == 0 {
				break
			}
		}
	}
	for n := int64(1); n <= int64(len(seen)); n++ {
		if !seen[n] {
			t.Errorf("gap at %d of %d", n, len(seen))
		}
	}
}

func maxOf(m map[int64]bool) (highest int64) {
	for n := range m {
		highest = max(highest, n)
	}
	return highest
}
