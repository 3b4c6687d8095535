package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

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
