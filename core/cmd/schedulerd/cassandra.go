package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/google/uuid"

	"fencepost/core/engine"
	"fencepost/core/store/cassandra"
)

// session is the configuration of sessions with the cluster.
func (c *config) session(ctx context.Context, log *slog.Logger) (cassandra.Config, error) {
	cfg := c.db
	cfg.ContactPoints, cfg.TLSNames, cfg.Logger = nil, map[string]string{}, log
	if c.db.LocalDC != "" {
		cfg.Serial, cfg.Consistency = cassandra.LocalSerial, cassandra.LocalQuorum
	}
	var errs []error
	for _, point := range c.db.ContactPoints {
		if net.ParseIP(point) != nil {
			cfg.ContactPoints = append(cfg.ContactPoints, point)
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, point)
		errs = append(errs, err)
		for _, ip := range ips {
			cfg.ContactPoints = append(cfg.ContactPoints, ip)
			cfg.TLSNames[ip] = point
		}
	}
	if len(cfg.ContactPoints) == 0 {
		return cfg, fmt.Errorf("no contact point has an address: %w", errors.Join(errs...))
	}
	return cfg, nil
}

// replication is that of a keyspace that is created.
func (c *config) replication() cassandra.Replication {
	if c.db.LocalDC == "" {
		return cassandra.Replication{Factor: c.replicas}
	}
	return cassandra.Replication{DCs: map[string]int{c.db.LocalDC: c.replicas}}
}

// prepare makes the keyspace ready.
func prepare(ctx context.Context, c *config, log *slog.Logger) (cassandra.Config, cassandra.Settings, error) {
	cfg, err := c.session(ctx, log)
	if err != nil {
		return cfg, cassandra.Settings{}, err
	}
	got, err := cassandra.Prepare(ctx, cfg, c.replication())
	if err != nil {
		return cfg, got, c.explain(ctx, cfg, err)
	}
	if got.Created {
		log.Info("keyspace and tables created or upgraded", "keyspace", c.db.Keyspace, "schema_version", got.Version)
	} else {
		log.Info("keyspace and tables up to date", "keyspace", c.db.Keyspace, "schema_version", got.Version, "known_version", cassandra.SchemaVersion)
	}
	return cfg, got, nil
}

// fencesRaised is by how much fences are raised: more than a shard is taken over between a
// snapshot and its restore, and little of job.MaxFence.
const fencesRaised = 1_000_000

// raiseFences makes a keyspace ready that was restored from a snapshot.
func raiseFences(ctx context.Context, c *config, log *slog.Logger) error {
	cfg, _, err := prepare(ctx, c, log)
	if err != nil {
		return err
	}
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return c.explain(ctx, cfg, err)
	}
	defer db.Close()
	for _, q := range c.scheduler.Engine.Queues {
		if err := engine.RaiseFences(ctx, cassandra.NewShards(db), q, fencesRaised); err != nil {
			return c.explain(ctx, cfg, err)
		}
		log.Info("fences raised", "queue", q.Name, "shards", q.Shards, "by", fencesRaised)
	}
	return nil
}

// mayWrite reports a role that may not. All else that can go wrong passes, as the
// scheduler waits until it is over.
func mayWrite(ctx context.Context, db *cassandra.DB, c *config) error {
	err := cassandra.NewMembers(db).Beat(ctx, "start", c.name, uuid.NewString(), time.Minute)
	if cassandra.Refused(err) == cassandra.Unauthorized {
		return err
	}
	return nil
}

// explain says what to do about a connection that was not made, or a request that was
// refused.
func (c *config) explain(ctx context.Context, cfg cassandra.Config, err error) error {
	// The driver's error for a session that cannot be opened does not say why.
	if cassandra.Refused(err) == cassandra.Other {
		for _, ip := range cfg.ContactPoints {
			one := cfg
			one.ContactPoints, one.Keyspace = []string{ip}, ""
			if _, why := cassandra.Discover(ctx, one); why != nil {
				if h := c.connecting(why); h != "" {
					return fmt.Errorf("no session with Cassandra at %s, port %d: %s (%w)", ip, cfg.Port, h, why)
				}
			}
		}
	}
	switch cassandra.Refused(err) {
	case cassandra.Unauthorized:
		role := cmp.Or(c.db.Username, "anonymous")
		return fmt.Errorf("the role %s lacks a permission: run schedulerd migrate with a role that may create keyspaces and tables; then, as a superuser, GRANT SELECT ON KEYSPACE %s TO %s, and GRANT MODIFY ON KEYSPACE %s TO %s (%w)", role, c.db.Keyspace, role, c.db.Keyspace, role, err)
	case cassandra.NoQuorum:
		return fmt.Errorf("too few replicas answer: see nodetool status, and --replication-factor when the keyspace was created (%w)", err)
	}
	return err
}

// connecting is what is wrong with a connection, and the remedy; "" if that is not known.
func (c *config) connecting(err error) string {
	switch cassandra.Diagnose(err, c.tls.on) {
	case cassandra.Unreachable:
		return "it cannot be reached: see CASSANDRA_CONTACT_POINT and CASSANDRA_PORT, that the node runs, and firewalls between here and there"
	case cassandra.WantsLogin:
		return "it wants a login: set CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
	case cassandra.WrongLogin:
		return "the user name or the password is wrong: see CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
	case cassandra.MayNotLogin:
		return "the role " + c.db.Username + " may not log in: as a superuser ALTER ROLE " + c.db.Username + " WITH LOGIN = true"
	case cassandra.NotTrusted:
		return "its certificate is signed by an authority that is not trusted: name the file with the authority's certificate (PEM) by CASSANDRA_TLS_CA"
	case cassandra.OtherName:
		return "its certificate is for another name: name one that is in it in CASSANDRA_CONTACT_POINT, or the one that all nodes' certificates have by CASSANDRA_TLS_SERVER_NAME"
	case cassandra.BadCertificate:
		return "its certificate does not hold: renew it, or see this machine's clock"
	case cassandra.SpeaksNoTLS, cassandra.EndsTLS:
		return "it speaks no TLS at this port: leave CASSANDRA_TLS away, or name the port for TLS by CASSANDRA_PORT"
	case cassandra.RefusesTLS:
		return "it refuses the TLS connection: it may want a client's certificate that it trusts, CASSANDRA_TLS_CERT and CASSANDRA_TLS_KEY"
	case cassandra.SpeaksNoCQL:
		return "it takes the connection, but does not answer in its protocol: it may want TLS (CASSANDRA_TLS=true), or this is the port of something else"
	case cassandra.OtherProtocol:
		return "it does not speak version 4 of the native protocol: use Cassandra 4.0 or later"
	}
	return ""
}
