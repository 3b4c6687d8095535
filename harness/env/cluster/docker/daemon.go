package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
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

// DaemonError says that no Docker daemon can be used.
type DaemonError struct {
	Host   string // where it was sought
	Err    error
	Remedy string
}

func (e *DaemonError) Error() string {
	return fmt.Sprintf("no Docker daemon can be used at %s: %v: %s", e.Host, e.Err, e.Remedy)
}

func (e *DaemonError) Unwrap() error { return e.Err }

// daemonError finds the remedy for what the client said.
func daemonError(host string, err error) *DaemonError {
	e := &DaemonError{Host: host, Err: err}
	msg := err.Error()
	switch {
	case errors.Is(err, os.ErrPermission) || strings.Contains(msg, "permission denied"):
		e.Err = errors.New("permission denied")
		e.Remedy = "run as root, or join the group that owns the socket (sudo usermod -aG docker $USER, then log in again)"
	case errors.Is(err, os.ErrNotExist) || strings.Contains(msg, "no such file"):
		e.Err = errors.New("there is no such socket")
		e.Remedy = "install Docker and start its daemon, or set DOCKER_HOST to where it listens"
	case errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(msg, "connection refused") || strings.Contains(msg, "Cannot connect to the Docker daemon"):
		e.Err = errors.New("nobody listens there")
		e.Remedy = "start the daemon (sudo systemctl start docker)"
	case strings.Contains(msg, "minimum supported API version") || strings.Contains(msg, "is too old"):
		e.Remedy = "Docker 19.03 or newer is needed (API 1.40)"
	case strings.Contains(msg, "is too new"):
		e.Remedy = "unset DOCKER_API_VERSION, or set it to what the daemon speaks"
	default:
		e.Remedy = "is the daemon running? `docker version` asks it the same way; DOCKER_HOST says where it is"
	}
	var op *net.OpError
	if errors.As(e.Err, &op) {
		e.Err = op.Err
	}
	return e
}

// ImageError says that the nodes' image is missing and could not be pulled.
type ImageError struct {
	Image string
	Err   error
}

func (e *ImageError) Error() string {
	return fmt.Sprintf("docker: image %s is not here and could not be pulled: %v: is the network there, and is the name right? "+
		"Without a network, bring it with docker save and docker load, or name one that is here (--image=IMAGE, %s)", e.Image, e.Err, ImageEnv)
}

func (e *ImageError) Unwrap() error { return e.Err }

// GatewayError says that the containers' bridge is not on this machine.
type GatewayError struct {
	Gateway string
	Err     error
}

func (e *GatewayError) Error() string {
	return fmt.Sprintf("docker: the gateway of the containers' network, %s, is not an address of this machine: %v: links must listen there, "+
		"so the daemon must run its containers right here (not in Docker Desktop's machine, not rootless, not elsewhere, and this tool not in a container "+
		"with a network of its own); in all these cases compose/Dockerfile.lab runs everything in one container (docs/docker.md)", e.Gateway, e.Err)
}

func (e *GatewayError) Unwrap() error { return e.Err }

// HolderError says that the redirects into the links could not be made.
type HolderError struct {
	Node string
	Err  error
	Log  string // what the holder printed
}

func (e *HolderError) Error() string {
	msg := fmt.Sprintf("docker: no redirects of %s's connections into the links: %v", e.Node, e.Err)
	if e.Log != "" {
		msg += ": " + e.Log
	}
	return msg + ": the daemon must allow a container CAP_NET_ADMIN, and the kernel must know nftables with NAT (modprobe nft_chain_nat); " +
		"CLUSTER=local needs no Docker"
}

func (e *HolderError) Unwrap() error { return e.Err }

// LinksError says that nodes talk past the links, or not at all.
type LinksError struct {
	Silent  []string // the links that carried nothing
	Gateway string   // where they listen
	Subnet  string   // where the containers are
}

func (e *LinksError) Error() string {
	return fmt.Sprintf("docker: all nodes answer, but nothing has come through the links %s, so cutting them would show nothing: "+
		"does a firewall keep containers from reaching this machine at %s? (with ufw: sudo ufw allow in from %s)", strings.Join(e.Silent, ", "), e.Gateway, e.Subnet)
}
