package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// DB is a session with a cluster. It is safe for concurrent use.
type DB struct {
	cfg     Config
	session *gocql.Session
	policy  *coordinators
	domain  *domain

	seen sync.Map // of StatementInfo

	mu   sync.Mutex
	sent Sent
	// waited: definer has waited for the nodes.
	waited bool
}

// Open connects. It succeeds if one contact point answers; nodes that are down
// are found within about a second of their return. A node that swallows
// connections delays Open by up to about ConnectTimeout.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	policy := newCoordinators(cfg)
	log := &driverLog{log: cfg.Logger}
	op := "connect to " + strings.Join(cfg.ContactPoints, ", ")
	session, err := createSession(ctx, cfg.cluster(&hostDialer{cfg}, policy, log))
	if err != nil {
		if last, _ := log.last.Load().(string); last != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w; the driver's last message: %s", err, last)
		}
		return nil, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	if err := policy.nobody(); err != nil {
		session.Close()
		return nil, &store.Error{Op: op, Outcome: store.Fail, Permanent: true, Cause: err}
	}
	return &DB{cfg: cfg, session: session, policy: policy, domain: newDomain(cfg)}, nil
}

// createSession opens a session of the driver, which takes no context for that: if ctx ends
// first, the session is closed when it comes.
func createSession(ctx context.Context, g *gocql.ClusterConfig) (*gocql.Session, error) {
	var s *gocql.Session
	var err error
	made := make(chan struct{})
	go func() {
		defer close(made)
		s, err = g.CreateSession()
	}()
	select {
	case <-made:
		return s, err
	case <-ctx.Done():
		go func() {
			if <-made; s != nil {
				s.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// Close closes all connections. Requests in flight end unknown.
func (db *DB) Close() { db.session.Close() }

// Wall is the session's wall clock.
func (db *DB) Wall() time.Time { return db.cfg.Wall() }

// Keyspace returns the session's keyspace.
func (db *DB) Keyspace() string { return db.cfg.Keyspace }

// RequestTimeout returns the time limit of a request whose context has none.
func (db *DB) RequestTimeout() time.Duration { return db.cfg.RequestTimeout }

// Exec runs a plain write or DDL; after DDL it waits until all live nodes agree
// on the schema.
func (db *DB) Exec(ctx context.Context, cql string, args ...any) error {
	_, err := db.query(ctx, 0, db.cfg.consistency(), db.cfg.Consistency, store.Statement{CQL: cql, Args: args})
	if err == nil && isDDL(cql) {
		return db.awaitSchema(ctx)
	}
	return err
}

// Query runs a read, all pages of it. A serial read is linearizable with
// conditional statements and must be of one partition. Values have plain Go
// types: string (text, uuid), int, int64, bool, []byte, time.Time …; null is nil.
func (db *DB) Query(ctx context.Context, serial bool, cql string, args ...any) ([]map[string]any, error) {
	return db.QueryBy(ctx, 0, serial, store.Statement{CQL: cql, Args: args})
}

// QueryBy is Query with the choice of the coordinator: copyNo n asks the n-th
// replica of the partition.
func (db *DB) QueryBy(ctx context.Context, copyNo int, serial bool, s store.Statement) ([]map[string]any, error) {
	if serial {
		if err := db.agreed(ctx, copyNo); err != nil {
			return nil, err
		}
		return db.query(ctx, copyNo, gocql.Consistency(db.cfg.serial()), db.cfg.Serial, s)
	}
	return db.query(ctx, copyNo, db.cfg.consistency(), db.cfg.Consistency, s)
}

// CAS runs one conditional statement, or several of one partition as a
// conditional UNLOGGED batch. When it is not applied, rows are the rows that
// were there instead: those that exist of the rows that carry conditions, in key
// order, with the columns that the conditions name (all with IF NOT EXISTS). A
// null column has its type's zero value there. copyNo n sends it through the
// n-th replica of the partition, or the next that is up. Before the first one the
// session makes sure that it agrees as the keyspace's other processes do (AgreementError).
func (db *DB) CAS(ctx context.Context, copyNo int, stmts ...store.Statement) (applied bool, rows []map[string]any, err error) {
	if len(stmts) == 0 {
		return false, nil, &store.Error{Op: "cas", Outcome: store.Fail, Cause: errors.New("no statement")}
	}
	if err := db.agreed(ctx, copyNo); err != nil {
		return false, nil, err
	}
	info := StatementInfo{CQL: shape(stmts), Consistency: db.cfg.Consistency, SerialConsistency: db.cfg.Serial}
	err = db.do(ctx, copyNo, stmts[0], "cas", info, func(ctx context.Context) error {
		var all []map[string]any
		var err error
		if len(stmts) == 1 {
			q := db.session.Query(stmts[0].CQL, stmts[0].Args...).WithContext(ctx).
				Consistency(db.cfg.consistency()).SerialConsistency(db.cfg.serial())
			all, err = readRows(q.Iter(), nullZero)
		} else {
			b := db.batch(ctx, stmts)
			b.SerialConsistency(db.cfg.serial())
			all, err = executeBatch(db.session, b)
		}
		if err != nil {
			return err
		}
		applied, rows, err = splitApplied(all)
		return err
	})
	if err != nil {
		return false, nil, err
	}
	return applied, rows, nil
}

// Write runs statements of one partition without conditions: one plain write, or one
// UNLOGGED batch. It is for tables that no conditional statement touches.
func (db *DB) Write(ctx context.Context, stmts ...store.Statement) error {
	if len(stmts) == 0 {
		return &store.Error{Op: "write", Outcome: store.Fail, Cause: errors.New("no statement")}
	}
	info := StatementInfo{CQL: shape(stmts), Consistency: db.cfg.Consistency}
	return db.do(ctx, 0, stmts[0], "write", info, func(ctx context.Context) error {
		if len(stmts) == 1 {
			return db.session.Query(stmts[0].CQL, stmts[0].Args...).WithContext(ctx).Consistency(db.cfg.consistency()).Exec()
		}
		return db.session.ExecuteBatch(db.batch(ctx, stmts))
	})
}

// batch is an UNLOGGED batch at the session's consistency.
func (db *DB) batch(ctx context.Context, stmts []store.Statement) *gocql.Batch {
	b := db.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx)
	b.SetConsistency(db.cfg.consistency())
	for _, s := range stmts {
		b.Query(s.CQL, s.Args...)
	}
	return b
}

// Coordinator returns the IP of the node to which requests for a lock go first,
// by making one: a read of its row.
func (db *DB) Coordinator(ctx context.Context, resource string) (string, error) {
	return db.coordinator(ctx, resource, store.Statement{CQL: readLock, Args: []any{resource}, Partition: []any{resource}})
}

// ShardCoordinator is Coordinator for a shard.
func (db *DB) ShardCoordinator(ctx context.Context, id store.ShardID) (string, error) {
	return db.coordinator(ctx, id.String(), selectHeader(id))
}

func (db *DB) coordinator(ctx context.Context, what string, s store.Statement) (string, error) {
	key, err := partitionKey(s.Partition)
	if err != nil {
		return "", err
	}
	r := &route{key: key}
	q := db.session.Query(s.CQL, s.Args...).WithContext(context.WithValue(ctx, routeKey{}, r)).Consistency(db.cfg.consistency())
	if _, err := readRows(q.Iter(), nullNil); err != nil {
		return "", classify(ctx, "find the coordinator of "+what, err)
	}
	return r.host.ConnectAddress().String(), nil
}

func (db *DB) query(ctx context.Context, copyNo int, cons gocql.Consistency, name string, s store.Statement) (rows []map[string]any, err error) {
	info := StatementInfo{CQL: s.CQL, Consistency: name}
	err = db.do(ctx, copyNo, s, "query", info, func(ctx context.Context) error {
		q := db.session.Query(s.CQL, s.Args...).WithContext(ctx).Consistency(cons)
		rows, err = readRows(q.Iter(), nullNil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// do runs one request with its time limit and coordinator, and classifies its end.
func (db *DB) do(ctx context.Context, copyNo int, s store.Statement, op string, info StatementInfo, f func(context.Context) error) error {
	if ctx.Err() != nil {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: fmt.Errorf("not sent: %w", context.Cause(ctx))}
	}
	key, err := partitionKey(s.Partition)
	if err != nil {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	db.count(info)
	db.report(info)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.cfg.RequestTimeout)
		defer cancel()
	}
	r := &route{copyNo: copyNo, key: key}
	err = f(context.WithValue(ctx, routeKey{}, r))
	if err == nil {
		db.policy.answered(r)
		return nil
	}
	e := classify(ctx, op, err)
	db.policy.failed(r, e)
	return e
}

// report tells OnStatement of a shape's first use.
func (db *DB) report(info StatementInfo) {
	if db.cfg.OnStatement == nil {
		return
	}
	if _, known := db.seen.LoadOrStore(info, true); !known {
		db.cfg.OnStatement(info)
	}
}

// shape is the text of a statement or batch without its arguments. Statements
// that repeat in a batch count once: a batch of 7 inserts has the shape of one of 70.
func shape(stmts []store.Statement) string {
	if len(stmts) == 1 {
		return stmts[0].CQL
	}
	var b strings.Builder
	b.WriteString("BEGIN UNLOGGED BATCH ")
	seen := map[string]bool{}
	for _, s := range stmts {
		if !seen[s.CQL] {
			seen[s.CQL] = true
			b.WriteString(s.CQL)
			b.WriteString("; ")
		}
	}
	b.WriteString("APPLY BATCH")
	return b.String()
}

func isDDL(cql string) bool {
	f := strings.Fields(cql)
	if len(f) == 0 {
		return false
	}
	switch strings.ToUpper(f[0]) {
	case "CREATE", "ALTER", "DROP":
		return true
	}
	return false
}

// hostDialer opens every connection of a session: control, discovery, pool and
// reconnects. It looks at the node's IP only. The port in the driver's host
// record cannot be used: for the control host it is taken from the connection's
// remote address, which behind a proxy is the proxy's.
type hostDialer struct{ cfg Config }

func (d *hostDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	ip := host.ConnectAddress().String()
	conn, err := d.dial(ctx, ip)
	if err != nil {
		return nil, err
	}
	if _, ok := conn.RemoteAddr().(*net.TCPAddr); !ok {
		conn.Close()
		return nil, fmt.Errorf("cassandra: the connection to %s has a remote address of type %T; the driver needs TCP", ip, conn.RemoteAddr())
	}
	return gocql.WrapTLS(ctx, conn, net.JoinHostPort(ip, strconv.Itoa(d.cfg.Port)), d.cfg.TLSFor(ip))
}

func (d *hostDialer) dial(ctx context.Context, ip string) (net.Conn, error) {
	if d.cfg.Dial != nil {
		return d.cfg.Dial(ctx, ip)
	}
	var nd net.Dialer
	return nd.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(d.cfg.Port)))
}

// Sent counts the requests that were handed to the driver, whatever became of them.
type Sent struct {
	Conditional int64 // conditional statements and batches
	Serial      int64 // SERIAL reads
	Plain       int64 // the rest
}

// Sent returns what was sent so far.
func (db *DB) Sent() Sent {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.sent
}

func (db *DB) count(info StatementInfo) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case info.SerialConsistency != "":
		db.sent.Conditional++
	case info.Consistency == db.cfg.Serial:
		db.sent.Serial++
	default:
		db.sent.Plain++
	}
}
