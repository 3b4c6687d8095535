package sandbox

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const tableName = "fencepost"

// Redirect sends the host's new TCP connections to dstIP:dstPort to
// toIP:toPort instead (destination NAT on the way out). Connections that are
// open already keep their way, so a redirect belongs before the processes that
// it concerns. It lasts as long as the host.
func (h *Host) Redirect(dstIP string, dstPort int, toIP string, toPort int) error {
	dst, err := ipv4(dstIP, dstPort)
	if err != nil {
		return fmt.Errorf("sandbox: redirect on %s: %w", h.name, err)
	}
	to, err := ipv4(toIP, toPort)
	if err != nil {
		return fmt.Errorf("sandbox: redirect on %s: %w", h.name, err)
	}
	h.nftMu.Lock()
	defer h.nftMu.Unlock()
	conn, err := nftables.New(nftables.WithNetNSFd(int(h.ns)))
	if err != nil {
		return fmt.Errorf("sandbox: redirect on %s: nftables: %w", h.name, err)
	}
	if err := addRedirect(conn, !h.nft, dst, uint16(dstPort), to, uint16(toPort)); err != nil {
		return fmt.Errorf("sandbox: redirect on %s of %s:%d: %w", h.name, dstIP, dstPort, err)
	}
	h.nft = true
	return nil
}

// RedirectHere is [Host.Redirect] for the network namespace that this process is
// in. It needs CAP_NET_ADMIN there; first makes the table that the others join.
func RedirectHere(first bool, dstIP string, dstPort int, toIP string, toPort int) error {
	dst, err := ipv4(dstIP, dstPort)
	if err != nil {
		return fmt.Errorf("sandbox: redirect: %w", err)
	}
	to, err := ipv4(toIP, toPort)
	if err != nil {
		return fmt.Errorf("sandbox: redirect: %w", err)
	}
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("sandbox: redirect: nftables: %w", err)
	}
	if err := addRedirect(conn, first, dst, uint16(dstPort), to, uint16(toPort)); err != nil {
		return fmt.Errorf("sandbox: redirect of %s:%d: %w", dstIP, dstPort, err)
	}
	return nil
}

func addRedirect(conn *nftables.Conn, first bool, dst [4]byte, dstPort uint16, to [4]byte, toPort uint16) error {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	chain := &nftables.Chain{
		Name: "out", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	}
	if first {
		conn.AddTable(table)
		conn.AddChain(chain)
	}
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: dnat(dst, dstPort, to, toPort)})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables NAT rule: %w", err)
	}
	return nil
}

func ipv4(ip string, port int) ([4]byte, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return [4]byte{}, err
	}
	if !a.Is4() || port < 1 || port > 65535 {
		return [4]byte{}, fmt.Errorf("%s:%d is not an IPv4 address and port", ip, port)
	}
	return a.As4(), nil
}

// dnat is `ip daddr DST tcp dport PORT dnat to TO:PORT`.
func dnat(dst [4]byte, dstPort uint16, to [4]byte, toPort uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: dst[:]},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(dstPort)},
		&expr.Immediate{Register: 1, Data: to[:]},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(toPort)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}
}
