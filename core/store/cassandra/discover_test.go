package cassandra

import (
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
)

func TestNodeInfo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  map[string]any
		ip   string
		port int
	}{
		"a peer":                {map[string]any{"peer": "10.0.0.1", "native_address": "192.168.0.1", "native_port": 9142}, "192.168.0.1", 9142},
		"an old peer":           {map[string]any{"peer": "10.0.0.1", "rpc_address": "192.168.0.1"}, "192.168.0.1", 0},
		"itself":                {map[string]any{"broadcast_address": "10.0.0.1", "rpc_address": "192.168.0.1", "rpc_port": 9042}, "192.168.0.1", 9042},
		"itself, at any":        {map[string]any{"broadcast_address": "10.0.0.1", "rpc_address": "0.0.0.0"}, "10.0.0.1", 0},
		"written another way":   {map[string]any{"rpc_address": "::ffff:192.168.0.1"}, "192.168.0.1", 0},
		"that tells no address": {map[string]any{"rpc_address": nil, "native_port": 0}, "", 0},
	} {
		c.row["host_id"], c.row["data_center"] = "id", "dc"
		n := nodeInfo(c.row)
		if n.IP != c.ip || n.Port != c.port || n.ID != "id" || n.DC != "dc" {
			t.Errorf("%s: %+v, want %s:%d", name, n, c.ip, c.port)
		}
	}
}

func TestTLSFor(t *testing.T) {
	t.Parallel()
	if c := (Config{}).TLSFor("10.0.0.1"); c != nil {
		t.Error("TLS although there is none")
	}
	c := Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, TLSNames: map[string]string{"10.0.0.1": "a.example"}}
	for ip, want := range map[string]string{"10.0.0.1": "a.example", "10.0.0.2": "10.0.0.2"} {
		if got := c.TLSFor(ip).ServerName; got != want {
			t.Errorf("%s: name %q, want %q", ip, got, want)
		}
	}
	c.TLS.ServerName = "all.example"
	if got := c.TLSFor("10.0.0.1").ServerName; got != "all.example" {
		t.Errorf("name %q", got)
	}
}

func TestNeedsLogin(t *testing.T) {
	t.Parallel()
	err := errors.New(`authentication required (using "org.apache.cassandra.auth.PasswordAuthenticator")`)
	if !NeedsLogin(fmt.Errorf("connect: %w", err)) || NeedsLogin(errors.New("no route")) || NeedsLogin(nil) {
		t.Error("the driver's error for a missing login is not told from others")
	}
	if Refused(err) != Other || Refused(nil) != Other {
		t.Error("what no server said is no refusal")
	}
}
