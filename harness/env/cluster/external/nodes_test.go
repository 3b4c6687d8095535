package external

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/login"
	"fencepost/harness/env/sandbox"
)

func TestContactPoints(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		host string
		port int
	}{
		"10.0.0.1": {"10.0.0.1", 9042}, "db.example:9142": {"db.example", 9142}, "::1": {"::1", 9042}, "[::1]:9999": {"::1", 9999}, "[::1]": {"::1", 9042},
		"": {}, ":9042": {}, "a:b": {}, "a:0": {}, "a:70000": {}, "a:b:c": {}, "user@host": {}, "a b": {}, "http://a": {},
	} {
		host, port, err := ParseContactPoint(in)
		if host != want.host || port != want.port || (err == nil) != (want.host != "") {
			t.Errorf("%q: %q, %d, %v", in, host, port, err)
		}
	}
}

func TestNodesAreChecked(t *testing.T) {
	t.Parallel()
	at := func(id, ip, version string) member {
		return member{NodeInfo: cassandra.NodeInfo{ID: id, IP: ip, Version: version}, addr: ip + ":9042"}
	}
	sorted := []member{at("c", "10.0.0.10", "5.0.6"), at("a", "10.0.0.9", "4.0"), at("b", "9.0.0.1", "5.1-beta")}
	must(t, check(sorted))
	if got := sorted[0].ID + sorted[1].ID + sorted[2].ID; got != "bac" {
		t.Errorf("order %s: addresses are not in their order", got)
	}
	for name, c := range map[string]struct {
		members []member
		want    string
	}{
		"none":         {nil, "no node"},
		"old":          {[]member{at("a", "10.0.0.1", "3.11.19")}, "it runs Cassandra 3.11.19\n  remedy: fencepost needs Cassandra 4.0"},
		"odd":          {[]member{at("a", "10.0.0.1", "")}, "it runs Cassandra"},
		"no address":   {[]member{at("a", "", "5.0")}, "announces no address"},
		"same address": {[]member{at("a", "10.0.0.1", "5.0"), at("b", "10.0.0.1", "5.0")}, "the same address"},
	} {
		if err := check(c.members); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestDatacenter(t *testing.T) {
	t.Parallel()
	two := []cassandra.NodeInfo{{DC: "b"}, {DC: "a"}}
	for name, c := range map[string]struct {
		want, told string
		peers      []cassandra.NodeInfo
		err        string
	}{
		"the only one": {"a", "", []cassandra.NodeInfo{{DC: "a"}}, ""},
		"one of two":   {"b", "b", two, ""},
		"not said":     {"", "", two, "several data centres: a, b"},
		"unknown":      {"", "c", two, `no data centre "c"`},
	} {
		got, err := Config{Login: login.Login{LocalDC: c.told}}.datacenter(map[string]member{"x": {NodeInfo: cassandra.NodeInfo{DC: "a"}}}, c.peers)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// serve answers every connection by f and returns the address.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// TestNoCassandra: what a port says that is not a node's of the kind expected.
func TestNoCassandra(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	key, cert := ca.issueUntil(t, "node", "127.0.0.1", time.Now().Add(-time.Minute))
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	expired := func(c net.Conn) { _ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake() }
	hangUp := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }
	text := func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_, _ = c.Read(make([]byte, 1000))
	}
	secure := login.Login{TLS: &login.TLS{CA: ca.pem}}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		login login.Login
		want  string
	}{
		"an expired certificate":     {expired, secure, "its certificate does not hold"},
		"no TLS there":               {text, secure, "does not speak TLS"},
		"hangs up":                   {hangUp, login.Login{}, "does not answer in the native protocol"},
		"hangs up before TLS":        {hangUp, secure, "before TLS is agreed on"},
		"something else than a node": {text, login.Login{}, "127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Connect(t.Context(), Config{ContactPoints: []string{serve(t, c.serve)}, Login: c.login, ConnectTimeout: time.Second})
			var e *Error
			if !errors.As(err, &e) || e.Remedy == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestNodesCannotBeBroken(t *testing.T) {
	t.Parallel()
	var n cluster.Node = &node{name: "n1"}
	for name, f := range map[string]func(context.Context) error{"kill": n.Kill, "pause": n.Pause, "resume": n.Resume, "stop": n.Stop, "start": n.Start} {
		if err := f(t.Context()); !errors.Is(err, cluster.ErrState) || !strings.Contains(err.Error(), "cannot "+name+" n1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n.State() != cluster.Running || n.PID() != 0 || n.LogFile() != "" || n.ProcessState() != "" {
		t.Error("a node of others has no process here")
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	has := func(c *Cluster, word string) bool { return strings.Contains(strings.Join(c.notes, "\n"), word) }
	c := &Cluster{info: map[string]string{}, nodes: []*node{{}, {}, {}}, login: login.Login{Username: "u"}}
	c.judge(map[string][]string{paxosVariant: {"v2"}, commitlogSync: {"batch"}})
	if len(c.notes) != 1 || c.info["paxos_variant"] != "v2" || c.info["commit_log"] != "batch" {
		t.Errorf("a sound cluster: %q, %v", c.notes, c.info)
	}
	c = &Cluster{info: map[string]string{}, nodes: []*node{{}}, login: login.Login{Username: "u"}}
	c.judge(map[string][]string{paxosVariant: {""}, commitlogSync: {"periodic"}})
	if !has(c, "Paxos variant is not known") || !has(c, GrantSettings("u")) || !has(c, "periodic") || !has(c, "1 of the usual three") || c.info["paxos_variant"] != "" {
		t.Errorf("%q, %v", c.notes, c.info)
	}
	c = &Cluster{info: map[string]string{}, nodes: []*node{{}, {}, {}}}
	c.judge(map[string][]string{paxosVariant: {cluster.PaxosV2UnsafeReads}, commitlogSync: {"batch"}})
	if !has(c, "gives up linearizable reads") {
		t.Errorf("%q", c.notes)
	}
	c = &Cluster{info: map[string]string{}, nodes: []*node{{}, {}, {}}}
	c.judge(map[string][]string{paxosVariant: {"v1", "v2"}, commitlogSync: {"batch", "periodic"}})
	if !has(c, "differ in their Paxos variant (v1, v2)") || !has(c, "commitlog_sync is periodic") {
		t.Errorf("%q", c.notes)
	}
}

// TestGrantsOfTheDocs: the statements that are carried out by the integration test are
// those that the page tells.
func TestGrantsOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/external-cluster.md")
	must(t, err)
	for _, want := range []string{Grant("fencepost"), GrantSettings("fencepost")} {
		if !strings.Contains(string(page), "\n"+want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestGrantsAreQuoted(t *testing.T) {
	t.Parallel()
	if got, want := Grant(`a"b`), `GRANT CREATE ON ALL KEYSPACES TO "a""b";`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMain(m *testing.M) {
	sandbox.Init()
	goleak.VerifyTestMain(m)
}

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	draft := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, draft, draft, a.key.Public(), a.key)
	must(t, err)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// issueUntil returns a key and a certificate, for an address if it is given.
func (a *authority) issueUntil(t *testing.T, name, ip string, until time.Time) (key, cert []byte) {
	t.Helper()
	own := newKey(t)
	draft := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip != "" {
		draft.IPAddresses = []net.IP{net.ParseIP(ip)}
	}
	der, err := x509.CreateCertificate(rand.Reader, draft, a.cert, own.Public(), a.key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
