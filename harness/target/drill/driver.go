package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/gocql/gocql"

	"fencepost/core/store"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/cqltap"
)

// losing is rows of which the answer to a write is lost after it was carried out.
type losing interface {
	store.Locks
	// lost reports whether that took place, as seen past the client.
	lost() (bool, string)
	close() error
}

// endpoint is where a node's native protocol is reached.
type endpoint struct{ name, ip, addr string }

// driverLeases are rows written through the driver as its documentation has it: its own
// defaults, and perhaps a retry policy for the whole cluster. Its connections pass through
// links of its own, on which the answer to the first copy of a write is lost.
type driverLeases struct {
	store.Locks // the same rows, past the driver and its links: what is read
	statements  plainLeases
	session     *gocql.Session
	fabric      *link.Fabric
	tap         *cqltap.Tap
	inert       bool

	took bool
	text string
}

var _ losing = (*driverLeases)(nil)

// driver opens a session of the driver with all nodes.
func (r *run) driver(retries gocql.RetryPolicy) (losing, error) {
	var at []endpoint
	for _, name := range nodes {
		n, _ := r.Cluster.Node(name) // open has looked
		at = append(at, endpoint{name, n.IP(), cluster.AddrOf(r.Cluster, n)})
	}
	return openDriver(at, r.Base.Keyspace, retries, &driverLeases{
		Locks: r.scene.rows.locks(r.nodes[witness].db), statements: plainLeases{table: r.table}, inert: r.Inert,
	})
}

// openDriver completes d.
func openDriver(at []endpoint, keyspace string, retries gocql.RetryPolicy, d *driverLeases) (_ *driverLeases, err error) {
	d.fabric, d.tap = link.NewFabric(link.Options{}), cqltap.New(cqltap.Options{})
	defer func() {
		if err != nil {
			err = errors.Join(err, d.fabric.Close())
		}
	}()
	dialer := linkDialer{}
	var ips []string
	for _, e := range at {
		l, err := d.fabric.Add(link.Spec{From: "driver", To: e.name, Listen: "127.0.0.1:0", Upstream: e.addr, Tap: d.tap})
		if err != nil {
			return nil, fmt.Errorf("link to %s: %w", e.name, err)
		}
		dialer[e.ip], ips = l.Addr(), append(ips, e.ip)
	}
	g := gocql.NewCluster(ips...)
	g.ProtoVersion, g.Keyspace, g.HostDialer = 4, keyspace, dialer
	g.Logger = log.New(io.Discard, "", 0)
	g.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1} // else it sleeps on when it is closed
	g.RetryPolicy = retries
	if d.session, err = g.CreateSession(); err != nil {
		return nil, fmt.Errorf("open a session of the driver: %w", err)
	}
	return d, nil
}

// linkDialer is the links' addresses by the IPs of the nodes to which they lead.
type linkDialer map[string]string

// DialHost implements gocql.HostDialer.
func (d linkDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	ip := host.ConnectAddress().String()
	addr, ok := d[ip]
	if !ok {
		return nil, fmt.Errorf("no link leads to %s", ip)
	}
	var nd net.Dialer
	conn, err := nd.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &gocql.DialedHost{Conn: conn}, nil
}

func (d *driverLeases) close() error {
	d.session.Close()
	return d.fabric.Close()
}

func (d *driverLeases) lost() (bool, string) { return d.took, d.text }

// CAS implements store.Locks, as programs do: what counts is what the driver says.
func (d *driverLeases) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, _ int) (store.CASResult, error) {
	if err := d.set(ctx, d.fabric.All(), link.Stall); err != nil {
		return store.CASResult{}, &store.Error{Op: "hold answers", Outcome: store.Fail, Cause: err}
	}
	s := d.statements.conditional(resource, from, to)
	row := map[string]any{}
	var applied bool
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		applied, err = d.session.Query(s.CQL, s.Args...).WithContext(ctx).MapScanCAS(row)
	}()
	what, loseErr := d.lose(ctx, resource, to, ended)
	if loseErr != nil {
		// The request is to end whatever went wrong.
		loseErr = errors.Join(loseErr, d.set(context.WithoutCancel(ctx), d.fabric.All(), link.Pass))
	}
	<-ended
	d.took, d.text = loseErr == nil, fmt.Sprintf("%s; copies sent by the driver: %d", what, d.copies())
	if loseErr != nil {
		d.text = "no answer was lost: " + firstLine(loseErr)
	}
	switch {
	case err != nil:
		return store.CASResult{}, &store.Error{Op: "cas", Outcome: store.Unknown, Cause: err}
	case applied:
		return store.CASResult{Applied: true}, nil
	}
	if id, ok := row["attempt"].(gocql.UUID); ok {
		row["attempt"] = id.String()
	}
	return store.CASResult{Row: plainVersion(row)}, nil
}

