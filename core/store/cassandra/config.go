package cassandra

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"
)

// Serial consistencies: the quorum over which conditional statements agree.
const (
	Serial      = "SERIAL"
	LocalSerial = "LOCAL_SERIAL"
)

// Consistencies of commits and plain requests.
const (
	Quorum      = "QUORUM"
	LocalQuorum = "LOCAL_QUORUM"
)

// Defaults of Config.
const (
	DefaultPort           = 9042
	DefaultConnectTimeout = 2 * time.Second
	DefaultRequestTimeout = 5 * time.Second
	DefaultNumConns       = 2
)

// Config is a connection to a cluster. ContactPoints is required.
type Config struct {
	// ContactPoints are IP addresses of nodes; one that answers is enough.
	ContactPoints []string
	// Port is the CQL port of all nodes; default 9042.
	Port int
	// Keyspace is the session's keyspace, which must exist; "" for none.
	Keyspace string
	// LocalDC restricts coordinators to one data centre, whose nodes alone are then
	// asked; "" for no restriction.
	LocalDC            string
	Username, Password string
	// TLS, if set, is spoken on every connection. What is verified is the node's name
	// in TLSNames, else its IP (not the address that Dial leads to); TLS.ServerName
	// overrides both.
	TLS *tls.Config
	// TLSNames are the names in nodes' certificates, by IP.
	TLSNames map[string]string
	// ConnectTimeout bounds a dial, and each step of a connection's set-up;
	// default 2 s. A node that swallows connections delays Open, and the
	// return of other nodes after a failure, by about this.
	ConnectTimeout time.Duration
	// RequestTimeout bounds a request whose context has no deadline; default
	// 5 s. It also bounds the hand-over of a request to the network.
	RequestTimeout time.Duration
	// NumConns is the number of connections a node; default 2.
	NumConns int
	// Serial is Serial (default) or LocalSerial, which needs LocalDC. All writers of
	// a keyspace must have the same one, and LocalSerial the same LocalDC:
	// LOCAL_SERIAL in two data centres is two agreements. See AgreementError.
	Serial string
	// Consistency is Quorum (default) or LocalQuorum: commits of conditional
	// statements, plain reads and writes.
	Consistency string
	// Dial, if set, opens the connection to the node with this IP, for example
	// through a proxy of that node's own. It must return an error for an IP
	// that it does not know: then no connection can bypass the proxies. Nil:
	// direct TCP to the IP and Port.
	Dial func(ctx context.Context, nodeIP string) (net.Conn, error)
	// OnStatement is called at the first use of each statement shape.
	OnStatement func(StatementInfo)
	// AnyRelease: Prepare, Migrate and Create take nodes of releases on which conditional writes are not
	// linearizable too; see ReleaseError.
	AnyRelease bool
	// Pin makes this node (IP) the only coordinator and the only contact point.
	Pin string
	// Wall is the wall clock for the columns that people read (granted_at,
	// expires_hint, at); default time.Now. It decides nothing.
	Wall func() time.Time
	// Logger takes the driver's own messages at debug level; default slog.Default().
	Logger *slog.Logger
}

// Resolve looks up the host names among the contact points: all of their addresses, whose
// certificates have those names unless TLSNames has others. It fails if there is no address.
func (c Config) Resolve(ctx context.Context) (Config, error) {
	points, names := c.ContactPoints, c.TLSNames
	c.ContactPoints, c.TLSNames = nil, map[string]string{}
	var errs []error
	for _, point := range points {
		if net.ParseIP(point) != nil {
			c.ContactPoints = append(c.ContactPoints, point)
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, point)
		errs = append(errs, err)
		for _, ip := range ips {
			c.ContactPoints, c.TLSNames[ip] = append(c.ContactPoints, ip), point
		}
	}
	maps.Copy(c.TLSNames, names)
	if len(c.ContactPoints) == 0 {
		return c, fmt.Errorf("cassandra: no contact point has an address: %w", errors.Join(errs...))
	}
	return c, nil
}

// StatementInfo is the shape of a statement, for linting.
type StatementInfo struct {
	// CQL is the statement as sent; of a batch, all distinct statements
	// between BEGIN and APPLY BATCH.
	CQL string
	// Consistency is that of a plain request or of the commit; a SERIAL read
	// has the serial consistency here.
	Consistency string
	// SerialConsistency is set for conditional statements.
	SerialConsistency string
}

