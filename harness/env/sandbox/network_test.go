package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	tl := start(t, "network")
	if out := tl.rest(t); out != "" {
		t.Error(out)
	}
	if code := tl.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestHostProcess(t *testing.T) {
	t.Parallel()
	tl := start(t, "process")
	if out := tl.rest(t); out != "" {
		t.Error(out)
	}
	if code := tl.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// tryNetwork runs inside: two hosts, a direct connection, a redirected one.
func tryNetwork() error {
	n, err := NewNetwork()
	if err != nil {
		return err
	}
	defer n.Close()
	a, err := n.AddHost("a", "10.77.0.11")
	if err != nil {
		return err
	}
	b, err := n.AddHost("b", "10.77.0.12")
	if err != nil {
		return err
	}
	for _, bad := range []struct{ name, ip string }{
		{"a", "10.77.0.13"}, {"c", "10.77.0.11"}, {"c", "10.77.0.1"}, {"c", "10.78.0.1"}, {"c", "x"}, {"C", "10.77.0.13"}, {"much-too-long", "10.77.0.13"},
	} {
		if _, err := n.AddHost(bad.name, bad.ip); err == nil {
			return fmt.Errorf("host %v was accepted", bad)
		}
	}
	onB, err := listenOn(b, "10.77.0.12:7000", "b")
	if err != nil {
		return err
	}
	defer onB.Close()
	proxy, err := greet("tcp", Gateway+":0", "proxy")
	if err != nil {
		return err
	}
	defer proxy.Close()

	if err := expect(a, "10.77.0.12:7000", "b"); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	to := netip.MustParseAddrPort(proxy.Addr().String())
	if err := a.Redirect(netip.MustParseAddrPort("10.77.0.12:7000"), to); err != nil {
		return err
	}
	if err := expect(a, "10.77.0.12:7000", "proxy"); err != nil {
		return fmt.Errorf("redirected: %w", err)
	}
	// The rule belongs to one host and one port.
	if err := expect(b, "10.77.0.12:7000", "b"); err != nil {
		return fmt.Errorf("not redirected: %w", err)
	}
	if a.Name() != "a" || a.IP() != "10.77.0.11" {
		return errors.New("host a has another name or address")
	}
	if err := a.Close(); err != nil {
		return err
	}
	if err := a.Do(func() error { return nil }); !errors.Is(err, ErrHostClosed) {
		return fmt.Errorf("Do on a closed host: %v", err)
	}
	// Name and address are free again.
	if _, err := n.AddHost("a", "10.77.0.11"); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	for range 2 {
		if err := n.Close(); err != nil {
			return err
		}
	}
	if _, err := n.AddHost("d", "10.77.0.14"); err == nil {
		return errors.New("a closed network accepts a host")
	}
	return nil
}

// tryProcess runs inside: a process belongs to its host, and dies with it.
func tryProcess() error {
	n, err := NewNetwork()
	if err != nil {
		return err
	}
	defer n.Close()
	h, err := n.AddHost("a", "10.77.0.11")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", "readlink /proc/self/ns/net; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.Start(cmd); err != nil {
		return err
	}
	line := make([]byte, 64)
	k, err := out.Read(line)
	if err != nil {
		return err
	}
	if ns := strings.TrimSpace(string(line[:k])); !strings.HasPrefix(ns, "net:[") || Environ() == insideEnv+"="+ns {
		return fmt.Errorf("the process is in %q, %s", ns, Environ())
	}
	if err := h.Close(); err != nil {
		return err
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		return fmt.Errorf("the process of a closed host ended with %v", err)
	}
	return nil
}

// greet serves connections with a word.
func greet(network, addr, word string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, word)
			c.Close()
		}
	}()
	return l, nil
}

func listenOn(h *Host, addr, word string) (l net.Listener, err error) {
	err = h.Do(func() (err error) {
		l, err = greet("tcp", addr, word)
		return err
	})
	return l, err
}

// expect connects from the host and compares the greeting.
func expect(h *Host, addr, word string) error {
	return h.Do(func() error {
		// DialTimeout would dial on another goroutine, and so in another namespace.
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		b, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		if string(b) != word {
			return fmt.Errorf("%s answers %q, want %q", addr, b, word)
		}
		return nil
	})
}
