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
	"syscall"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := postgressink.Migrate(context.Background(), pool); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sink"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(osproc.ServiceIP)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "sink.crt"), filepath.Join(dir, "sink.key")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
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
	// As the server's administrator would: the role that programs log in as may not.
	conf := filepath.Join(w.server.Dir, dataName, "postgresql.auto.conf")
	w.must(os.WriteFile(conf, []byte("synchronous_standby_names = '"+names+"'\n"), 0o600))
	w.must(syscall.Kill(w.server.PID(), syscall.SIGHUP))
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
