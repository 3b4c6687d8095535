package scheduler

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"fencepost/core/store/cassandra"
)

func config(points ...string) Config {
	c := Config{Database: cassandra.Config{ContactPoints: points, Keyspace: "k"}}
	c.Engine.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return c
}

// TestCluster: a local data centre decides alone, and has the replicas.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := config("10.0.0.1")
	cfg, replicas, err := c.cluster(t.Context())
	if err != nil || cfg.Serial != "" || replicas.Factor != 3 {
		t.Errorf("%+v, %+v, %v", cfg, replicas, err)
	}
	c.Database.LocalDC, c.Replicas = "dc1", 2
	cfg, replicas, err = c.cluster(t.Context())
	if err != nil || cfg.Serial != cassandra.LocalSerial || cfg.Consistency != cassandra.LocalQuorum || fmt.Sprint(replicas.DCs) != "map[dc1:2]" {
		t.Errorf("%+v, %+v, %v", cfg, replicas, err)
	}
}

// TestListen: others are told the address by which this machine reaches Cassandra, with the
// listener's port, unless another one is advertised.
func TestListen(t *testing.T) {
	t.Parallel()
	c := config("127.0.0.1")
	cfg, _, _ := c.cluster(t.Context())
	l, at, err := c.listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if at != "127.0.0.1:"+port {
		t.Errorf("%s, listening at %s", at, l.Addr())
	}
	c.Listen, c.Advertise = l.Addr().String(), "a.example:80"
	if _, _, err := c.listen(cfg); err == nil || !strings.Contains(err.Error(), "cannot be served") {
		t.Errorf("at a port that is taken: %v", err)
	}
	c.Listen = "127.0.0.1:0"
	l2, at, err := c.listen(cfg)
	if err != nil || at != "a.example:80" {
		t.Errorf("%s, %v", at, err)
	}
	_ = l2.Close()
	c.NoPeers = true
	if l, at, err := c.listen(cfg); l != nil || at != "" || err != nil {
		t.Errorf("%v at %q, %v", l, at, err)
	}
}

// TestOpenFails: what is wrong is said, and nothing stays behind.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	unreachable := config("127.0.0.1")
	unreachable.Database.Port = 1
	for want, c := range map[string]Config{"no contact point": config(), "nobody.invalid": config("nobody.invalid"), "127.0.0.1": unreachable} {
		if s, err := Open(t.Context(), c); err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
