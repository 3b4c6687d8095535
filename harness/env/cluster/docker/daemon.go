package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
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

// pullEvery is how often the progress of a pull is told.
const pullEvery = 2 * time.Second

// ensureImage pulls the image if it is not here, and says so.
func ensureImage(ctx context.Context, cli *client.Client, image string, say func(string)) error {
	_, err := cli.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("docker: image %s: %w", image, err)
	}
	say(fmt.Sprintf("pulling %s …", image))
	began := time.Now()
	resp, err := cli.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return &ImageError{Image: image, Err: err}
	}
	p := pull{layers: map[string]layer{}}
	told := began
	for m, err := range resp.JSONMessages(ctx) {
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return &ImageError{Image: image, Err: err}
		}
		if m.Progress != nil && m.Status == "Downloading" {
			p.layers[m.ID] = layer{m.Progress.Current, m.Progress.Total}
		} else if l, ok := p.layers[m.ID]; ok && m.Status == "Download complete" {
			p.layers[m.ID] = layer{l.total, l.total}
		}
		if time.Since(told) >= pullEvery {
			told = time.Now()
			say(fmt.Sprintf("pulling %s: %s", image, p))
		}
	}
	say(fmt.Sprintf("pulled %s in %.0f s", image, time.Since(began).Seconds()))
	return nil
}

type layer struct{ done, total int64 }

// pull is how far the layers of an image are.
type pull struct{ layers map[string]layer }

func (p pull) String() string {
	var sum layer
	for _, l := range p.layers {
		sum.done += l.done
		sum.total += l.total
	}
	return fmt.Sprintf("%d of %d MB in %d layers", sum.done/1e6, sum.total/1e6, len(p.layers))
}
