package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

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
	if b, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); err == nil && strings.TrimSpace(string(b)) != "0" && !privileged() {
		e.Remedy = append(e.Remedy, "AppArmor restricts user namespaces here; lift it: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	}
	if b, err := os.ReadFile("/proc/sys/kernel/unprivileged_userns_clone"); err == nil && strings.TrimSpace(string(b)) == "0" && !privileged() {
		e.Remedy = append(e.Remedy, "user namespaces are switched off here; switch them on: sudo sysctl -w kernel.unprivileged_userns_clone=1")
	}
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err == nil && strings.TrimSpace(string(b)) == "0" && !privileged() {
		e.Remedy = append(e.Remedy, "no user namespaces are allowed here; allow some: sudo sysctl -w user.max_user_namespaces=10000")
	}
	switch {
	case os.Geteuid() != 0:
		e.Remedy = append(e.Remedy, "or run the same command as root")
	case !privileged():
		e.Remedy = append(e.Remedy, "root lacks CAP_SYS_ADMIN here; in a container: start it with --privileged (or --cap-add SYS_ADMIN --cap-add NET_ADMIN and without the default seccomp and AppArmor profiles)")
	default:
		e.Remedy = append(e.Remedy, "the kernel may lack namespaces, veth, bridge or nf_tables NAT: sudo modprobe -a veth bridge nf_tables nft_chain_nat")
	}
	e.Remedy = append(e.Remedy,
		"or use Docker instead: CLUSTER=docker",
		"or use a cluster of your own: CLUSTER=external")
	return e
}
