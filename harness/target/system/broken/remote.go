package broken

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("remote-coordinator", remoteCoordinator)
}

// remoteCoordinator asks a node of the other data centre when one of its own has not
// answered, as a policy does that falls back to remote nodes, and with every fourth copy of a
// request, as one does that takes all nodes in turn. LOCAL_SERIAL there is another agreement.
func remoteCoordinator() workload.Hooks {
	o := &ownSession{}
	return workload.Hooks{
		Recorder: o.recorder,
		Locks: func(_ workload.Config, _ *cassandra.DB, inner store.Locks) store.Locks {
			return &roaming{Locks: inner, ownSession: o}
		},
	}
}

type roaming struct {
	store.Locks
	*ownSession
	session *gocql.Session
	failed  atomic.Int64 // when a request to the own data centre was last not answered, Unix ns
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
func (l *roaming) open() {
	shown := cassandra.Config{ContactPoints: l.ips(), Port: l.cfg.CQLPort, Dial: l.dial}
	if l.err = l.cfg.Introduce(&shown); l.err != nil {
		return
	}
	var there string
	if there, l.err = l.remote(shown); l.err != nil {
		return
	}
	c := gocql.NewCluster(there)
	c.Port, c.ProtoVersion, c.Keyspace = l.cfg.CQLPort, 4, l.cfg.Keyspace
	c.Consistency, c.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	c.DefaultTimestamp, c.DisableInitialHostLookup = false, true
	c.HostFilter = gocql.WhiteListHostFilter(there)
	c.HostDialer = linkDialer{l.ownSession, shown}
	if l.session, l.err = c.CreateSession(); l.err != nil {
		return
	}
	for _, cql := range []string{insertElsewhere, updateElsewhere} {
		l.note(cql, cassandra.LocalQuorum, cassandra.LocalSerial)
	}
	for _, at := range []string{cassandra.LocalQuorum, cassandra.LocalSerial} {
		l.note(readOneCQL, at, "")
	}
}

// remote is a node of another data centre.
func (l *roaming) remote(cfg cassandra.Config) (ip string, err error) {
	for _, ip := range l.ips() {
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
	if l.once.Do(l.open); l.err != nil {
		return nil, notOpened(l.err)
	}
	at := gocql.LocalQuorum
	if serial {
		at = gocql.Consistency(gocql.LocalSerial)
	}
	row := map[string]any{}
	err := l.session.Query(readOneCQL, resource).WithContext(ctx).Consistency(at).MapScan(row)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, &store.Error{Op: "read elsewhere", Outcome: store.Unknown, Cause: err}
	}
	return versionOf(row), nil
}

const (
	insertElsewhere = `INSERT INTO locks (resource, fence, beat, attempt, holder, ttl_ms) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS`
	updateElsewhere = `UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ? IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?`
)

func (l *roaming) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if !l.leaves(copyNo) {
		res, err := l.Locks.CAS(ctx, resource, from, to, copyNo)
		l.noted(err)
		return res, err
	}
	if l.once.Do(l.open); l.err != nil {
		return store.CASResult{}, notOpened(l.err)
	}
	cql, args := insertElsewhere, append([]any{resource}, columns(to)...)
	if from != nil {
		cql, args = updateElsewhere, append(append(columns(to), resource), columns(*from)...)
	}
	row := map[string]any{}
	applied, err := l.session.Query(cql, args...).WithContext(ctx).MapScanCAS(row)
	switch {
	case err != nil:
		return store.CASResult{}, &store.Error{Op: "compare and set elsewhere", Outcome: store.Unknown, Cause: err}
	case applied:
		return store.CASResult{Applied: true}, nil
	}
	return store.CASResult{Row: versionOf(row)}, nil
}

func columns(v store.Version) []any {
	return []any{v.Fence, v.Beat, v.Attempt, v.Holder, v.TTL.Milliseconds()}
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
