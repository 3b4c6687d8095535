// Package sandbox runs the tool inside Linux namespaces of its own, and gives
// hosts to the processes that it starts there.
//
// # Why
//
// Faults are only worth testing on real processes with real addresses: a
// database node needs an IP address of its own, a packet filter in front of it
// and a death that the operating system really carries out. Doing that on the
// host would need root, would change the host's bridges and firewall, and a
// harness killed by SIGKILL would leave all of it behind. In namespaces of its
// own the tool may do as it likes, mostly without root, and the kernel clears
// up: when the first process of a PID namespace dies, every process in it is
// killed, and with the last process the network and the mounts are gone.
//
// # Three processes
//
//	outer   the tool as the person started it; waits, hands on signals
//	init    PID 1 of the namespaces: mounts /proc, reaps, hands on signals
//	tool    the same executable with the same arguments; does the work
//
// Each is a re-execution of /proc/self/exe, so [Init] must be the first thing
// that main does. The outer process creates new network, mount and PID
// namespaces, and a user namespace as well unless it already has
// CAP_SYS_ADMIN: one uid and one gid, its own, appear as 0 inside.
//
// If the outer process dies, by whatever signal, init dies: it has a
// parent-death signal (SIGKILL) and also reads a pipe whose other end only the
// outer process holds. The parent-death signal belongs to the thread that
// forked, not to the process, so the outer process pins that thread.
//
// # Signals
//
// Init runs in a session of its own. A Ctrl-C therefore reaches only the outer
// process, which hands it on: the tool gets each signal exactly once, whether
// it came from the keyboard, from kill(1) or from a process group signal. The
// third SIGINT or SIGTERM kills the whole sandbox, for a tool that does not end.
// Reading and writing the terminal still work; job control inside does not,
// and Ctrl-Z stops only the outer process.
//
// # Network
//
// [Network] is a bridge, 10.77.0.1/24, in the sandbox's main network namespace,
// where the tool itself and its listeners live. A [Host] is a further network
// namespace with one address on that bridge, and one OS thread that stays in
// it: a process is started there by forking from that thread. Everything is done by
// netlink; neither ip(8) nor nft(8) is needed. [Host.Redirect] sends a host's
// connections to a peer through a proxy, by destination NAT in the host's own
// namespace, so that neither end knows of it.
package sandbox
