package broken

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("read-at-one", readAtOne("ONE"))
	plant("read-at-one-unsaid", readAtOne("QUORUM"))
	plant("local-serial", onOwn(localSerial))
	plant("remote-coordinator", onOwn(remoteCoordinator))
}

// ownSession is a second session to the lock store, or to the sink on the nodes, for statements with other
// settings than the core's. It is opened at its first use and ends with the
// process; its statements are recorded like the core's.
type ownSession struct {
	cfg     workload.Config
	rec     workload.Recorder
	once    sync.Once
	session *gocql.Session
	err     error
	atSink  bool // it goes to the sink, by that one's links
}

// onOwn makes the hooks of a variant that has a session of its own.
func onOwn(hooks func(*ownSession) workload.Hooks) func() workload.Hooks {
	return func() workload.Hooks {
		o := &ownSession{}
		h := hooks(o)
		h.Recorder = o.recorder
		return h
	}
}

func (o *ownSession) recorder(cfg workload.Config, inner workload.Recorder) workload.Recorder {
	o.cfg, o.rec = cfg, inner
	return inner
}

func (o *ownSession) note(cql, consistency, serial string) {
	workload.NoteStatement(o.rec, o.cfg.Life, cassandra.StatementInfo{CQL: cql, Consistency: consistency, SerialConsistency: serial})
}

// opened opens the session when it is first used.
func (o *ownSession) opened(open func() (*gocql.Session, error)) error {
	o.once.Do(func() {
		if o.session, o.err = open(); o.err != nil {
			o.err = notOpened(o.err)
		}
	})
	return o.err
}

func notOpened(err error) error {
	return &store.Error{Op: "open a session", Outcome: store.Fail, Cause: err}
}

// links are those by which it reaches the nodes.
func (o *ownSession) links() map[string]string {
	if o.atSink {
		return o.cfg.SinkNodes
	}
	return o.cfg.LockNodes
}

// driver is the driver's own configuration of a session with nodes, through the worker's
// links.
func (o *ownSession) driver(nodes ...string) (*gocql.ClusterConfig, error) {
	shown, err := o.cfg.Session(o.links(), o.rec)
	if err != nil {
		return nil, err
	}
	c := gocql.NewCluster(nodes...)
	c.Port, c.ProtoVersion, c.Keyspace = shown.Port, 4, shown.Keyspace
	if shown.Username != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: shown.Username, Password: shown.Password}
	}
	c.DefaultTimestamp, c.HostDialer = false, linkDialer{shown}
	return c, nil
}

// connect opens a session with all nodes.
func (o *ownSession) connect(consistency gocql.Consistency) (*gocql.Session, error) {
	c, err := o.driver(slices.Collect(maps.Keys(o.links()))...)
	if err != nil {
		return nil, err
	}
	c.Consistency = consistency
	return c.CreateSession()
}

// cas sends a compare-and-set of a lock row. op is what it is called in errors.
func cas(ctx context.Context, op string, q *gocql.Query) (store.CASResult, error) {
	row := map[string]any{}
	applied, err := q.WithContext(ctx).MapScanCAS(row)
	switch {
	case err != nil:
		return store.CASResult{}, &store.Error{Op: op, Outcome: store.Unknown, Cause: err}
	case applied:
		return store.CASResult{Applied: true}, nil
	}
	return store.CASResult{Row: versionOf(row)}, nil
}

const selectRow = `SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?`

// read reads a lock row.
func (o *ownSession) read(ctx context.Context, op, resource string, at gocql.Consistency) (*store.Version, error) {
	row := map[string]any{}
	err := o.session.Query(selectRow, resource).WithContext(ctx).Consistency(at).MapScan(row)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	return versionOf(row), nil
}

// versionOf reads a lock row; nil if it is not there.
func versionOf(row map[string]any) *store.Version {
	fence, _ := row["fence"].(int64)
	if fence == 0 {
		return nil
	}
	v := &store.Version{Fence: fence}
	v.Beat, _ = row["beat"].(int64)
	v.Holder, _ = row["holder"].(string)
	if id, ok := row["attempt"].(gocql.UUID); ok {
		v.Attempt = id.String()
	}
	ms, _ := row["ttl_ms"].(int64)
	v.TTL = time.Duration(ms) * time.Millisecond
	return v
}

// localSerial releases with LOCAL_SERIAL while everything else is SERIAL: in two
// data centres these are two agreements. The core refuses to, so it asks the driver.
func localSerial(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Locks: func(cfg workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return mistake.Locks{Locks: inner, TTL: cfg.TTL, Kind: lock.Release, Do: o.releaseLocally}
		},
	}
}

func (o *ownSession) releaseLocally(c mistake.CAS) (store.CASResult, error) {
	err := o.opened(func() (*gocql.Session, error) {
		s, err := o.connect(gocql.LocalQuorum)
		if err == nil {
			o.note(updateRow, "LOCAL_QUORUM", "LOCAL_SERIAL")
		}
		return s, err
	})
	if err != nil {
		return store.CASResult{}, err
	}
	args := append(append(columns(c.To), c.Resource), columns(*c.From)...)
	return cas(c.Ctx, "release at LOCAL_SERIAL", o.session.Query(updateRow, args...).SerialConsistency(gocql.LocalSerial))
}

