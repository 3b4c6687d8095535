//go:build integration

package external

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/login"
	"fencepost/harness/env/sandbox"
)

const insideEnv = "FENCEPOST_EXTERNAL_TEST_INSIDE"

// password is a role's: nothing may show it.
const (
	user     = "tester"
	password = "s3cret-enough-to-find"
)

// TestLocalClusterSecured meets one node that wants TLS, a client's certificate, a login
// and permissions: each thing that is wrong has its own error, and with all of them
// right the tool makes a run.
func TestLocalClusterSecured(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if sandbox.Inside() {
			t.Skip("needs a sandbox of its own, and this is inside one: run it outside")
		}
		if err := sandbox.Available(); err != nil {
			t.Skipf("this machine cannot run the sandbox: %v", err)
		}
		t.Setenv(insideEnv, "1")
		code, err := sandbox.Run(t.Context(), []string{"-test.run=^" + t.Name() + "$", "-test.v=true", "-test.timeout=6m"})
		if err != nil || code != 0 {
			t.Errorf("inside the sandbox: exit code %d, %v", code, err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	dir := t.TempDir()
	ca, other := newAuthority(t), newAuthority(t)
	const ip = "10.77.0.11"
	nodeKey, nodeCert := ca.issue(t, "node", ip)
	ownKey, ownCert := ca.issue(t, "client", "")
	keystore, truststore := write(t, dir, "node.pem", append(slices.Clone(nodeKey), nodeCert...)), write(t, dir, "ca.pem", ca.pem)
	right := login.TLS{CA: ca.pem, Cert: ownCert, Key: ownKey}
	network, err := sandbox.NewNetwork()
	must(t, err)
	t.Cleanup(func() { network.Close() })
	local, err := cluster.StartLocal(ctx, network, cluster.LocalConfig{
		Layout: cluster.Layout{1}, Auth: true, LogDir: t.TempDir(), Progress: func(s string) { t.Log(s) },
		ClientTLS: &cluster.ClientTLS{Keystore: keystore, Truststore: truststore, Own: right},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := local.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the cluster is there after %s", time.Since(began))

	super := superuser(ctx, t, ip, right)
	apply := func(cql string) {
		t.Helper()
		if err := super.Exec(ctx, cql); err != nil {
			t.Fatalf("%s: %v", cql, err)
		}
	}
	apply("CREATE KEYSPACE theirs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	apply("CREATE ROLE " + user + " WITH PASSWORD = '" + password + "' AND LOGIN = true")

	config := func(change func(*Config)) Config {
		own := right
		c := Config{ContactPoints: []string{ip}, Login: login.Login{Username: user, Password: password, TLS: &own}}
		change(&c)
		return c
	}
	refused := func(t *testing.T, c Config, problem, remedy string) {
		t.Helper()
		got, err := Connect(ctx, c)
		if err == nil {
			got.Close(ctx)
		}
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), problem) || !strings.Contains(e.Remedy, remedy) {
			t.Fatalf("%v\nwant %q with the remedy %q", err, problem, remedy)
		}
		if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "wrong-one") {
			t.Errorf("the error shows the password: %v", err)
		}
		t.Log(err)
	}
	for _, c := range []struct {
		name            string
		change          func(*Config)
		problem, remedy string
	}{
		{"unreachable", func(c *Config) { c.ContactPoints = []string{ip + ":9999"} }, "10.77.0.11:9999: it cannot be reached", "check host and port"},
		{"no TLS", func(c *Config) { c.Login.TLS = nil }, "does not answer in the native protocol", "--tls"},
		{"wrong authority", func(c *Config) { c.Login.TLS.CA = other.pem }, "authority that is not trusted", "--tls-ca"},
		{"wrong name", func(c *Config) { c.Login.TLS.ServerName = "elsewhere.example" }, "for another name", "--tls-server-name"},
		{"no client certificate", func(c *Config) { c.Login.TLS.Cert, c.Login.TLS.Key = nil, nil }, "refuses the TLS connection", "--tls-cert"},
		{"no login", func(c *Config) { c.Login.Username, c.Login.Password = "", "" }, "asks for a login", "--username"},
		{"wrong password", func(c *Config) { c.Login.Password = "wrong-one" }, "refuses user " + user, "--password-file"},
		{"no such data centre", func(c *Config) { c.Login.LocalDC = "mars" }, `no data centre "mars"`, "datacenter1"},
		{"no permission", func(*Config) {}, "create a keyspace: user " + user + " may not", Grant(user)},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, config(c.change), c.problem, c.remedy) })
	}
	if t.Failed() {
		return
	}

	t.Run("schedulerd", func(t *testing.T) { schedulerd(ctx, t, super, ip, truststore, dir, ownCert, ownKey, other) })
	if t.Failed() {
		return
	}

	// The remedy is what it says.
	apply(strings.TrimSuffix(Grant(user), ";"))
	apply(strings.TrimSuffix(GrantSettings(user), ";"))
	before := keyspaces(ctx, t, super)
	var c *Cluster
	for { // permissions are cached, for 2 s
		c, err = Connect(ctx, config(func(*Config) {}))
		if err == nil {
			break
		}
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), "may not do that") || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitHealthy(ctx); err != nil {
		t.Error(err)
	}
	t.Log(c.Info(), c.Access().Notes)
	for _, n := range c.Access().Notes {
		if strings.Contains(n, "is not known") {
			t.Errorf("a setting was not read although it may be: %s", n)
		}
	}
	if c.Info()["paxos_variant"] != cluster.PaxosV2 || c.Info()["commit_log"] != cluster.CommitLogBatch {
		t.Errorf("settings: %v", c.Info())
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	if after := keyspaces(ctx, t, super); !slices.Equal(before, after) {
		t.Errorf("keyspaces before %v, after %v", before, after)
	}
	t.Run("behind a translation of addresses", func(t *testing.T) {
		addr, conns := forward(t, ip+":9042")
		c, err := Connect(ctx, config(func(c *Config) { c.ContactPoints, c.Login.TLS.ServerName = []string{addr}, ip }))
		must(t, err)
		defer c.Close(ctx)
		if n := c.Nodes()[0]; n.IP() != ip || c.Addr(n.Name()) != addr {
			t.Errorf("%s at %s, want %s at %s", n.IP(), c.Addr(n.Name()), ip, addr)
		}
		before := conns.Load()
		if err := c.WaitHealthy(ctx); err != nil {
			t.Error(err)
		}
		if before < 3 { // discovery, schema, probes
			t.Errorf("%d connections came by the other address", before)
		}
	})
	t.Logf("connections: %s", time.Since(began))

	tlsFiles := []string{"--tls", "--tls-ca=" + truststore, "--tls-cert=" + write(t, dir, "cert.pem", ownCert), "--tls-key=" + write(t, dir, "key.pem", ownKey)}
	run(ctx, t, append([]string{"chaos", "kill-worker", "--seed=1", "--duration=3s", "--cluster=external", "--contact-points=" + ip, "--username=" + user}, tlsFiles...))
	if after := keyspaces(ctx, t, super); !slices.Equal(before, after) {
		t.Errorf("keyspaces before the run %v, after it %v", before, after)
	}
	t.Logf("all: %s", time.Since(began))
}

