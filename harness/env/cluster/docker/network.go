package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"fencepost/harness/env/sandbox"
)

// firstNode is the last number of n1's address, as in the local backend.
const firstNode = 11

// bridge is the cluster's own network.
type bridge struct {
	name    string
	subnet  netip.Prefix
	gateway netip.Addr
	ips     []string
}

// makeBridge makes a bridge network with addresses for the nodes. Only in a range that
// was asked for may addresses be fixed; which range is free, the daemon knows best: it
// is let choose one, and then asked for that one by name.
func makeBridge(ctx context.Context, cli *client.Client, name string, labels map[string]string) (*bridge, error) {
	const tries = 5 // another's network may take the range in between
	var last error
	for range tries {
		chosen, err := cli.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge", Labels: labels})
		if err != nil {
			return nil, fmt.Errorf("docker: create network: %w", err)
		}
		seen, err := cli.NetworkInspect(ctx, chosen.ID, client.NetworkInspectOptions{})
		if err != nil {
			return nil, fmt.Errorf("docker: inspect network: %w", err)
		}
		if _, err := cli.NetworkRemove(ctx, chosen.ID, client.NetworkRemoveOptions{}); err != nil {
			return nil, fmt.Errorf("docker: remove network: %w", err)
		}
		b, err := plan(name, seen.Network.IPAM.Config)
		if err != nil {
			return nil, err
		}
		_, last = cli.NetworkCreate(ctx, name, client.NetworkCreateOptions{
			Driver: "bridge", Labels: labels,
			IPAM: &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{Subnet: b.subnet, Gateway: b.gateway}}},
		})
		if last == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("docker: create network: %w", last)
}

// plan gives out the addresses of a range.
func plan(name string, ranges []network.IPAMConfig) (*bridge, error) {
	if len(ranges) == 0 || !ranges[0].Subnet.Addr().Is4() || ranges[0].Subnet.Bits() > 27 {
		return nil, fmt.Errorf("docker: the daemon gave network %s the ranges %v, want one of IPv4 with room for %d nodes: see default-address-pools in its configuration", name, ranges, nodes)
	}
	subnet := ranges[0].Subnet.Masked()
	b := &bridge{name: name, subnet: subnet, gateway: ranges[0].Gateway}
	ip := subnet.Addr()
	if !b.gateway.IsValid() {
		b.gateway = ip.Next()
	}
	for range firstNode {
		ip = ip.Next()
	}
	for range nodes {
		if ip == b.gateway {
			ip = ip.Next()
		}
		b.ips = append(b.ips, ip.String())
		ip = ip.Next()
	}
	return b, nil
}

const (
	// holdEnv tells this program that it is a holder, and which redirects to make.
	holdEnv = "FENCEPOST_DOCKER_HOLD"
	// holding is what it prints when they are made.
	holding = "fencepost: redirects are made"
	// holdPath is where the program is in the holder.
	holdPath = "/fencepost-hold"
)

// redirect turns connections to To to Proxy.
type redirect struct {
	To    netip.AddrPort `json:"to"`
	Proxy netip.AddrPort `json:"proxy"`
}

// Init must be called first in main: in a node's holder it never returns.
func Init() {
	if text := os.Getenv(holdEnv); text != "" && os.Args[0] == holdPath {
		os.Exit(hold(text))
	}
}

// hold makes the redirects and keeps the network namespace until it is told to end.
func hold(text string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	var redirects []redirect
	if err := json.Unmarshal([]byte(text), &redirects); err != nil {
		fmt.Println(err)
		return 1
	}
	for i, r := range redirects {
		if err := sandbox.RedirectHere(i == 0, r.To, r.Proxy); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println(holding)
	<-ended
	return 0
}