// readAtOne looks at lock rows through a single replica, and says that it does so at a
// consistency.
func readAtOne(said string) func() workload.Hooks {
	return onOwn(func(o *ownSession) workload.Hooks {
		return workload.Hooks{Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &oneReader{Locks: inner, ownSession: o, said: said}
		}}
	})
}

type oneReader struct {
	store.Locks
	*ownSession
	said string
}

func (l *oneReader) open() (*gocql.Session, error) {
	s, err := l.connect(gocql.One)
	if err == nil {
		l.note(selectRow, l.said, "")
	}
	return s, err
}

func (l *oneReader) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if serial {
		return l.Locks.Read(ctx, resource, serial)
	}
	if err := l.opened(l.open); err != nil {
		return nil, err
	}
	return l.read(ctx, "read at ONE", resource, gocql.One)
}

// remoteCoordinator asks a node of the other data centre when one of its own has not
// answered, as a policy does that falls back to remote nodes, and with every fourth copy of a
// request, as one does that takes all nodes in turn. LOCAL_SERIAL there is another agreement.
func remoteCoordinator(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &roaming{Locks: inner, ownSession: o}
		},
	}
}

type roaming struct {
	store.Locks
	*ownSession
	failed atomic.Int64 // when a request to the own data centre was last not answered, Unix ns
}

// awayFor is for how long requests go elsewhere after one without an answer, and turns is how
// many nodes there are to take turns.
const (
	awayFor = 8 * time.Second
	turns   = 4
)

func (l *roaming) leaves(copyNo int) bool {
	return copyNo%turns == turns-1 || time.Now().UnixNano()-l.failed.Load() < int64(awayFor)
}

func (l *roaming) noted(err error) {
	if err != nil {
		l.failed.Store(time.Now().UnixNano())
	}
}

// open opens the session with a node of another data centre than the own.
func (l *roaming) open() (*gocql.Session, error) {
	there, err := l.remote()
	if err != nil {
		return nil, err
	}
	c, err := l.driver(there)
	if err != nil {
		return nil, err
	}
	c.Consistency, c.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	c.DisableInitialHostLookup, c.HostFilter = true, gocql.WhiteListHostFilter(there)
	s, err := c.CreateSession()
	if err != nil {
		return nil, err
	}
	for _, cql := range []string{insertRow, updateRow} {
		l.note(cql, cassandra.LocalQuorum, cassandra.LocalSerial)
	}
	for _, at := range []string{cassandra.LocalQuorum, cassandra.LocalSerial} {
		l.note(selectRow, at, "")
	}
	return s, nil
}

// remote is a node of another data centre.
func (l *roaming) remote() (ip string, err error) {
	cfg, err := l.cfg.Session(l.cfg.LockNodes, l.rec)
	if err != nil {
		return "", err
	}
	cfg.Keyspace, cfg.OnStatement = "", nil
	for _, ip := range cfg.ContactPoints {
		cfg.ContactPoints = []string{ip}
		ring, e := cassandra.Discover(context.Background(), cfg)
		if e != nil {
			err = e // it does not answer: another one knows
			continue
		}
		for _, n := range append(ring.Peers, ring.Self) {
			if n.DC != cfg.LocalDC {
				return n.IP, nil
			}
		}
		return "", fmt.Errorf("there is no data centre but %q", ring.Self.DC)
	}
	return "", err
}

func (l *roaming) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if !l.leaves(0) {
		v, err := l.Locks.Read(ctx, resource, serial)
		l.noted(err)
		return v, err
	}
	if err := l.opened(l.open); err != nil {
		return nil, err
	}
	at := gocql.LocalQuorum
	if serial {
		at = gocql.Consistency(gocql.LocalSerial)
	}
	return l.read(ctx, "read elsewhere", resource, at)
}

func (l *roaming) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if !l.leaves(copyNo) {
		res, err := l.Locks.CAS(ctx, resource, from, to, copyNo)
		l.noted(err)
		return res, err
	}
	if err := l.opened(l.open); err != nil {
		return store.CASResult{}, err
	}
	cql, args := insertRow, append([]any{resource}, columns(to)...)
	if from != nil {
		cql, args = updateRow, append(append(columns(to), resource), columns(*from)...)
	}
	return cas(ctx, "compare and set elsewhere", l.session.Query(cql, args...))
}

// linkDialer takes every connection through the worker's own links.
type linkDialer struct{ shown cassandra.Config }

func (d linkDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	ip := host.ConnectAddress().String()
	conn, err := d.shown.Dial(ctx, ip)
	if err != nil {
		return nil, err
	}
	return gocql.WrapTLS(ctx, conn, net.JoinHostPort(ip, strconv.Itoa(d.shown.Port)), d.shown.TLSFor(ip))
}
