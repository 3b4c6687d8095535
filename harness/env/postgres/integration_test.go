//go:build integration

package postgres

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// start starts a server that ends with the test.
func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Log: filepath.Join(t.TempDir(), "postgres.log"), Ended: func(l *history.ProcessLife) {
		if wrong := l.Unplanned(); wrong != "" {
			t.Error(wrong)
		}
	}})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect opens a pool by an address of the server or of a link to it.
func connect(t *testing.T, s *Server, addr string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), ConnString(addr, s.Secret))
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// TestConformance runs the suite with one sink for all calls, and with one a call, as by
// several processes.
func TestConformance(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := start(t)
	t.Logf("%s: start %s", s.Program.Version, time.Since(began))
	pool, other := connect(t, s, s.Addr()), connect(t, s, s.Addr())
	must(t, postgressink.Migrate(context.Background(), pool))
	one := postgressink.New(pool, postgressink.Options{})
	t.Run("all", func(t *testing.T) {
		t.Run("one sink", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "one", func(*testing.T) sink.Sink { return one })
		})
		t.Run("two sinks in turns", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "turns", func(*testing.T) sink.Sink {
				return sinktest.Turns(one, postgressink.New(other, postgressink.Options{}))
			})
		})
	})
}

// certificate writes a key and a certificate of the server, which is its own authority.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sink"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(osproc.ServiceIP)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	cert, key = filepath.Join(dir, "sink.crt"), filepath.Join(dir, "sink.key")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(b), 0o600))
	}
	return cert, key
}

