package broken

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func init() {
	plant("read-at-one", func() workload.Hooks { return readAtOne("ONE") })
	plant("read-at-one-unsaid", func() workload.Hooks { return readAtOne("QUORUM") })
	plant("local-serial", localSerial)
}

// ownSession is a second session to the lock store, for statements with other
// settings than the core's. It is opened at its first use and ends with the
// process; its statements are recorded like the core's.
type ownSession struct {
	cfg  workload.Config
	rec  workload.Recorder
	once sync.Once
	err  error
}

func (o *ownSession) recorder(cfg workload.Config, inner workload.Recorder) workload.Recorder {
	o.cfg, o.rec = cfg, inner
	return inner
}

func (o *ownSession) ips() []string {
	var ips []string
	for ip := range o.cfg.LockNodes {
		ips = append(ips, ip)
	}
	return ips
}

func (o *ownSession) dial(ctx context.Context, ip string) (net.Conn, error) {
	addr, ok := o.cfg.LockNodes[ip]
	if !ok {
		return nil, fmt.Errorf("no link to node %s", ip)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

func (o *ownSession) note(cql, consistency, serial string) {
	o.rec.Record(history.Event{Proc: o.cfg.Life, Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &history.Statement{
		CQL: cql, Consistency: consistency, SerialConsistency: serial,
	}}})
}

// connect opens the driver's own session, through the worker's links.
func (o *ownSession) connect(consistency gocql.Consistency) (*gocql.Session, error) {
	c := gocql.NewCluster(o.ips()...)
	c.Port, c.ProtoVersion, c.Keyspace, c.Consistency = o.cfg.CQLPort, 4, o.cfg.Keyspace, consistency
	var shown cassandra.Config
	if err := o.cfg.Introduce(&shown); err != nil {
		return nil, err
	}
	if shown.Username != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: shown.Username, Password: shown.Password}
	}
	c.DefaultTimestamp, c.HostDialer = false, linkDialer{o, shown}
	return c.CreateSession()
}

func notOpened(err error) error {
	return &store.Error{Op: "open a session", Outcome: store.Fail, Cause: err}
}

// localSerial releases with LOCAL_SERIAL while everything else is SERIAL: in two
// data centres these are two agreements. The core refuses to, so it asks the driver.
func localSerial() workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locks: func(cfg workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			l := &localReleases{ownSession: o}
			return mistake.Locks{Locks: inner, TTL: cfg.TTL, Kind: lock.Release, Do: l.do}
		},
	}
}

type localReleases struct {
	*ownSession
	session *gocql.Session
}

const releaseLocalCQL = `UPDATE locks SET beat = ?, attempt = ?, holder = '' WHERE resource = ? IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?`

func (l *localReleases) do(c mistake.CAS) (store.CASResult, error) {
	l.once.Do(func() {
		if l.session, l.err = l.connect(gocql.LocalQuorum); l.err == nil {
			l.note(releaseLocalCQL, "LOCAL_QUORUM", "LOCAL_SERIAL")
		}
	})
	if l.err != nil {
		return store.CASResult{}, notOpened(l.err)
	}
	q := l.session.Query(releaseLocalCQL, c.To.Beat, c.To.Attempt, c.Resource, c.From.Fence, c.From.Beat, c.From.Attempt, c.From.Holder, c.From.TTL.Milliseconds())
	row := map[string]any{}
	applied, err := q.WithContext(c.Ctx).SerialConsistency(gocql.LocalSerial).MapScanCAS(row)
	switch {
	case err != nil:
		return store.CASResult{}, &store.Error{Op: "release at LOCAL_SERIAL", Outcome: store.Unknown, Cause: err}
	case applied || len(row) == 0:
		return store.CASResult{Applied: applied}, nil
	}
	v := &store.Version{}
	v.Fence, _ = row["fence"].(int64)
	v.Beat, _ = row["beat"].(int64)
	v.Holder, _ = row["holder"].(string)
	attempt, _ := row["attempt"].(gocql.UUID)
	ttl, _ := row["ttl_ms"].(int64)
	v.Attempt, v.TTL = attempt.String(), time.Duration(ttl)*time.Millisecond
	return store.CASResult{Row: v}, nil
}

// readAtOne looks at lock rows through a single replica, and says that it does so at a
// consistency.
func readAtOne(said string) workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &oneReader{Locks: inner, ownSession: o, said: said}
		},
	}
}

type oneReader struct {
	store.Locks
	*ownSession
	session *gocql.Session
	said    string
}

const readOneCQL = `SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?`

func (l *oneReader) open() {
	if l.session, l.err = l.connect(gocql.One); l.err == nil {
		l.note(readOneCQL, l.said, "")
	}
}

func (l *oneReader) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if serial {
		return l.Locks.Read(ctx, resource, serial)
	}
	l.once.Do(l.open)
	if l.err != nil {
		return nil, notOpened(l.err)
	}
	var v store.Version
	var attempt gocql.UUID
	var ttl int64
	err := l.session.Query(readOneCQL, resource).WithContext(ctx).Scan(&v.Fence, &v.Beat, &attempt, &v.Holder, &ttl)
	switch {
	case err == gocql.ErrNotFound:
		return nil, nil
	case err != nil:
		return nil, &store.Error{Op: "read at ONE", Outcome: store.Fail, Cause: err}
	}
	v.Attempt, v.TTL = attempt.String(), time.Duration(ttl)*time.Millisecond
	return &v, nil
}

// linkDialer takes every connection through the worker's own links.
type linkDialer struct {
	o     *ownSession
	shown cassandra.Config // login and TLS
}

func (d linkDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	ip := host.ConnectAddress().String()
	conn, err := d.o.dial(ctx, ip)
	if err != nil {
		return nil, err
	}
	return gocql.WrapTLS(ctx, conn, net.JoinHostPort(ip, fmt.Sprint(d.o.cfg.CQLPort)), d.shown.TLSFor(ip))
}
