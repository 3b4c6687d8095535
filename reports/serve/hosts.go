package serve

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// hosts says which Host a request may name. A web page can have a name of its own
// resolve to this machine (DNS rebinding) and would then be of the same origin; it
// cannot make its name an address or "localhost".
type hosts struct {
	names map[string]bool // in lower case
	// any address, not loopback's alone
	any bool
}

// hostsOf returns what is allowed where listen is listened at, as host:port.
func hostsOf(listen string) (hosts, error) {
	h := hosts{names: map[string]bool{"localhost": true}}
	if listen == "" || Loopback(listen) {
		return h, nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return h, fmt.Errorf("listen address: %w", err)
	}
	h.any = true
	if host != "" {
		h.names[strings.ToLower(host)] = true
	}
	if name, err := os.Hostname(); err == nil {
		h.names[strings.ToLower(name)] = true
	}
	return h, nil
}

// Loopback says that only this machine can reach a listen address.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (h hosts) allow(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if h.names[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (h.any || ip.IsLoopback())
}
