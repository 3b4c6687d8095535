package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// File descriptors that init inherits, see supervise.
const (
	lifelineFD = 3
	statusFD   = 4
)

// Init must be called first in main, before flags are read or goroutines are
// started. In a re-executed stage it does that stage's work and never returns;
// else it returns at once.
func Init() {
	stage := os.Getenv(stageEnv)
	if stage == "" {
		return
	}
	if os.Getpid() != 1 {
		// Somebody exported the variable: running on as an ordinary process
		// would hide that the sandbox is missing.
		fmt.Fprintf(os.Stderr, "%s=%s is set, but this is not process 1 of a sandbox: unset it\n", stageEnv, stage)
		os.Exit(70)
	}
	os.Unsetenv(stageEnv)
	os.Exit(initMain(stage))
}

// Inside reports whether this process runs in a sandbox made by [Run], in its
// main network namespace.
func Inside() bool {
	want := os.Getenv(insideEnv)
	if want == "" {
		return false
	}
	have, err := os.Readlink("/proc/self/ns/net")
	return err == nil && have == want
}

// Environ returns the environment entry by which a child of the sandboxed tool
// is recognized as being [Inside], for children started with an environment
// that was built elsewhere.
func Environ() string { return insideEnv + "=" + os.Getenv(insideEnv) }

// initMain is the life of process 1; its result is the exit code.
func initMain(stage string) int {
	runtime.LockOSThread() // the tool's parent-death signal is tied to this thread
	unix.CloseOnExec(lifelineFD)
	unix.CloseOnExec(statusFD)
	// Taken before anything else: a signal that comes early is not lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	go func() {
		// Nothing is ever written: the end of this pipe is the end of the parent.
		_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	status := os.NewFile(statusFD, "status")
	if step, err := setUp(stage); err != nil {
		_ = json.NewEncoder(status).Encode(setupStatus{Step: step, Err: err.Error()})
		return 1
	}
	status.Close()
	if stage == stageProbe {
		return 0
	}

	tool, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: start the tool inside: %v\n", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = tool.Signal(s)
		}
	}()
	return reap(tool.Pid)
}

// reap collects every orphan until the tool has ended, and returns its exit
// code. When process 1 then ends, the kernel kills whatever is left.
func reap(tool int) int {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintf(os.Stderr, "sandbox: wait for the tool: %v\n", err)
			return 1
		case pid != tool:
		case ws.Signaled():
			return 128 + int(ws.Signal())
		default:
			return ws.ExitStatus()
		}
	}
}

// setUp prepares the namespaces; on error it names the step that failed.
func setUp(stage string) (step string, err error) {
	// Mounts of the sandbox must not travel back to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "make / private", err
	}
	// The inherited /proc shows the host's processes; it also names network
	// namespaces by the wrong PIDs.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "mount a fresh /proc", err
	}
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "read the network namespace", err
	}
	if err := os.Setenv(insideEnv, ns); err != nil {
		return "mark the sandbox", err
	}
	if err := forbidLocking(); err != nil {
		return "forbid locking memory", err
	}
	if stage == stageProbe {
		return probe()
	}
	return "", nil
}

// forbidLocking keeps the sandbox's processes from pinning their memory, root
// or not: Cassandra locks its whole heap if it may, which doubles what a node
// takes and adds two seconds to its start (measured).
func forbidLocking() error {
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0); err != nil {
		return err
	}
	const few = 64 << 10 // bytes, the kernel's long-standing default
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return err
	}
	l.Cur = min(l.Cur, few)
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l)
}

// probe exercises all that a cluster needs of the network.
func probe() (step string, err error) {
	n, err := NewNetwork()
	if err != nil {
		return "create a bridge", err
	}
	defer n.Close()
	h, err := n.AddHost("probe", "10.77.0.250")
	if err != nil {
		return "create a network namespace with a veth pair", err
	}
	if err := h.Redirect(netip.MustParseAddrPort("10.77.0.251:7000"), netip.MustParseAddrPort(Gateway+":1")); err != nil {
		return "create an nftables NAT rule", errors.New(strings.TrimSpace(err.Error()))
	}
	return "", nil
}
