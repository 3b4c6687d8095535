package link

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// BenchmarkRTT is a request and an answer of 64 bytes: the price of a link is
// the difference of its two variants.
func BenchmarkRTT(b *testing.B) {
	for _, proxied := range []bool{false, true} {
		b.Run(fmt.Sprintf("link=%v", proxied), func(b *testing.B) {
			c := benchConn(b, proxied, echo)
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
	for _, proxied := range []bool{false, true} {
		b.Run(fmt.Sprintf("link=%v", proxied), func(b *testing.B) {
			done := make(chan struct{})
			c := benchConn(b, proxied, func(c *net.TCPConn) {
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

func benchConn(b *testing.B, proxied bool, f func(*net.TCPConn)) *net.TCPConn {
	b.Helper()
	addr := handle(b, f)
	if proxied {
		addr = addLink(b, newFabric(b, Options{}), "w1", "n1", addr).Addr()
	}
	c, err := net.Dial("tcp", addr)
	must(b, err)
	b.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}
