package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// Gateway is the bridge's address: the tool's own listeners are reached
	// there from every host.
	Gateway = "10.77.0.1"
	// Subnet holds the bridge and all hosts.
	Subnet = "10.77.0.0/24"

	bridgeName = "fp0"
)

// hostName bounds a host's name: it becomes part of an interface's name, which
// the kernel limits to 15 bytes.
var hostName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,10}$`)

// Network is the sandbox's bridge and its hosts. Safe for concurrent use.
type Network struct {
	mu     sync.Mutex
	bridge *netlink.Bridge
	hosts  map[string]*Host
	closed bool
}

// NewNetwork creates the bridge 10.77.0.1/24 and brings the loopback interface
// up. Outside the sandbox it fails with [ErrOutside] and changes nothing.
func NewNetwork() (*Network, error) {
	if !Inside() {
		return nil, ErrOutside
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("sandbox: loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, fmt.Errorf("sandbox: loopback up: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	n := &Network{bridge: &netlink.Bridge{LinkAttrs: attrs}, hosts: map[string]*Host{}}
	if err := netlink.LinkAdd(n.bridge); err != nil {
		return nil, fmt.Errorf("sandbox: create bridge %s: %w", bridgeName, err)
	}
	if err := n.configureBridge(); err != nil {
		return nil, errors.Join(err, netlink.LinkDel(n.bridge))
	}
	return n, nil
}

func (n *Network) configureBridge() error {
	addr, err := netlink.ParseAddr(Gateway + "/24")
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := netlink.AddrAdd(n.bridge, addr); err != nil {
		return fmt.Errorf("sandbox: address of bridge: %w", err)
	}
	if err := netlink.LinkSetUp(n.bridge); err != nil {
		return fmt.Errorf("sandbox: bridge up: %w", err)
	}
	return nil
}

// AddHost creates a host with that address (a free one of [Subnet]) on the
// bridge. The name must be unique: a letter, then at most ten letters, digits
// or dashes.
func (n *Network) AddHost(name, ip string) (*Host, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, fmt.Errorf("sandbox: host %s: %w", name, err)
	}
	if !hostName.MatchString(name) {
		return nil, fmt.Errorf("sandbox: host name %q: want a letter and up to ten letters, digits or dashes, in lower case", name)
	}
	if !netip.MustParsePrefix(Subnet).Contains(addr) || ip == Gateway {
		return nil, fmt.Errorf("sandbox: host %s: address %s is not a free one of %s", name, ip, Subnet)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("sandbox: the network is closed")
	}
	for _, h := range n.hosts {
		if h.name == name || h.ip == addr {
			return nil, fmt.Errorf("sandbox: host %s (%s): %s (%s) exists already", name, ip, h.name, h.ip)
		}
	}
	h, err := newHost(n, name, addr)
	if err != nil {
		return nil, err
	}
	n.hosts[name] = h
	return h, nil
}

// Close removes all hosts, which kills the processes started on them, and the
// bridge. It is idempotent.
func (n *Network) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	hosts := make([]*Host, 0, len(n.hosts))
	for _, h := range n.hosts {
		hosts = append(hosts, h)
	}
	n.mu.Unlock()
	var errs []error
	for _, h := range hosts {
		errs = append(errs, h.Close())
	}
	if err := netlink.LinkDel(n.bridge); err != nil {
		errs = append(errs, fmt.Errorf("sandbox: remove bridge: %w", err))
	}
	return errors.Join(errs...)
}

func (n *Network) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.hosts, name)
}

const tableName = "fencepost"

// Redirect sends the host's new TCP connections to dst to another address instead
// (destination NAT on the way out). Connections that are open already keep their way, so a
// redirect belongs before the processes that it concerns. It lasts as long as the host.
func (h *Host) Redirect(dst, to netip.AddrPort) error {
	h.nftMu.Lock()
	defer h.nftMu.Unlock()
	if err := redirect(!h.nft, dst, to, nftables.WithNetNSFd(int(h.ns))); err != nil {
		return fmt.Errorf("sandbox: redirect on %s of %s: %w", h.name, dst, err)
	}
	h.nft = true
	return nil
}

// RedirectHere is [Host.Redirect] for the network namespace that this process is
// in. It needs CAP_NET_ADMIN there; first makes the table that the others join.
func RedirectHere(first bool, dst, to netip.AddrPort) error {
	if err := redirect(first, dst, to); err != nil {
		return fmt.Errorf("sandbox: redirect of %s: %w", dst, err)
	}
	return nil
}

func redirect(first bool, dst, to netip.AddrPort, where ...nftables.ConnOption) error {
	for _, a := range []netip.AddrPort{dst, to} {
		if !a.Addr().Is4() || a.Port() == 0 {
			return fmt.Errorf("%s is not an IPv4 address and port", a)
		}
	}
	conn, err := nftables.New(where...)
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	chain := &nftables.Chain{
		Name: "out", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	}
	if first {
		conn.AddTable(table)
		conn.AddChain(chain)
	}
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: dnat(dst, to)})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables NAT rule: %w", err)
	}
	return nil
}

// dnat is `ip daddr DST tcp dport PORT dnat to TO:PORT`.
func dnat(dst, to netip.AddrPort) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: dst.Addr().AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(dst.Port())},
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}
}
