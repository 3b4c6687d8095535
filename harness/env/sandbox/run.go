package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/harness/env/osproc"
)

const (
	// stageEnv tells a re-executed process which stage it is.
	stageEnv   = "FENCEPOST_SANDBOX_STAGE"
	stageInit  = "init"
	stageProbe = "probe"
	// insideEnv holds the identity of the sandbox's main network namespace.
	insideEnv = "FENCEPOST_SANDBOX"

	// patience is how many SIGINT and SIGTERM are handed on; the next one kills.
	patience = 2
	// signalFirst is how long a cancelled context waits for the signal that
	// probably cancelled it, so that the tool hears of it only once.
	signalFirst = 100 * time.Millisecond
)

// forwarded are the signals that the outer process and init hand on.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// privileged reports whether this process has CAP_SYS_ADMIN, and so needs no
// user namespace.
func privileged() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && os.Geteuid() == 0 && caps&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return false
}

// Available reports whether this machine can run the sandbox, by building one
// with a bridge, a host and a redirect, and tearing it down (about 0.1 s; the
// answer is kept for the life of the process). The error is an
// *[UnavailableError]. The calling program must call [Init] first in main.
func Available() error { return probeOnce() }

var probeOnce = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	code, err := reexec(ctx, stageProbe, nil)
	if err == nil && code != 0 {
		err = unavailable("probe", fmt.Errorf("exit code %d", code))
	}
	return err
})

// Run executes this program again, with args as its arguments, inside a new
// sandbox, and returns its exit code (128+n if signal n ended it). Standard
// input and output and the environment are the caller's. While it waits, it
// hands on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGUSR1/2; a third SIGINT or
// SIGTERM kills the sandbox. When ctx is over, the tool gets SIGTERM, unless a
// signal was just handed on. When Run returns, no process of the sandbox is left. An error means that the sandbox could not be
// built: *[UnavailableError] with the remedy.
func Run(ctx context.Context, args []string) (int, error) {
	return reexec(ctx, stageInit, args)
}

func reexec(ctx context.Context, stage string, args []string) (code int, err error) {
	if Inside() {
		return 0, errors.New("sandbox: already inside a sandbox")
	}
	done := make(chan struct{})
	// The parent-death signal is sent when the forking *thread* ends: pin it,
	// and let it end only after the child.
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		code, err = supervise(ctx, stage, args)
	}()
	<-done
	return code, err
}

func supervise(ctx context.Context, stage string, args []string) (int, error) {
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	defer lifeW.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		lifeR.Close()
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	defer statusR.Close()

	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageEnv+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{lifeR, statusW} // fds 3 and 4 in init
	cmd.SysProcAttr = attributes()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	err = cmd.Start()
	lifeR.Close()
	statusW.Close()
	if err != nil {
		return 0, unavailable("create namespaces", err)
	}

	setup := make(chan error, 1)
	go func() { setup <- readStatus(statusR) }()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	waitErr := forward(ctx, cmd.Process, signals, exited)
	if err := <-setup; err != nil {
		return 0, err
	}
	code, err := osproc.ExitCode(cmd.ProcessState, waitErr)
	if err != nil {
		return 0, fmt.Errorf("sandbox: wait: %w", err)
	}
	return code, nil
}

// attributes are those of the forked init.
func attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // Ctrl-C goes to the outer process alone, see the package comment
	}
	if !privileged() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// forward hands on signals until the process has ended.
func forward(ctx context.Context, p *os.Process, signals <-chan os.Signal, exited <-chan error) error {
	asked := 0 // how often the tool was asked to end
	hand := func(s os.Signal) {
		if s == syscall.SIGINT || s == syscall.SIGTERM {
			asked++
		}
		if asked > patience {
			s = syscall.SIGKILL
		}
		// It fails only for a process that has ended, and then exited says so.
		_ = p.Signal(s)
	}
	over := ctx.Done()
	for {
		select {
		case err := <-exited:
			return err
		case s := <-signals:
			hand(s)
		case <-over:
			over = nil
			if asked > 0 {
				continue
			}
			select {
			case s := <-signals:
				hand(s)
			case <-time.After(signalFirst):
				hand(syscall.SIGTERM)
			}
		}
	}
}