// schedulerd is refused by the same cluster, each time with the remedy, and runs with it.
func schedulerd(ctx context.Context, t *testing.T, super *cassandra.DB, ip, ca, dir string, cert, key []byte, other *authority) {
	role, other2 := "runner", write(t, dir, "other.pem", other.pem)
	apply := func(cql string) {
		t.Helper()
		if err := super.Exec(ctx, cql); err != nil {
			t.Fatalf("%s: %v", cql, err)
		}
	}
	apply("CREATE ROLE " + role + " WITH PASSWORD = '" + password + "' AND LOGIN = true")
	env := func(more ...string) []string {
		return append([]string{"CASSANDRA_CONTACT_POINT=" + ip, "CASSANDRA_KEYSPACE=daemon", "CASSANDRA_REPLICATION_FACTOR=1", "CASSANDRA_USERNAME=" + role, "CASSANDRA_PASSWORD=" + password,
			"CASSANDRA_TLS=true", "CASSANDRA_TLS_CA=" + ca, "CASSANDRA_TLS_CERT=" + write(t, dir, "runner.pem", cert), "CASSANDRA_TLS_KEY=" + write(t, dir, "runner-key.pem", key)}, more...)
	}
	do := func(wait time.Duration, env []string, args ...string) (int, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "..", "bin", "schedulerd"), args...)
		cmd.Env, cmd.WaitDelay = append(os.Environ(), env...), 20*time.Second
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		out, _ := cmd.CombinedOutput()
		if bytes.Contains(out, []byte(password)) || bytes.Contains(out, []byte("wrong-one")) {
			t.Errorf("it shows the password: %s", out)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	refused := func(env []string, want string, args ...string) {
		t.Helper()
		code, out := do(30*time.Second, env, args...)
		if _, said, _ := strings.Cut(out, "schedulerd: "); code != 1 || !strings.Contains(said, want) {
			t.Errorf("exit code %d, want 1 and %q: %s", code, want, out)
		} else {
			t.Log(strings.TrimSpace(said))
		}
	}
	refused(env("CASSANDRA_PASSWORD=wrong-one"), "see CASSANDRA_USERNAME and CASSANDRA_PASSWORD_FILE")
	refused(env("CASSANDRA_USERNAME=", "CASSANDRA_PASSWORD="), "it wants a login: set CASSANDRA_USERNAME")
	refused(env("CASSANDRA_TLS_CA="+other2), "an authority that is not trusted: name the file")
	refused(env("CASSANDRA_TLS_SERVER_NAME=elsewhere.example"), "CASSANDRA_TLS_SERVER_NAME")
	refused(env("CASSANDRA_TLS_CERT=", "CASSANDRA_TLS_KEY="), "CASSANDRA_TLS_CERT and CASSANDRA_TLS_KEY")
	refused(append(env("CASSANDRA_TLS=", "CASSANDRA_TLS_CA=", "CASSANDRA_TLS_CERT=", "CASSANDRA_TLS_KEY="), "x=y"), "it may want TLS (CASSANDRA_TLS=true)")
	refused(env(), "the role runner lacks a permission", "migrate")
	// Somebody else migrates; the role may read only; then it gets what the remedy says.
	if code, out := do(time.Minute, env("CASSANDRA_USERNAME="+cluster.Superuser, "CASSANDRA_PASSWORD="+cluster.Superuser), "migrate"); code != 0 {
		t.Fatalf("migrate: exit code %d: %s", code, out)
	}
	defer apply("DROP KEYSPACE daemon")
	apply("GRANT SELECT ON KEYSPACE daemon TO " + role)
	time.Sleep(3 * time.Second) // permissions are cached, for 2 s
	refused(env(), "GRANT MODIFY ON KEYSPACE daemon TO runner")
	apply("GRANT MODIFY ON KEYSPACE daemon TO " + role)
	time.Sleep(3 * time.Second)
	if code, out := do(5*time.Second, env()); code != 0 || !strings.Contains(out, "it serves") || !strings.Contains(out, "scheduler stopped") {
		t.Errorf("with all permissions: exit code %d: %s", code, out)
	}
}