// lose lets the first copy of a write be carried out, and cuts the connection by which its
// answer is to come. Before that it opens the way for another copy. The answer to PREPARE,
// which goes before the first copy, is delivered.
func (d *driverLeases) lose(ctx context.Context, resource string, to store.Version, ended <-chan struct{}) (what string, err error) {
	l, err := d.awaitAnswer(ctx, cqltap.OpPrepare, ended)
	if err != nil {
		return "", err
	}
	if err := d.deliver(ctx, l); err != nil {
		return "", err
	}
	if l, err = d.awaitAnswer(ctx, cqltap.OpExecute, ended); err != nil {
		return "", err
	}
	row, err := d.Read(ctx, resource, true)
	switch {
	case err != nil:
		return "", fmt.Errorf("read past the driver: %w", err)
	case !store.Same(row, &to):
		return "", fmt.Errorf("%s answered, and the row is %s: the write was not carried out", l.To(), row)
	}
	var others []*link.Link
	for _, o := range d.fabric.All() {
		if o != l {
			others = append(others, o)
		}
	}
	before := l.Counters()
	if err := errors.Join(d.set(ctx, others, link.Pass), d.set(ctx, []*link.Link{l}, link.Close)); err != nil {
		return "", err
	}
	bytes, err := unheardBytes(before, l.Counters())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s carried the write out, a SERIAL read shows it, and its answer was lost with the connection (%d bytes)", l.To(), bytes), nil
}

// deliver lets through what a link holds of answers, and holds on. The tap sees an answer
// just before the link counts it as held.
func (d *driverLeases) deliver(ctx context.Context, l *link.Link) error {
	if d.inert {
		return nil
	}
	for l.Counters().Down.PendingBytes == 0 {
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	_, err := link.Flush(ctx, link.End{Link: l, Dir: link.Down})
	return err
}

// unheardBytes says how much of what a node had answered was lost when its link was closed: all
// of it, or something was heard.
func unheardBytes(before, after link.Counters) (int64, error) {
	switch lost := after.Down.LostBytes - before.Down.LostBytes; {
	case after.Down.PassedBytes != before.Down.PassedBytes:
		return 0, fmt.Errorf("%d bytes were delivered", after.Down.PassedBytes-before.Down.PassedBytes)
	case lost == 0:
		return 0, errors.New("the link held nothing when it was closed")
	default:
		return lost, nil
	}
}

// awaitAnswer waits until a node has answered a request of a kind, and says on which link.
func (d *driverLeases) awaitAnswer(ctx context.Context, op cqltap.Opcode, ended <-chan struct{}) (*link.Link, error) {
	for {
		for _, l := range d.fabric.All() {
			if d.tap.Counts(l).Answers[op] > 0 {
				return l, nil
			}
		}
		if err := wait(ctx, ended); err != nil {
			return nil, err
		}
	}
}

// copies is how many times the driver has sent a prepared statement: it has no other.
func (d *driverLeases) copies() (n int64) {
	for _, l := range d.fabric.All() {
		n += d.tap.Counts(l).Requests[cqltap.OpExecute]
	}
	return n
}

// set puts the answers of links into a mode.
func (d *driverLeases) set(ctx context.Context, links []*link.Link, kind link.Kind) error {
	if d.inert {
		return nil
	}
	return link.SetEnds(ctx, link.Ends(links, link.Down), link.Mode{Kind: kind})
}
