package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrHostClosed is returned by a closed host.
var ErrHostClosed = errors.New("sandbox: the host is closed")

// Host is a network namespace with one address. Safe for concurrent use.
type Host struct {
	network *Network
	name    string
	ip      netip.Addr
	ns      netns.NsHandle
	veth    string // the pair's end at the bridge

	work chan func()   // run on the host's thread
	quit chan struct{} // closed by Close
	gone chan struct{} // closed when the thread has ended
	once sync.Once

	nftMu sync.Mutex
	nft   bool // the table exists
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// IP returns the host's address.
func (h *Host) IP() string { return h.ip.String() }

func newHost(n *Network, name string, ip netip.Addr) (*Host, error) {
	h := &Host{network: n, name: name, ip: ip, veth: "fp-" + name,
		work: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	started := make(chan error, 1)
	go h.thread(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("sandbox: host %s: new network namespace: %w", name, err)
	}
	if err := h.connect(); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: host %s: %w", name, err), h.Close())
	}
	return h, nil
}

// thread lives in the host's namespace. Its goroutine never unlocks the OS
// thread, so the thread ends with it: the runtime cannot reuse a thread that is
// in another namespace, and children whose parent-death signal is tied to this
// thread die exactly when the host is closed.
func (h *Host) thread(started chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// This is the process's main thread, which the runtime never ends. While it is
		// locked here, another goroutine is certain to get another thread.
		locked := make(chan error, 1)
		go h.thread(locked)
		started <- <-locked
		runtime.UnlockOSThread()
		return
	}
	defer close(h.gone)
	ns, err := netns.New()
	h.ns = ns
	started <- err
	if err != nil {
		return
	}
	for {
		select {
		case f := <-h.work:
			f()
		case <-h.quit:
			return
		}
	}
}

// Do runs f on the host's own OS thread: sockets that f opens and processes
// that it forks belong to the host. Calls are serialized; f must not block for
// long and must not call Do.
func (h *Host) Do(f func() error) error {
	done := make(chan error, 1)
	select {
	case h.work <- func() { done <- f() }:
		return <-done
	case <-h.quit:
		return fmt.Errorf("%s: %w", h.name, ErrHostClosed)
	}
}

// connect joins the host to the bridge.
func (h *Host) connect() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = h.veth
	attrs.MasterIndex = h.network.bridge.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(h.ns))}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("create veth pair %s: %w", h.veth, err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("%s up: %w", h.veth, err)
	}
	return h.Do(func() error {
		for _, name := range []string{"lo", "eth0"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if name == "eth0" {
				addr, err := netlink.ParseAddr(h.ip.String() + "/24")
				if err != nil {
					return err
				}
				if err := netlink.AddrAdd(l, addr); err != nil {
					return fmt.Errorf("address of eth0: %w", err)
				}
			}
			if err := netlink.LinkSetUp(l); err != nil {
				return fmt.Errorf("%s up: %w", name, err)
			}
		}
		return nil
	})
}

// Start starts cmd in the host's network namespace. Unless cmd says otherwise,
// the process is killed when the host is closed or the tool dies.
func (h *Host) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	return h.Do(cmd.Start)
}

// Close kills the host's processes (unless they were started with another
// parent-death signal) and removes the host. It is idempotent.
func (h *Host) Close() error {
	var err error
	h.once.Do(func() {
		close(h.quit)
		<-h.gone
		h.network.forget(h.name)
		if l, lerr := netlink.LinkByName(h.veth); lerr == nil {
			err = netlink.LinkDel(l)
		}
		err = errors.Join(err, h.ns.Close())
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	})
	return err
}
