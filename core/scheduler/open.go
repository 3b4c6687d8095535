package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"fencepost/core/engine"
	"fencepost/core/member"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Config is a whole scheduler on Cassandra. The Database's ContactPoints and Keyspace and the
// Handlers are needed.
type Config struct {
	// Options are the scheduler's. Open sets their Shards, Runs, Members, Listener and Secret,
	// and the engine's Addr. Where they are empty it also sets the Sink to the one of the
	// keyspace, the engine's Name to a new one, its Queues to the queue "default" with 8
	// shards, and its MaxRunning to Slots.
	Options
	// Database is the connection to the cluster. Its ContactPoints may be host names. With
	// a LocalDC, which must have all replicas and schedulers, its consistencies are LOCAL_.
	Database cassandra.Config
	// Replicas is how many a keyspace has that Open creates: in the LocalDC, or in all; default 3.
	Replicas int
	// Name is this process's, the same after a restart, unlike all others': shards prefer
	// who had them. Default: the machine's, with the port of Listen behind it.
	Name string
	// Listen is where other schedulers hand on what is enqueued for shards of this one, as
	// host:port; default: an unused port. Advertise is how they reach it, as host:port;
	// default: the address by which this machine reaches Cassandra.
	Listen, Advertise string
	// NoPeers: nobody listens, others use the inboxes.
	NoPeers bool
}

// Open makes a scheduler ready, with its keyspace and tables, and lets it work until ctx ends or
// Close is called. Close is needed in both cases. The error is one of cassandra.Prepare, of
// cassandra.Open, of the listener, or what New says of the options.
func Open(ctx context.Context, c Config) (*Scheduler, error) {
	cfg, agreed, err := c.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s, err := c.on(ctx, db, cfg, agreed.PeerSecret)
	if err != nil {
		db.Close()
		return nil, err
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = s.Run(ctx)
	}()
	return s, nil
}

// Wait waits until a scheduler that was opened has ended, and returns what Run did.
func (s *Scheduler) Wait() error {
	<-s.ended
	return s.err
}

// Close ends a scheduler that was opened: runs may end, shards are handed over, connections
// are closed. It returns what Run did, and may be called again.
func (s *Scheduler) Close() error {
	s.stop()
	err := s.Wait()
	s.db.Close()
	return err
}

// DB is the session of a scheduler that was opened, until Close.
func (s *Scheduler) DB() *cassandra.DB { return s.db }

// Prepare makes the keyspace ready, as Open does. It returns the configuration of sessions.
func (c Config) Prepare(ctx context.Context) (cassandra.Config, cassandra.Settings, error) {
	cfg, replicas, err := c.cluster(ctx)
	if err != nil {
		return cfg, cassandra.Settings{}, err
	}
	agreed, err := cassandra.Prepare(ctx, cfg, replicas)
	if err != nil {
		return cfg, agreed, err
	}
	said := "keyspace and tables up to date"
	if agreed.Created {
		said = "keyspace and tables created or upgraded"
	}
	cfg.Logger.Info(said, "keyspace", cfg.Keyspace, "schema_version", agreed.Version, "known_version", cassandra.SchemaVersion)
	return cfg, agreed, nil
}

// cluster is the configuration of sessions, and the replication of a keyspace that is created.
func (c Config) cluster(ctx context.Context) (cassandra.Config, cassandra.Replication, error) {
	cfg, err := c.Database.Resolve(ctx)
	cfg.Logger = cmp.Or(c.Engine.Logger, slog.Default())
	replicas := cmp.Or(c.Replicas, 3)
	if cfg.LocalDC == "" {
		return cfg, cassandra.Replication{Factor: replicas}, err
	}
	cfg.Serial, cfg.Consistency = cassandra.LocalSerial, cassandra.LocalQuorum
	return cfg, cassandra.Replication{DCs: map[string]int{cfg.LocalDC: replicas}}, err
}

// on makes a scheduler on a session.
func (c Config) on(ctx context.Context, db *cassandra.DB, cfg cassandra.Config, secret string) (*Scheduler, error) {
	o, members := c.Options, cassandra.NewMembers(db)
	o.Shards, o.Runs, o.Secret = cassandra.NewShards(db), cassandra.NewRuns(db), secret
	if o.Sink == nil {
		o.Sink = cassandrasink.New(db, cassandrasink.Options{})
	}
	if len(o.Engine.Queues) == 0 {
		o.Engine.Queues = []engine.Queue{{Name: "default", Shards: 8}}
	}
	o.Engine.MaxRunning = cmp.Or(o.Engine.MaxRunning, o.Slots)
	// A role that may not write is found now. All else that can go wrong passes: the
	// scheduler waits until it is over.
	err := members.Beat(ctx, "start", cmp.Or(c.Name, "new"), uuid.NewString(), time.Minute)
	if cassandra.Refused(err) == cassandra.Unauthorized {
		return nil, err
	}
	if o.Listener, o.Engine.Addr, err = c.listen(cfg); err != nil {
		return nil, err
	}
	s, err := c.with(o, members)
	if err != nil && o.Listener != nil {
		_ = o.Listener.Close()
	}
	if err == nil {
		s.db = db
	}
	return s, err
}

// with names the process, and makes the scheduler of completed options.
func (c Config) with(o Options, members store.Members) (s *Scheduler, err error) {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("scheduler: Name is empty, and this machine has none either: %w", err)
		}
		_, port, _ := net.SplitHostPort(o.Engine.Addr)
		c.Name = host + "-" + port
	}
	o.Engine.Name = cmp.Or(o.Engine.Name, c.Name+"."+uuid.NewString()[:8])
	o.Members, err = member.New(member.Options{Store: members, Cell: "schedulers", Name: c.Name, TTL: o.Engine.TTL, Logger: o.Engine.Logger})
	if err != nil {
		return nil, err
	}
	return New(o)
}

// listen opens the listener, and says how others reach it.
func (c Config) listen(cfg cassandra.Config) (net.Listener, string, error) {
	if c.NoPeers {
		return nil, "", nil
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("other schedulers cannot be served: %w", err)
	}
	at := c.Advertise
	if at == "" {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		at = net.JoinHostPort(ownAddress(cfg), port)
	}
	cfg.Logger.Info("advertising peer address", "at", at)
	return l, at, nil
}

// ownAddress is the address by which this machine reaches Cassandra: others that reach
// it too are likely to reach this machine there. Nothing is sent.
func ownAddress(cfg cassandra.Config) string {
	port := cmp.Or(cfg.Port, cassandra.DefaultPort)
	conn, err := net.Dial("udp", net.JoinHostPort(cfg.ContactPoints[0], strconv.Itoa(port)))
	if err != nil {
		return "127.0.0.1"
	}
	defer func() { _ = conn.Close() }()
	host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return host
}