func (c Config) withDefaults() (Config, error) {
	c.Port = cmp.Or(c.Port, DefaultPort)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, DefaultConnectTimeout)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, DefaultRequestTimeout)
	if c.Wall == nil {
		c.Wall = time.Now
	}
	c.NumConns = cmp.Or(c.NumConns, DefaultNumConns)
	c.Serial = cmp.Or(c.Serial, Serial)
	c.Consistency = cmp.Or(c.Consistency, Quorum)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Pin != "" {
		c.ContactPoints = []string{c.Pin}
	}
	switch {
	case len(c.ContactPoints) == 0:
		return c, errors.New("cassandra: no contact points: name the IP of at least one node")
	case c.Serial != Serial && c.Serial != LocalSerial:
		return c, fmt.Errorf("cassandra: serial consistency %q: use %s or %s", c.Serial, Serial, LocalSerial)
	case c.Consistency != Quorum && c.Consistency != LocalQuorum:
		return c, fmt.Errorf("cassandra: consistency %q: use %s or %s", c.Consistency, Quorum, LocalQuorum)
	case c.Serial == LocalSerial && c.LocalDC == "":
		return c, fmt.Errorf("cassandra: %s without LocalDC: any node's data centre would decide; name the one", LocalSerial)
	case c.Serial == LocalSerial && c.Consistency == Quorum:
		return c, fmt.Errorf("cassandra: %s with %s commits waits for other data centres without agreeing with them: use %s with %s, or %s with %s", LocalSerial, Quorum, LocalSerial, LocalQuorum, Serial, Quorum)
	case c.Port < 1 || c.Port > 65535:
		return c, fmt.Errorf("cassandra: port %d", c.Port)
	case c.ConnectTimeout < 0 || c.RequestTimeout < 0 || c.NumConns < 0:
		return c, errors.New("cassandra: timeouts and NumConns must not be negative")
	}
	for _, ip := range c.ContactPoints {
		if net.ParseIP(ip) == nil {
			return c, fmt.Errorf("cassandra: contact point %q is not an IP address: nodes are told apart by their IP, resolve names first", ip)
		}
	}
	return c, nil
}

// TLSFor is the configuration of a connection to the node with this IP, nil for none.
func (c Config) TLSFor(ip string) *tls.Config {
	if c.TLS == nil || c.TLS.ServerName != "" {
		return c.TLS
	}
	t := c.TLS.Clone()
	t.ServerName = cmp.Or(c.TLSNames[ip], ip)
	return t
}

func (c Config) serial() gocql.SerialConsistency {
	if c.Serial == LocalSerial {
		return gocql.LocalSerial
	}
	return gocql.Serial
}

func (c Config) consistency() gocql.Consistency {
	if c.Consistency == LocalQuorum {
		return gocql.LocalQuorum
	}
	return gocql.Quorum
}

// cluster translates to the driver's configuration. What deviates from its
// defaults, and why, is in the package comment.
func (c Config) cluster(dial *hostDialer, policy gocql.HostSelectionPolicy, log *driverLog) *gocql.ClusterConfig {
	g := gocql.NewCluster(c.ContactPoints...)
	g.Port = c.Port
	g.ProtoVersion = 4
	g.Keyspace = c.Keyspace
	g.NumConns = c.NumConns
	g.Consistency = c.consistency()
	g.SerialConsistency = c.serial()
	g.ConnectTimeout = c.ConnectTimeout
	g.Timeout = max(30*time.Second, 4*c.RequestTimeout)
	g.WriteTimeout = max(time.Second, c.RequestTimeout)
	g.ReconnectInterval = time.Second
	g.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1}
	g.WriteCoalesceWaitTime = 0
	g.RetryPolicy = nil
	g.DefaultIdempotence = false
	g.DefaultTimestamp = false
	g.DisableSkipMetadata = true
	g.MaxWaitSchemaAgreement = time.Nanosecond // Exec waits itself: see awaitSchema
	g.Events.DisableNodeStatusEvents = true
	g.Events.DisableSchemaEvents = true
	g.HostDialer = dial
	g.PoolConfig.HostSelectionPolicy = policy
	g.Logger = log
	if c.Username != "" {
		g.Authenticator = gocql.PasswordAuthenticator{Username: c.Username, Password: c.Password}
	}
	if c.Pin != "" {
		pin := net.ParseIP(c.Pin)
		g.HostFilter = gocql.HostFilterFunc(func(h *gocql.HostInfo) bool { return h.ConnectAddress().Equal(pin) })
	}
	return g
}

// driverLog passes the driver's messages on at debug level: they tell of single
// connections, which the core survives and reports by outcomes. The last one is
// kept: the driver's error for a session that cannot be opened does not say why.
type driverLog struct {
	log  *slog.Logger
	last atomic.Value // string
}

func (l *driverLog) Print(v ...any)            { l.add(fmt.Sprint(v...)) }
func (l *driverLog) Printf(f string, v ...any) { l.add(fmt.Sprintf(f, v...)) }
func (l *driverLog) Println(v ...any)          { l.add(fmt.Sprint(v...)) }

func (l *driverLog) add(s string) {
	s = strings.TrimSpace(s)
	l.log.Debug(s, "from", "gocql")
	l.last.Store(s)
}
