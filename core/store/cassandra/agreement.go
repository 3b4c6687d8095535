package cassandra

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// AgreementError is a keyspace whose processes agree in another way: conditional writes
// of the two would not see each other, and a lock would have two holders with one token.
// Found is "" if nobody has settled yet how they agree.
type AgreementError struct{ Keyspace, Found, Own string }

func (e *AgreementError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("cassandra: nobody has settled how the processes of keyspace %s agree, and this one would by %s: call Prepare or Migrate first (schedulerd migrate), which settle it for all of them", e.Keyspace, e.Own)
	}
	return fmt.Sprintf("cassandra: the processes of keyspace %s agree by %s, and this one would by %s: their conditional writes would not see each other; give all of them the same local data centre, or none", e.Keyspace, e.Found, e.Own)
}

// agreement is by which quorum conditional writes are decided.
func (c Config) agreement() string {
	if c.Serial == LocalSerial {
		return LocalSerial + " in " + c.LocalDC
	}
	return c.Serial
}

// unsettledFor is for how long a session of a keyspace without a settled agreement, made
// by an older program, goes on before it looks again.
const unsettledFor = 10 * time.Second

// domain makes sure, before the first conditional request of a session, that the
// keyspace's processes agree as this one does. That this is not part of Open costs no
// availability: a conditional request needs the same nodes.
type domain struct {
	keyspace, own string
	now           func() time.Time

	mu      sync.Mutex
	settled bool
	until   time.Time
}

func newDomain(cfg Config) *domain {
	return &domain{keyspace: cfg.Keyspace, own: cfg.agreement(), now: time.Now}
}

// check compares what look finds. What is found was decided by all data centres and never
// changes, so that to find it near by is enough; to find nothing near by proves nothing,
// as the write may not have come here yet: then all data centres are asked.
func (d *domain) check(look func(everywhere bool) (string, error)) error {
	d.mu.Lock()
	known := d.keyspace == "" || d.settled || d.now().Before(d.until)
	d.mu.Unlock()
	if known {
		return nil
	}
	found, err := look(false)
	if err == nil && found == "" {
		found, err = look(true)
	}
	switch {
	case err != nil:
		return &store.Error{Op: "look how keyspace " + d.keyspace + " agrees", Outcome: store.Fail, Permanent: store.IsPermanent(err), Cause: err}
	case found == "" && d.own == Serial:
		// A keyspace of an older program, which settled nothing. Another agreement than
		// the default needs a Prepare.
	case found != d.own:
		return &store.Error{Op: "look how keyspace " + d.keyspace + " agrees", Outcome: store.Fail, Permanent: true,
			Cause: &AgreementError{d.keyspace, found, d.own}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled, d.until = found != "", d.now().Add(unsettledFor)
	return nil
}

const readAgreement = "SELECT value FROM settings WHERE name = '" + settingAgreement + "'"

// agreed makes sure that conditional requests may be sent.
func (db *DB) agreed(ctx context.Context, copyNo int) error {
	return db.domain.check(func(everywhere bool) (string, error) {
		cons, name := db.cfg.consistency(), db.cfg.Consistency
		if everywhere {
			cons, name = gocql.Consistency(gocql.Serial), Serial
		}
		rows, err := db.query(ctx, copyNo, cons, name, store.Statement{CQL: readAgreement, Partition: []any{settingAgreement}})
		if code(err) == gocql.ErrCodeInvalid {
			return "", nil // no such table: an older program made the keyspace
		}
		if err != nil || len(rows) == 0 {
			return "", err
		}
		value, _ := rows[0]["value"].(string)
		return value, nil
	})
}

// setOnce writes a setting unless it is there, and returns what it is then.
func (db *DB) setOnce(ctx context.Context, keyspace, name, value string) (string, error) {
	applied, rows, err := db.CAS(ctx, 0, store.Statement{CQL: "INSERT INTO " + keyspace + ".settings (name, value) VALUES (?, ?) IF NOT EXISTS", Args: []any{name, value}, Partition: []any{name}})
	switch {
	case err != nil:
		return "", err
	case applied:
		return value, nil
	case len(rows) == 1:
		if is, _ := rows[0]["value"].(string); is != "" {
			return is, nil
		}
	}
	return "", malformed("set "+name, rows)
}
