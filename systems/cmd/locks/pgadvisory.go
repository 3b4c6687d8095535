package main

import (
	"context"
	"errors"
	"time"

	"fencepost/systems/clients"
	"fencepost/systems/drive"
)

// pgAdvisory is PostgreSQL's advisory lock of a session, which is a connection of each client's own. It
// is no lease: the lock is held until it is unlocked or the session ends, however late that is, and Renew
// only looks whether it still is. A client that is past its own deadline closes the session. The
// attempt's id is the session's application_name, set before the lock is asked for.
type pgAdvisory struct {
	pgSession
	run   string
	open  string        // the id of the attempt whose lock the session may have
	seals []*pgAdvisory // each has a session: all end with this client
}

func openAdvisory(_ context.Context, at drive.Place) (drive.Locker, error) {
	server, err := clients.Postgres(at)
	return &pgAdvisory{pgSession: pgSession{at: server}, run: at.Name}, err
}

const (
	// CASE has its parts evaluated in this order.
	advisoryLock   = `SELECT CASE WHEN set_config('application_name', $2, false) = $2 THEN pg_try_advisory_lock(hashtextextended($1, 0)) END`
	advisoryUnlock = `SELECT CASE WHEN current_setting('application_name') = $2 THEN pg_advisory_unlock(hashtextextended($1, 0)) ELSE false END`
	// A key of 64 bits is shown in two halves, with objsubid 1.
	advisoryHolder = `SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = a.datid AND a.datname = current_database()
		AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1, 0)`
)

func (p *pgAdvisory) Acquire(ctx context.Context, name, id string, _ time.Duration) (_ int64, taken bool, err error) {
	if p.open != id {
		if p.open != "" {
			_ = p.Close() // it is closed, whether the server was told or not
		}
		p.open = id
	}
	_, err = p.query(ctx, []any{&taken}, advisoryLock, p.run+"/"+name, id)
	switch {
	case err != nil:
		// A session that has the lock gets it again, and must unlock it as often. A copy more is
		// of another session.
		_ = p.Close()
	case !taken:
		p.open = ""
	}
	return 0, taken, err
}

func (p *pgAdvisory) Renew(ctx context.Context, name, id string, _ time.Duration) (bool, error) {
	var n int
	return p.query(ctx, []any{&n}, "SELECT 1 FROM ("+advisoryHolder+" AND l.pid = pg_backend_pid()) h WHERE h.application_name = $2", p.run+"/"+name, id)
}

func (p *pgAdvisory) Release(ctx context.Context, name, id string) (released bool, err error) {
	_, err = p.query(ctx, []any{&released}, advisoryUnlock, p.run+"/"+name, id)
	if released {
		p.open = ""
	}
	return released, err
}

func (p *pgAdvisory) Holder(ctx context.Context, name string) (id string, err error) {
	_, err = p.query(ctx, []any{&id}, advisoryHolder, p.run+"/"+name)
	return id, err
}

// Seal takes the lock in a session of its own, for as long as this program runs: it is the last.
func (p *pgAdvisory) Seal(ctx context.Context, name, id string) (bool, error) {
	s := &pgAdvisory{pgSession: pgSession{at: p.at}, run: p.run}
	_, sealed, err := s.Acquire(ctx, name, id, 0)
	if !sealed {
		return false, errors.Join(err, s.Close())
	}
	p.seals = append(p.seals, s)
	return true, nil
}

func (p *pgAdvisory) Close() (err error) {
	for _, s := range p.seals {
		err = errors.Join(err, s.Close())
	}
	err = errors.Join(err, p.pgSession.Close())
	p.conn, p.seals = nil, nil
	return err
}
