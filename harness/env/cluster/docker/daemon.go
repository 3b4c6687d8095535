package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// askTimeout bounds asking the daemon whether it is there.
const askTimeout = 10 * time.Second

// quiet keeps testcontainers from talking, and from starting its reaper: see the
// package's documentation. It reads both once, before its first work.
var quiet = sync.OnceValue(func() error {
	tclog.SetDefault(tclog.NewNoopLogger())
	return os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
})

// Check asks the daemon whether containers can run here, and says which it is. The
// error is a *[DaemonError].
func Check(ctx context.Context) (string, error) {
	cli, err := connect(ctx)
	if err != nil {
		return "", err
	}
	defer cli.Close()
	v, err := cli.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", daemonError(cli.DaemonHost(), err)
	}
	return fmt.Sprintf("daemon %s at %s, API %s", v.Version, cli.DaemonHost(), cli.ClientVersion()), nil
}

// connect finds the daemon where testcontainers does.
func connect(ctx context.Context) (*client.Client, error) {
	if err := quiet(); err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Asked first without testcontainers, whose search hides why a place was not taken.
	first, err := client.New(client.FromEnv)
	if err != nil {
		return nil, daemonError(os.Getenv("DOCKER_HOST"), err)
	}
	firstErr := ask(ctx, first)
	host := first.DaemonHost()
	first.Close()
	cli, err := tc.NewDockerClientWithOpts(ctx)
	if err != nil {
		if firstErr != nil {
			err = firstErr
		}
		return nil, daemonError(host, err)
	}
	if err := ask(ctx, cli.Client); err != nil {
		cli.Close()
		return nil, daemonError(cli.DaemonHost(), err)
	}
	return cli.Client, nil
}

// ask says hello and agrees on a version of the API.
func ask(ctx context.Context, cli *client.Client) error {
	_, err := cli.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	return err
}
