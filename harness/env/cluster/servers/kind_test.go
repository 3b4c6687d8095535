package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKindsAreComplete: every row says all that a run asks of it.
func TestKindsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{Cassandra: true}
	for _, k := range kinds {
		if seen[k.Name] || k.About == "" || k.Servers < 1 || k.Port == 0 || !strings.HasPrefix(k.Fetch, "scripts/fetch-store ") {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
		if k.Find == nil || k.Hello == nil || len(k.Hello(0)) == 0 || k.Ready == nil || k.Read == nil || !strings.HasPrefix(k.ReadAs, "a") || k.Leader == nil || (k.Args == nil) == (k.Lay == nil) {
			t.Errorf("%s lacks something", k.Name)
		}
		// Servers that agree with each other go on without a minority, and a server can tell that
		// it is in one; those that do not know of each other cannot.
		if quorum := len(k.Peers) > 0 && k.Spare > 0; quorum != (k.NoQuorum != nil) || quorum && k.Spare != (k.Servers-1)/2 {
			t.Errorf("%s: %d of %d servers may be gone, and who says so: %v", k.Name, k.Spare, k.Servers, k.NoQuorum != nil)
		}
		// What a fault needs is there, or why there is none.
		for what, c := range map[string]struct {
			has bool
			why string
		}{"a clock": {k.Now != nil, k.Cannot.ServerClock}, "a role": {k.Role != nil, k.Cannot.Promote}, "a promotion": {k.Promote != nil, k.Cannot.Promote}} {
			if c.has == (c.why != "") {
				t.Errorf("%s has %s: %t, and cannot have it: %q", k.Name, what, c.has, c.why)
			}
		}
		if (k.Mark == nil) != (k.Marked == nil) || k.Mark == nil && k.Promote != nil || k.Lay != nil && k.Cannot.LoseData == "" && k.Name != redisPostgres.Name {
			t.Errorf("%s: its servers cannot show, or cannot make good, what they lost", k.Name)
		}
		if found, err := Of(k.Name); err != nil || found.Name != k.Name {
			t.Errorf("Of(%s): %s, %v", k.Name, found.Name, err)
		}
	}
	for _, name := range []string{"", Cassandra, "Redis", "consul"} {
		if _, err := Of(name); err == nil || !strings.Contains(err.Error(), "etcd") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestConfigurations: a server is given its own addresses and the others', and no route to itself.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	s := Site{IPs: []string{"10.77.0.11", "10.77.0.12", "10.77.0.13"}, Dirs: []string{"/d/n1", "/d/n2", "/d/n3"}, Port: natsPort}
	conf := nats.Files(s, 1)[natsConf]
	if !strings.Contains(conf, "routes: [nats-route://10.77.0.11:6222, nats-route://10.77.0.13:6222]") || !strings.Contains(conf, "sync_interval: always") {
		t.Errorf("%s", conf)
	}
	s.Port = etcdPort
	if args := strings.Join(etcd.Args(s, 2), " "); !strings.Contains(args, "--name n3 ") || !strings.Contains(args, "--listen-peer-urls http://10.77.0.13:2380") ||
		!strings.Contains(args, "--initial-cluster n1=http://10.77.0.11:2380,n2=http://10.77.0.12:2380,n3=http://10.77.0.13:2380 ") {
		t.Errorf("%s", args)
	}
	if conf := temporal.Files(s, 1)[temporalConf]; strings.Contains(conf, "{ip}") || strings.Contains(conf, "{file}") || strings.Count(conf, "10.77.0.12") != 7 || !strings.Contains(conf, `"/d/n2/data/temporal.db"`) {
		t.Errorf("%s", conf)
	}
	zoo := zookeeper.Files(s, 2)
	if zoo["data/myid"] != "3\n" || !strings.Contains(zoo[zooConf], "server.1=10.77.0.11:2888:3888\n") || !strings.Contains(zoo[zooConf], "dataDir=/d/n3/data\n") {
		t.Errorf("%q", zoo)
	}
	if args := strings.Join(redisReplica.Args(s, 1), " "); !strings.HasSuffix(args, "--replicaof 10.77.0.11 6379") || strings.Contains(strings.Join(redisReplica.Args(s, 0), " "), "replicaof") {
		t.Errorf("%s", args)
	}
	s.Primary = 1 // promoted
	if args := strings.Join(redisReplica.Args(s, 0), " "); !strings.HasSuffix(args, "--replicaof 10.77.0.12 6379") || strings.Contains(strings.Join(redisReplica.Args(s, 1), " "), "replicaof") {
		t.Errorf("%s", args)
	}
}

// TestRedisPostgres: each server is asked as one of its own store, and the database loses no data.
func TestRedisPostgres(t *testing.T) {
	t.Parallel()
	if c := (&Cluster{Kind: redisPostgres, Site: Site{IPs: []string{"10.77.0.11", "10.77.0.12"}}}); string(c.Hello("10.77.0.11")) != string(redis.Hello(0)) || string(c.Hello("10.77.0.12")) != string(postgresOne.Hello(0)) {
		t.Errorf("%q and %q", c.Hello("10.77.0.11"), c.Hello("10.77.0.12"))
	}
	if c := (&Cluster{Kind: redis, Site: Site{IPs: []string{"10.77.0.11"}}}); string(c.Hello("10.77.0.11")) != string(redis.Hello(0)) {
		t.Errorf("%q", c.Hello("10.77.0.11"))
	}
	s := Site{IPs: []string{"10.77.0.11", "10.77.0.12"}, Dirs: []string{"/d/n1", "/d/n2"}, Port: redisPostgres.Port}
	if args := strings.Join(redis.Args(s, 0), " "); !strings.Contains(args, "--port 5432 ") {
		t.Error(args)
	}
	if _, err := redisPostgres.Mark(t.Context(), s, 1, "k"); err == nil || !strings.Contains(err.Error(), "initdb") {
		t.Errorf("the database is to lose its data: %v", err)
	}
	site := siteOf(t, "+OK\r\n")
	if taken, err := redisPostgres.Mark(t.Context(), site, 0, "k"); err != nil || !taken {
		t.Errorf("%t, %v", taken, err)
	}
}

// siteOf is a site with one server, which answers once.
func siteOf(t *testing.T, answer string) Site {
	t.Helper()
	host, port, err := net.SplitHostPort(answering(t, answer))
	must(t, err)
	n, err := strconv.Atoi(port)
	must(t, err)
	return Site{IPs: []string{host}, Port: n}
}

// TestRedisSays: what a server says of itself, of its clock and of keys; what is no answer is an error.
func TestRedisSays(t *testing.T) {
	t.Parallel()
	info := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	for _, c := range []struct {
		answer string
		want   Role
		ok     bool
	}{
		{info("# Replication\r\nrole:master\r\nconnected_slaves:1\r\n"), Role{Primary: true, Text: "role:master"}, true},
		{info("role:slave\r\nmaster_host:h\r\nmaster_link_status:up\r\n"), Role{InSync: true, Text: "role:slave master_link_status:up"}, true},
		{info("role:slave\r\nmaster_link_status:down\r\n"), Role{Text: "role:slave master_link_status:down"}, true},
		{"-LOADING Redis is loading\r\n", Role{}, false},
	} {
		got, err := redisReplica.Role(t.Context(), siteOf(t, c.answer), 0)
		if (err == nil) != c.ok || err == nil && got != c.want {
			t.Errorf("%q: %+v, %v", c.answer, got, err)
		}
	}
	now, err := redis.Now(t.Context(), siteOf(t, "*2\r\n$10\r\n1700000000\r\n$6\r\n250000\r\n"), 0)
	if err != nil || !now.Equal(time.UnixMilli(1700000000250)) {
		t.Errorf("%s, %v", now, err)
	}
	for _, answer := range []string{"-LOADING Redis is loading\r\n", "*2\r\n$10\r\n1700000000\r\n", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"} {
		if _, err := redis.Now(t.Context(), siteOf(t, answer), 0); err == nil {
			t.Errorf("%q is a time", answer)
		}
	}
	for answer, want := range map[string]bool{"+OK\r\n": true, "-READONLY You can't write against a read only replica.\r\n": false} {
		if taken, err := redis.Mark(t.Context(), siteOf(t, answer), 0, "k"); err != nil || taken != want {
			t.Errorf("%q: %t, %v", answer, taken, err)
		}
	}
	if _, err := redis.Mark(t.Context(), siteOf(t, "-MISCONF no disk\r\n"), 0, "k"); err == nil {
		t.Error("a refusal for another reason is none")
	}
	for answer, want := range map[string]bool{":1\r\n": true, ":0\r\n": false} {
		if there, err := redis.Marked(t.Context(), siteOf(t, answer), 0, "k"); err != nil || there != want {
			t.Errorf("%q: %t, %v", answer, there, err)
		}
	}
	if _, err := redis.Marked(t.Context(), siteOf(t, "-LOADING\r\n"), 0, "k"); err == nil {
		t.Error("no answer is one")
	}
}

// answering listens once and answers with text; it returns where.
func answering(t *testing.T, text string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		_, err = conn.Read(make([]byte, 4096))
		if err == nil {
			_, err = conn.Write([]byte(text))
		}
		done <- errors.Join(err, conn.Close())
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// TestAsk: the first line of an answer, of INFO what it holds.
func TestAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, answer, want string }{
		{"PING", "+PONG\r\n", "+PONG"},
		{"GET fencepost", "$-1\r\n", "$-1"},
		{"GET fencepost", "-LOADING Redis is loading\r\n", "-LOADING Redis is loading"},
		{"INFO replication", "$28\r\n# Replication\r\nrole:master\r\n\r\n", "# Replication\r\nrole:master\r\n"},
	} {
		got, err := ask(t.Context(), answering(t, c.answer), c.command)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.command, got, err, c.want)
		}
	}
	if _, err := ask(t.Context(), answering(t, "$100\r\nhalf"), "INFO replication"); err == nil {
		t.Error("half an answer is one")
	}
}

