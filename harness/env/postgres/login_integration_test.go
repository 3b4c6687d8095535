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
	"testing"
	"time"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/harness/env/osproc"
)

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
