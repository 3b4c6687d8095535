package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"fencepost/core/engine"
	"fencepost/core/store/cassandra"
)

// fencesRaised is by how much fences are raised: more than a shard is taken over between a
// snapshot and its restore, and little of job.MaxFence.
const fencesRaised = 1_000_000

// raiseFences makes a keyspace ready that was restored from a snapshot.
func raiseFences(ctx context.Context, c *config, log *slog.Logger) error {
	cfg, _, err := c.scheduler.Prepare(ctx)
	if err != nil {
		return c.explain(ctx, err)
	}
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer db.Close()
	for _, q := range c.scheduler.Engine.Queues {
		if err := engine.RaiseFences(ctx, cassandra.NewShards(db), q, fencesRaised); err != nil {
			return c.explain(ctx, err)
		}
		log.Info("fences raised", "queue", q.Name, "shards", q.Shards, "by", fencesRaised)
	}
	return nil
}

// explain says what to do about a connection that was not made, or a request that was
// refused.
func (c *config) explain(ctx context.Context, err error) error {
	var listening *net.OpError
	if errors.As(err, &listening) && listening.Op == "listen" {
		return fmt.Errorf("%w; see WORKER_PEER_PORT", err)
	}
	var release *cassandra.ReleaseError
	if errors.As(err, &release) {
		return fmt.Errorf("%w, or --cassandra-any-release for a trial", err)
	}
	db := &c.scheduler.Database
	// The driver's error for a session that cannot be opened does not say why.
	if err != nil && cassandra.Refused(err) == cassandra.Other {
		cfg, _ := db.Resolve(ctx) // without an address err says so
		for _, ip := range cfg.ContactPoints {
			one := cfg
			one.ContactPoints, one.Keyspace, one.Logger = []string{ip}, "", c.scheduler.Engine.Logger
			if _, why := cassandra.Discover(ctx, one); why != nil {
				if h := c.connecting(why); h != "" {
					return fmt.Errorf("no session with Cassandra at %s, port %d: %s (%w)", ip, cfg.Port, h, why)
				}
			}
		}
	}
	switch cassandra.Refused(err) {
	case cassandra.Unauthorized:
		role := cmp.Or(db.Username, "anonymous")
		return fmt.Errorf("the role %s lacks a permission: run schedulerd migrate with a role that may create keyspaces and tables; then, as a superuser, GRANT SELECT ON KEYSPACE %s TO %s, and GRANT MODIFY ON KEYSPACE %s TO %s (%w)", role, db.Keyspace, role, db.Keyspace, role, err)
	case cassandra.NoQuorum:
		return fmt.Errorf("too few replicas answer: see nodetool status, and --replication-factor when the keyspace was created (%w)", err)
	}
	return err
}

// connecting is what is wrong with a connection, and the remedy; "" if that is not known.
func (c *config) connecting(err error) string {
	user := c.scheduler.Database.Username
	switch cassandra.Diagnose(err, c.login.tls) {
	case cassandra.Unreachable:
		return "it cannot be reached: see CASSANDRA_CONTACT_POINT and CASSANDRA_PORT, that the node runs, and firewalls between here and there"
	case cassandra.WantsLogin:
		return "it wants a login: set CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
	case cassandra.WrongLogin:
		return "the user name or the password is wrong: see CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
	case cassandra.MayNotLogin:
		return "the role " + user + " may not log in: as a superuser ALTER ROLE " + user + " WITH LOGIN = true"
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