// TestNATSAnswers: only what a server itself says of its quorum counts as that.
func TestNATSAnswers(t *testing.T) {
	t.Parallel()
	info := "INFO {}\r\nPING\r\n"
	for _, c := range []struct {
		answer       string
		ok, noQuorum bool
	}{
		{info + "MSG _INBOX.fencepost 1 28\r\n{\"stream\":\"FENCEPOST\",\"x\":1}\r\n", true, false},
		{info + "MSG _INBOX.fencepost 1 79\r\n{\"error\":{\"code\":503,\"description\":\"JetStream system temporarily unavailable\"}}\r\n", false, true},
		{info + "MSG _INBOX.fencepost 1 51\r\n{\"error\":{\"code\":400,\"description\":\"bad request\"}} \r\n", false, false},
		{info + "HMSG _INBOX.fencepost 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", false, true},
		{info + "-ERR 'Unknown'\r\n", false, false},
		{info, false, false},
	} {
		err := natsAsk(t.Context(), answering(t, c.answer), "any", "{}")
		if (err == nil) != c.ok || nats.NoQuorum(err) != c.noQuorum {
			t.Errorf("%q: %v, no quorum: %v", c.answer, err, nats.NoQuorum(err))
		}
	}
}

// TestMissing: what is not there is named, with what to do.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etcd", "nats", "temporal", "zookeeper"} {
		k, err := Of(name)
		must(t, err)
		if _, err := k.Find(t.Context(), t.TempDir()); err == nil {
			t.Errorf("%s is found in an empty directory", name)
		}
		_, err = Start(context.Background(), nil, k, Config{CacheDir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), "run scripts/fetch-store "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := findFaketime(etcd, t.TempDir()); err == nil || !strings.Contains(err.Error(), inGo) {
		t.Errorf("a clock that cannot be set: %v", err)
	}
	if _, err := os.Stat("../../../../scripts/fetch-store"); err != nil {
		t.Error(err)
	}
}
