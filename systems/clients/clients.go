// Package clients connects to the stores as locks and schedulers here do.
package clients

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fencepost/systems/drive"
)

// NATSReplicas is how many servers have each entry.
const NATSReplicas = 3

// JetStream is a connection to one of the servers, which goes to another if that one is lost.
func JetStream(at drive.Place) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect("nats://"+strings.Join(at.Nodes, ",nats://"),
		nats.IgnoreDiscoveredServers(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.Timeout(time.Second), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// startTime is for how long JetStream may not answer while it elects leaders.
const startTime = 20 * time.Second

// Settled asks JetStream until it answers. Right after a start, and after a stream is made, a server drops a request
// about a stream whose leader it does not know yet.
func Settled[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		got, err := ask(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return got, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Postgres is a connection string with all servers: the driver takes the first that takes writes.
func Postgres(at drive.Place) (string, error) {
	_ = os.Unsetenv("PGPASSWORD") // a person's own would count for more than the file
	var hosts, ports []string
	for _, node := range at.Nodes {
		host, port, err := net.SplitHostPort(node)
		if err != nil {
			return "", err
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	passfile := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(at.Secret)
	return fmt.Sprintf("host=%s port=%s user=fencepost dbname=fencepost passfile='%s' sslmode=disable target_session_attrs=read-write",
		strings.Join(hosts, ","), strings.Join(ports, ","), passfile), nil
}