// readStatus returns what init said about its set-up: nothing, or an error.
func readStatus(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("sandbox: status of init: %w", err)
	}
	var s setupStatus
	if len(b) == 0 {
		return nil // killed before it could say anything: the exit code tells
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("sandbox: status of init %q: %w", b, err)
	}
	if s.Step != "" {
		return unavailable(s.Step, errors.New(s.Err))
	}
	return nil
}

// setupStatus is what init writes to its status pipe.
type setupStatus struct {
	Step string `json:"step"` // that failed; "" if none
	Err  string `json:"err"`
}

// MountMemory mounts a file system in memory (tmpfs) of so many bytes on dir. It
// goes with the sandbox, or with Unmount. The error is an [UnavailableError].
func MountMemory(dir string, bytes int64) error {
	if !Inside() {
		return ErrOutside
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf("size=%d,mode=0700", bytes))
	if err != nil {
		return unavailable("mount a tmpfs on "+dir, err)
	}
	return nil
}

// Unmount ends what MountMemory mounted. A dir on which nothing is mounted, or
// that does not exist, is no error.
func Unmount(dir string) error {
	if !Inside() {
		return ErrOutside
	}
	// Detached: the directory is free at once, even if somebody still has a file open.
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("sandbox: unmount %s: %w", dir, err)
	}
	return nil
}

// ErrUnavailable is what every [UnavailableError] is.
var ErrUnavailable = errors.New("this machine cannot run the sandbox")

// ErrOutside is returned by what works only inside the sandbox: the host's own
// network is never touched.
var ErrOutside = errors.New("not inside the sandbox: start the tool through sandbox.Run")

// UnavailableError says why the namespaces are not available, and what to do.
type UnavailableError struct {
	// Step is what was refused, e.g. "mount /proc".
	Step string
	// Cause is the system's own error.
	Cause error
	// Remedy is what a person can do about it, one way a line.
	Remedy []string
}

// Error names the step, the cause and all remedies.
func (e *UnavailableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s: %v", ErrUnavailable, e.Step, e.Cause)
	for _, r := range e.Remedy {
		b.WriteString("\n  - " + r)
	}
	return b.String()
}

// Is reports whether target is ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the system's error.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// unavailable builds the error for step, with the remedies that fit this machine.
func unavailable(step string, cause error) *UnavailableError {
	e := &UnavailableError{Step: step, Cause: cause}
	for _, limit := range []struct {
		file   string
		bad    func(string) bool
		remedy string
	}{
		{"kernel/apparmor_restrict_unprivileged_userns", func(v string) bool { return v != "0" },
			"AppArmor restricts user namespaces here; lift it: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/unprivileged_userns_clone", func(v string) bool { return v == "0" },
			"user namespaces are switched off here; switch them on: sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", func(v string) bool { return v == "0" },
			"no user namespaces are allowed here; allow some: sudo sysctl -w user.max_user_namespaces=10000"},
	} {
		b, err := os.ReadFile("/proc/sys/" + limit.file)
		if err == nil && limit.bad(strings.TrimSpace(string(b))) && !privileged() {
			e.Remedy = append(e.Remedy, limit.remedy)
		}
	}
	switch {
	case os.Geteuid() != 0:
		e.Remedy = append(e.Remedy, "or run the same command as root")
	case !privileged():
		e.Remedy = append(e.Remedy, "root lacks CAP_SYS_ADMIN here; in a container: start it with --privileged "+
			"(or --cap-add SYS_ADMIN --cap-add NET_ADMIN and without the default seccomp and AppArmor profiles)")
	default:
		e.Remedy = append(e.Remedy, "the kernel may lack namespaces, veth, bridge or nf_tables NAT: sudo modprobe -a veth bridge nf_tables nft_chain_nat")
	}
	e.Remedy = append(e.Remedy,
		"or use Docker instead: CLUSTER=docker",
		"or use a cluster of your own: CLUSTER=external")
	return e
}