// run makes a run by the tool, which must be PASS and show its password nowhere.
func run(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	runs := t.TempDir()
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "..", "bin", "fencepost"), append(args, "--runs="+runs)...)
	cmd.Env = append(os.Environ(), PasswordEnv+"="+password)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Fatalf("the run: %v", err)
	}
	files := 0
	err = filepath.WalkDir(runs, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || d.Type()&os.ModeSymlink != 0 {
			return nil
		}
		files++
		for _, secret := range []string{password, "PRIVATE KEY"} {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s shows %q", path, secret)
			}
		}
		return err
	})
	if err != nil || files < 5 || bytes.Contains(out, []byte(password)) {
		t.Errorf("%d files, %v; or the output shows the password", files, err)
	}
}

// forward passes connections on to addr, as a translation of addresses does, and
// counts them.
func forward(t *testing.T, addr string) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var conns atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			wg.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer out.Close()
				wg.Go(func() { io.Copy(out, in); out.Close() })
				io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String(), &conns
}

func superuser(ctx context.Context, t *testing.T, ip string, own login.TLS) *cassandra.DB {
	t.Helper()
	cfg := cassandra.Config{ContactPoints: []string{ip}, RequestTimeout: 30 * time.Second}
	must(t, (login.Login{Username: cluster.Superuser, Password: cluster.Superuser, TLS: &own}).Apply(&cfg))
	db, err := cassandra.Open(ctx, cfg)
	must(t, err)
	t.Cleanup(db.Close)
	return db
}

func keyspaces(ctx context.Context, t *testing.T, db *cassandra.DB) []string {
	t.Helper()
	rows, err := db.Query(ctx, false, "SELECT keyspace_name FROM system_schema.keyspaces")
	must(t, err)
	var out []string
	for _, r := range rows {
		out = append(out, r["keyspace_name"].(string))
	}
	slices.Sort(out)
	return out
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.WriteFile(path, b, 0o600))
	return path
}

// issue is issueUntil for an hour.
func (a *authority) issue(t *testing.T, name, ip string) (key, cert []byte) {
	t.Helper()
	return a.issueUntil(t, name, ip, time.Now().Add(time.Hour))
}