// TestConnectionString: login and TLS are what the connection string says, and what is
// wrong is told at once.
func TestConnectionString(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cert, key := certificate(t, w.server.Dir)
	conf, err := os.OpenFile(filepath.Join(w.server.Dir, dataName, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	w.must(err)
	_, err = conf.WriteString("ssl = on\nssl_cert_file = '" + cert + "'\nssl_key_file = '" + key + "'\n")
	w.must(errors.Join(err, conf.Close()))
	w.must(w.server.Kill(context.Background()))
	w.must(w.server.Start(w.ctx()))
	w.direct.Reset() // its connections were to the server that was killed
	w.exec(`CREATE SCHEMA bare`)
	good := ConnString(w.server.Addr(), w.server.Secret)
	tls := strings.Replace(good, "sslmode=disable", "sslmode=verify-full&sslrootcert="+cert, 1)
	other, _ := certificate(t, t.TempDir())
	for name, c := range map[string]struct{ conn, err string }{
		"no TLS":              {good, ""},
		"TLS":                 {tls, ""},
		"another authority":   {strings.Replace(tls, cert, other, 1), "certificate"},
		"a wrong password":    {strings.Replace(good, Role+"@", Role+":wrong@", 1), "password authentication failed"},
		"no such database":    {strings.Replace(good, "/"+Database, "/other", 1), "other"},
		"no tables":           {good + "&search_path=bare", "postgressink.Migrate"},
		"nobody listens":      {strings.Replace(good, w.server.Addr(), osproc.ServiceIP+":1", 1), "connection refused"},
		"not a string at all": {"postgres://%zz", "parse"},
	} {
		ctx, cancel := context.WithTimeout(w.ctx(), 20*time.Second)
		s, err := postgressink.Open(ctx, c.conn, postgressink.Options{})
		if err == nil {
			w.answered(sink.Applied)(s.Raise(ctx, "login "+name, issuer, 1))
			s.Close()
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		cancel()
	}
	var over bool
	w.must(connect(t, w.server, w.server.Addr()).QueryRow(w.ctx(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&over))
	if over {
		t.Error("TLS although it was switched off: the look for it proves nothing")
	}
	// Who may create nothing can go on with what is there.
	if w.server.Program.Major >= 15 { // the schema is not postgres's own
		w.exec(`REVOKE CREATE ON SCHEMA public FROM pg_database_owner`)
	}
	w.must(postgressink.Migrate(w.ctx(), w.direct))
	w.exec(`UPDATE fencepost_sink_version SET version = 99`)
	var schema *postgressink.SchemaError
	if _, err := postgressink.Open(w.ctx(), good, postgressink.Options{}); !errors.As(err, &schema) || schema.Found != 99 {
		t.Errorf("a newer schema: %v", err)
	}
	if err := postgressink.Migrate(w.ctx(), w.direct); !errors.As(err, &schema) || schema.Found != 99 {
		t.Errorf("a newer schema: %v", err)
	}
}

// short bounds a call that must not be answered.
const short = 3 * time.Second

// standbys sets who must have a commit before it is acknowledged, and waits until that holds.
func (w *world) standbys(names string) {
	w.Helper()
	w.must(Configure(w.server.Service, "synchronous_standby_names", names))
	for {
		ctx, cancel := context.WithTimeout(w.ctx(), short/10)
		_, err := w.direct.Exec(ctx, `SELECT pg_logical_emit_message(true, 'probe', '')`)
		cancel()
		if (err == nil) == (names == "") {
			return
		}
	}
}

// TestStandbyAway: what no standby has is shown to nobody, also if the wait of the one that
// wrote it was cancelled: a fail-over would take back what was read.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := postgressink.New(w.direct, postgressink.Options{RequestTimeout: short / 3})
	w.answered(sink.Applied)(one.Raise(w.ctx(), "r", issuer, 1))
	w.standbys("away")
	bounded := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(w.ctx(), short)
		defer cancel()
		return call(ctx)
	}
	err := bounded(func(ctx context.Context) error {
		_, err := one.Accept(ctx, "r", issuer, 2, effect("k"))
		return err
	})
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("an effect that no standby has: %v", err)
	}
	err = bounded(func(ctx context.Context) error {
		_, err := one.ApplyTx(ctx, "impatient", issuer, 1, effect("k"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '100ms'`)
			return err
		})
		return err
	})
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("an effect that no standby has, with a statement_timeout that is over: %v", err)
	}
	if err := bounded(func(ctx context.Context) error {
		st, err := one.Read(ctx, "r", "k")
		if err == nil {
			t.Errorf("read: %+v", st)
		}
		return err
	}); store.OutcomeOf(err) != store.Fail {
		t.Errorf("Read: %v", err)
	}
	if err := bounded(func(ctx context.Context) error { _, err := one.Ledger(ctx, "r"); return err }); err == nil {
		t.Error("the ledger was read")
	}
	w.standbys("")
	if st, err := one.Read(w.ctx(), "r", "k"); err != nil || st.Applied["k"] != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestSlowFunction: a function that takes longer than a try may is an error, soon.
func TestSlowFunction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := postgressink.New(w.direct, postgressink.Options{RequestTimeout: time.Second})
	for name, apply := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"in the database": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		},
		"elsewhere": func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return nil
		},
	} {
		calls := 0
		a, err := s.ApplyTx(w.ctx(), name, issuer, 1, effect("k"), func(ctx context.Context, tx pgx.Tx) error {
			calls++
			return apply(ctx, tx)
		})
		if !errors.Is(err, postgressink.ErrSlow) || sink.OutcomeOf(a, err) != store.Fail || calls != 2 {
			t.Errorf("%s: %+v, %v after %d calls", name, a, err, calls)
		}
		w.answered(sink.Applied)(s.ApplyTx(w.ctx(), name, issuer, 1, effect("k"), func(context.Context, pgx.Tx) error { return nil }))
	}
}

// outside is a sink that decides outside of the transaction in which it writes: on what
// it read before, and on the parts of it that are named.
type outside struct {
	*postgressink.Sink
	pool         *pgxpool.Pool
	tokens, keys bool
}

func (s outside) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	st, err := s.Read(ctx, resource, e.Key)
	if err != nil {
		return sink.Answer{}, err
	}
	if first, known := st.Applied[e.Key]; known && s.keys {
		return sink.Answer{Result: sink.Duplicate, FirstToken: first, Seen: st.Seen, Seq: st.Seq}, nil
	}
	if s.tokens && token < st.Seen {
		return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
	}
	time.Sleep(20 * time.Millisecond) // what lies between a look and a write
	a := sink.Answer{Result: sink.Applied, FirstToken: token}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `INSERT INTO fencepost_sink AS s VALUES ($1, $2, $3, 1, $4, '')
			ON CONFLICT (resource) DO UPDATE SET last_seq = s.last_seq + 1, highest = greatest(s.highest, $3), value = $4
			RETURNING last_seq, highest`, resource, issuer, token, e.Value).Scan(&a.Seq, &a.Seen)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `INSERT INTO fencepost_sink_ledger VALUES ($1, $2, 'accept', $3, $4, $5, $6, now())`, resource, a.Seq, issuer, token, e.Key, e.Value); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO fencepost_sink_keys VALUES ($1, $2, $3, $4, '', gen_random_uuid(), now()) ON CONFLICT DO NOTHING`, resource, e.Key, token, a.Seq)
		return err
	})
	return a, err
}

// failures counts those of one case.
type failures struct{ n atomic.Int64 }

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n.Add(1) }

// TestSuiteFindsBroken: each of them fails the case that is about its mistake.
func TestSuiteFindsBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		sink outside
		by   string
	}{
		"no token check":                        {outside{keys: true}, "a lower token than the highest seen is stale"},
		"no key check":                          {outside{tokens: true}, "an applied key answers duplicate, whatever the token"},
		"the checks are not in the transaction": {outside{tokens: true, keys: true}, "of many accepts of one key one is applied"},
	} {
		c.sink.Sink, c.sink.pool = w.near, w.direct
		found := false
		for _, rule := range sinktest.Cases() {
			if rule.Name != c.by {
				continue
			}
			var f failures
			rule.Run(w.ctx(), &f, c.sink, name)
			found = f.n.Load() > 0
		}
		if !found {
			t.Errorf("%s: the case %q passes, or there is none", name, c.by)
		}
	}
}
