package cassandra

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gocql/gocql"
)

// hostDialer opens every connection of a session: control, discovery, pool and
// reconnects. It looks at the node's IP only. The port in the driver's host
// record cannot be used: for the control host it is taken from the connection's
// remote address, which behind a proxy is the proxy's.
type hostDialer struct{ cfg Config }

func (d *hostDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	ip := host.ConnectAddress().String()
	conn, err := d.dial(ctx, ip)
	if err != nil {
		return nil, err
	}
	if _, ok := conn.RemoteAddr().(*net.TCPAddr); !ok {
		conn.Close()
		return nil, fmt.Errorf("cassandra: the connection to %s has a remote address of type %T; the driver needs TCP", ip, conn.RemoteAddr())
	}
	return gocql.WrapTLS(ctx, conn, net.JoinHostPort(ip, strconv.Itoa(d.cfg.Port)), d.cfg.TLSFor(ip))
}

func (d *hostDialer) dial(ctx context.Context, ip string) (net.Conn, error) {
	if d.cfg.Dial != nil {
		return d.cfg.Dial(ctx, ip)
	}
	var nd net.Dialer
	return nd.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(d.cfg.Port)))
}
