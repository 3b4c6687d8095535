package cassandra

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	ok := func(change func(*Config)) Config {
		c := Config{ContactPoints: []string{"10.0.0.1"}}
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string // "" = valid
	}{
		"minimal":                 {ok(func(*Config) {}), ""},
		"no contact point":        {Config{}, "no contact points"},
		"a name":                  {ok(func(c *Config) { c.ContactPoints = []string{"db.example"} }), "not an IP address"},
		"IPv6":                    {ok(func(c *Config) { c.ContactPoints = []string{"::1"} }), ""},
		"pin instead":             {Config{Pin: "10.0.0.2"}, ""},
		"pin by name":             {Config{Pin: "n1"}, "not an IP address"},
		"ONE":                     {ok(func(c *Config) { c.Consistency = "ONE" }), "use QUORUM or LOCAL_QUORUM"},
		"bad serial":              {ok(func(c *Config) { c.Serial = Quorum }), "use SERIAL or LOCAL_SERIAL"},
		"local":                   {ok(func(c *Config) { c.Serial, c.Consistency, c.LocalDC = LocalSerial, LocalQuorum, "dc1" }), ""},
		"local in no data centre": {ok(func(c *Config) { c.Serial, c.Consistency = LocalSerial, LocalQuorum }), "without LocalDC"},
		"local serial, quorum":    {ok(func(c *Config) { c.Serial, c.LocalDC = LocalSerial, "dc1" }), "LOCAL_QUORUM"},
		"port":                    {ok(func(c *Config) { c.Port = 70000 }), "port"},
		"negative timeout":        {ok(func(c *Config) { c.RequestTimeout = -1 }), "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.cfg.withDefaults()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestDriverSettings: the settings that correctness rests on.
// TestResolve: certificates of a name's addresses have that name, unless another is given.
func TestResolve(t *testing.T) {
	t.Parallel()
	c, err := Config{ContactPoints: []string{"10.0.0.1", "localhost"}, TLSNames: map[string]string{"10.0.0.1": "a"}}.Resolve(t.Context())
	if err != nil || len(c.ContactPoints) < 2 || c.TLSNames["10.0.0.1"] != "a" || c.TLSNames[c.ContactPoints[1]] != "localhost" {
		t.Errorf("%v, %v, %v", c.ContactPoints, c.TLSNames, err)
	}
	if _, err := (Config{ContactPoints: []string{"nobody.invalid"}}).Resolve(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody.invalid") {
		t.Errorf("a name without an address: %v", err)
	}
}

func TestDriverSettings(t *testing.T) {
	t.Parallel()
	cfg, err := Config{ContactPoints: []string{"10.0.0.1"}, Serial: LocalSerial, Consistency: LocalQuorum, LocalDC: "dc1"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := cfg.cluster(&hostDialer{cfg}, newCoordinators(cfg), &driverLog{log: cfg.Logger})
	if g.RetryPolicy != nil || g.DefaultIdempotence {
		t.Error("the driver would execute conditional statements twice")
	}
	if g.DefaultTimestamp {
		t.Error("client timestamps are on")
	}
	if g.ReconnectInterval != time.Second || g.WriteCoalesceWaitTime != 0 || g.ProtoVersion != 4 {
		t.Errorf("reconnect %s, coalesce %s, protocol %d", g.ReconnectInterval, g.WriteCoalesceWaitTime, g.ProtoVersion)
	}
	if g.HostDialer == nil || g.SerialConsistency != gocql.LocalSerial || g.Consistency != gocql.LocalQuorum {
		t.Errorf("dialer %v, %s, %s", g.HostDialer, g.SerialConsistency, g.Consistency)
	}
	if g.Timeout <= cfg.RequestTimeout {
		t.Errorf("the session's time limit %s would end requests before their own", g.Timeout)
	}
}

// TestDialFailsClosed: no connection bypasses Config.Dial, and Open says so.
func TestDialFailsClosed(t *testing.T) {
	t.Parallel()
	refused := errors.New("no proxy for this node")
	var asked []string
	cfg := Config{ContactPoints: []string{"127.0.0.1"}, Dial: func(_ context.Context, ip string) (net.Conn, error) {
		asked = append(asked, ip)
		return nil, refused
	}}
	db, err := Open(t.Context(), cfg)
	if err == nil {
		db.Close()
		t.Fatal("opened without a connection")
	}
	if store.OutcomeOf(err) != store.Fail || !strings.Contains(err.Error(), "no proxy for this node") {
		t.Errorf("error: %v", err)
	}
	if len(asked) == 0 {
		t.Error("Dial was not asked")
	}
}

func TestDialRefusesOtherThanTCP(t *testing.T) {
	t.Parallel()
	cfg := Config{ConnectTimeout: time.Second, Port: 9042, Dial: func(context.Context, string) (net.Conn, error) {
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		return a, nil
	}}
	d := &hostDialer{cfg}
	if _, err := d.DialHost(t.Context(), (&gocql.HostInfo{}).SetConnectAddress(net.IPv4(127, 0, 0, 1))); err == nil {
		t.Error("a pipe was accepted; the driver panics on it")
	}
}

// TestOpenHonoursContext: a node that swallows the connection does not hold Open.
func TestOpenHonoursContext(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Config{ContactPoints: []string{"127.0.0.1"}, Port: ln.Addr().(*net.TCPAddr).Port, ConnectTimeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
}

func TestReplicationCQL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r    Replication
		want string
		ok   bool
	}{
		"default":     {Replication{}, "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}", true},
		"simple":      {Replication{Class: "SimpleStrategy", Factor: 1}, "{'class': 'SimpleStrategy', 'replication_factor': 1}", true},
		"two DCs":     {Replication{DCs: map[string]int{"b": 3, "a": 2}}, "{'class': 'NetworkTopologyStrategy', 'a': 2, 'b': 3}", true},
		"simple, DCs": {Replication{Class: "SimpleStrategy", DCs: map[string]int{"a": 1}}, "", false},
		"other":       {Replication{Class: "Everywhere"}, "", false},
		"injection":   {Replication{DCs: map[string]int{"a'": 1}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.r.CQL()
			if (err == nil) != c.ok || got != c.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestSchema: every statement creates a table, and none can expire or be
// written with a client's time, but for the one on which nothing rests.
func TestSchema(t *testing.T) {
	t.Parallel()
	stmts := statements(Schema())
	if len(stmts) != 9 {
		t.Fatalf("%d statements", len(stmts))
	}
	for _, s := range stmts {
		if !strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS ") {
			t.Errorf("%.40q is no table that may exist already", s)
		}
		expires := strings.Contains(strings.ToUpper(s), "TTL =") || strings.Contains(strings.ToLower(s), "default_time_to_live")
		if expires != strings.Contains(s, "EXISTS runs ") || expires != strings.Contains(s, "TimeWindowCompactionStrategy") {
			t.Errorf("%.40q expires: %t", s, expires)
		}
	}
	for _, bad := range []string{"", "Upper", "1x", "a-b", "x; DROP", strings.Repeat("a", 49)} {
		if err := Migrate(t.Context(), Config{Keyspace: bad}, Replication{}); err == nil {
			t.Errorf("keyspace %q was accepted", bad)
		}
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	a, b := store.Statement{CQL: "A"}, store.Statement{CQL: "B"}
	if got := shape([]store.Statement{a}); got != "A" {
		t.Errorf("%q", got)
	}
	if got := shape([]store.Statement{a, b, b, b}); got != "BEGIN UNLOGGED BATCH A; B; APPLY BATCH" {
		t.Errorf("%q", got)
	}
}

func TestNodeInfo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  map[string]any
		ip   string
		port int
	}{
		"a peer":                {map[string]any{"peer": "10.0.0.1", "native_address": "192.168.0.1", "native_port": 9142}, "192.168.0.1", 9142},
		"an old peer":           {map[string]any{"peer": "10.0.0.1", "rpc_address": "192.168.0.1"}, "192.168.0.1", 0},
		"itself":                {map[string]any{"broadcast_address": "10.0.0.1", "rpc_address": "192.168.0.1", "rpc_port": 9042}, "192.168.0.1", 9042},
		"itself, at any":        {map[string]any{"broadcast_address": "10.0.0.1", "rpc_address": "0.0.0.0"}, "10.0.0.1", 0},
		"written another way":   {map[string]any{"rpc_address": "::ffff:192.168.0.1"}, "192.168.0.1", 0},
		"that tells no address": {map[string]any{"rpc_address": nil, "native_port": 0}, "", 0},
	} {
		c.row["host_id"], c.row["data_center"] = "id", "dc"
		n := nodeInfo(c.row)
		if n.IP != c.ip || n.Port != c.port || n.ID != "id" || n.DC != "dc" {
			t.Errorf("%s: %+v, want %s:%d", name, n, c.ip, c.port)
		}
	}
}

func TestTLSFor(t *testing.T) {
	t.Parallel()
	if c := (Config{}).TLSFor("10.0.0.1"); c != nil {
		t.Error("TLS although there is none")
	}
	c := Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, TLSNames: map[string]string{"10.0.0.1": "a.example"}}
	for ip, want := range map[string]string{"10.0.0.1": "a.example", "10.0.0.2": "10.0.0.2"} {
		if got := c.TLSFor(ip).ServerName; got != want {
			t.Errorf("%s: name %q, want %q", ip, got, want)
		}
	}
	c.TLS.ServerName = "all.example"
	if got := c.TLSFor("10.0.0.1").ServerName; got != "all.example" {
		t.Errorf("name %q", got)
	}
}

func TestNeedsLogin(t *testing.T) {
	t.Parallel()
	err := errors.New(`authentication required (using "org.apache.cassandra.auth.PasswordAuthenticator")`)
	if !NeedsLogin(fmt.Errorf("connect: %w", err)) || NeedsLogin(errors.New("no route")) || NeedsLogin(nil) {
		t.Error("the driver's error for a missing login is not told from others")
	}
	if Refused(err) != Other || Refused(nil) != Other {
		t.Error("what no server said is no refusal")
	}
}

func TestSentByKind(t *testing.T) {
	t.Parallel()
	for _, serial := range []string{Serial, LocalSerial} {
		db := &DB{cfg: Config{Serial: serial, Consistency: Quorum}}
		for range 3 {
			db.count(StatementInfo{CQL: "UPDATE t SET v = ? IF v = ?", Consistency: Quorum, SerialConsistency: serial})
		}
		for range 2 {
			db.count(StatementInfo{CQL: "SELECT v FROM t", Consistency: serial})
		}
		db.count(StatementInfo{CQL: "SELECT v FROM t", Consistency: Quorum})
		if got, want := db.Sent(), (Sent{Conditional: 3, Serial: 2, Plain: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", serial, got, want)
		}
	}
}
