package link

import (
	"fmt"
	"io"
	"net"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
)

var ways = []string{"direct", "toxiproxy", "link"}

// BenchmarkRTT is a request and an answer of 64 bytes: the price of a link is
// the difference to direct, of which most is that of any Toxiproxy.
func BenchmarkRTT(b *testing.B) {
	for _, way := range ways {
		b.Run(way, func(b *testing.B) {
			c := benchConn(b, way, echo)
			buf := make([]byte, 64)
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBulk is one way, in writes of 32 KiB.
func BenchmarkBulk(b *testing.B) {
	for _, way := range ways {
		b.Run(way, func(b *testing.B) {
			done := make(chan struct{})
			c := benchConn(b, way, func(c *net.TCPConn) {
				defer close(done)
				_, _ = io.Copy(onlyWriter{io.Discard}, c)
			})
			buf := make([]byte, 32<<10)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.CloseWrite(); err != nil {
				b.Fatal(err)
			}
			<-done
		})
	}
}

// BenchmarkSet60 switches sixty links with a connection each.
func BenchmarkSet60(b *testing.B) {
	up := handle(b, echo)
	f := newFabric(b, Options{})
	for i := range 60 {
		c := dial(b, addLink(b, f, fmt.Sprintf("w%d", i), "n1", up))
		_, err := c.Write([]byte("x"))
		must(b, err)
		expectOn(b, c, "x")
	}
	links := f.All()
	modes := []Mode{{Kind: Stall}, {Kind: Pass}}
	i := 0
	for b.Loop() {
		must(b, f.SetBoth(b.Context(), links, modes[i%2]))
		i++
	}
}

type onlyWriter struct{ io.Writer }

func benchConn(b *testing.B, way string, f func(*net.TCPConn)) *net.TCPConn {
	b.Helper()
	addr := handle(b, f)
	switch way {
	case "link":
		addr = addLink(b, newFabric(b, Options{}), "w1", "n1", addr).Addr()
	case "toxiproxy": // as it comes
		p := toxiproxy.NewProxy(NewFabric(Options{}).server, "bare", "127.0.0.1:0", addr)
		must(b, p.Start())
		b.Cleanup(p.Stop)
		addr = p.Listen
	}
	c, err := net.Dial("tcp", addr)
	must(b, err)
	b.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}
