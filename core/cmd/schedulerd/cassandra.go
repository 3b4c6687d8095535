package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"fencepost/core/store/cassandra"
)

// session is the configuration of sessions with the cluster.
func (c checked) session(ctx context.Context, log *slog.Logger) (cassandra.Config, error) {
	cfg := cassandra.Config{Port: c.port, Keyspace: c.keyspace, LocalDC: c.localDC, Username: c.username, Password: c.password,
		TLS: c.tlsConfig, TLSNames: map[string]string{}, Logger: log}
	if c.localDC != "" {
		cfg.Serial, cfg.Consistency = cassandra.LocalSerial, cassandra.LocalQuorum
	}
	var errs []error
	for _, point := range c.contact {
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
func (c checked) replication() cassandra.Replication {
	if c.localDC == "" {
		return cassandra.Replication{Factor: c.replicas}
	}
	return cassandra.Replication{DCs: map[string]int{c.localDC: c.replicas}}
}

// prepare makes the keyspace ready.
func prepare(ctx context.Context, c checked, log *slog.Logger) (cassandra.Config, cassandra.Settings, error) {
	cfg, err := c.session(ctx, log)
	if err != nil {
		return cfg, cassandra.Settings{}, err
	}
	got, err := cassandra.Prepare(ctx, cfg, c.replication())
	if err != nil {
		return cfg, got, explain(ctx, cfg, err)
	}
	if got.Created {
		log.Info("the keyspace and its tables are created", "keyspace", c.keyspace, "schema_version", cassandra.SchemaVersion)
	} else {
		log.Info("the keyspace and its tables are there", "keyspace", c.keyspace, "schema_version", cassandra.SchemaVersion)
	}
	return cfg, got, nil
}

// explain says what to do about a connection that was not made, or a request that was
// refused.
func explain(ctx context.Context, cfg cassandra.Config, err error) error {
	hint := func(err error) string {
		switch {
		case cassandra.NeedsLogin(err):
			return "the cluster wants a login: set CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
		case cassandra.Refused(err) == cassandra.Credentials:
			return "the user name or the password is wrong: see CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE"
		case cassandra.Refused(err) == cassandra.Unauthorized:
			return "the role lacks a permission: grant it CREATE, SELECT and MODIFY on the keyspace, or run schedulerd migrate with one that has them"
		case cassandra.Refused(err) == cassandra.NoQuorum:
			return "too few replicas answer: see nodetool status, and --replication-factor when the keyspace was created"
		}
		return ""
	}
	if h := hint(err); h != "" {
		return fmt.Errorf("%s (%w)", h, err)
	}
	// The driver's error for a session that cannot be opened does not say why.
	for _, ip := range cfg.ContactPoints {
		one := cfg
		one.ContactPoints, one.Keyspace = []string{ip}, ""
		_, why := cassandra.Discover(ctx, one)
		if h := hint(why); why != nil && h != "" {
			return fmt.Errorf("%s (%w)", h, why)
		}
		var dial *net.OpError
		if errors.As(why, &dial) {
			return fmt.Errorf("no connection to Cassandra at %s, port %d: see CASSANDRA_CONTACT_POINT and CASSANDRA_PORT (%w)", ip, cfg.Port, why)
		}
	}
	return err
}
