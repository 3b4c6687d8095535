// Package kept keeps one cluster running between commands, so that the next
// run, test or look at the database need not wait for a start.
//
// `fencepost up` starts the cluster inside a sandbox and stays as its daemon;
// what wants to use it must be inside the same namespaces, so it goes through
// the daemon, which listens on a unix socket in a directory that only the user
// may enter:
//
//	exec   runs any command inside, with the client's terminal, directory and
//	       environment, and the cluster's addresses in FENCEPOST_CONTACT_POINTS
//	       and FENCEPOST_CQL_PORT, and with more files of the client's, such as
//	       listeners in the network outside
//	run    runs one of the tool's own commands in the daemon's process, which
//	       holds the node processes and the links (a [Handler]); one at a time
//	status says what is up
//	down   ends everything
//
// A cluster on containers is kept without a sandbox; all the rest is the same.
//
// A client hands its standard input, output and error over as file descriptors
// (SCM_RIGHTS) and then only waits: bytes are never copied. Signals that the
// client gets are sent on as messages; if the connection ends, the work ends.
//
// In-process runs execute the daemon's code, not the client's: after a rebuild
// they would silently test the old program. The daemon therefore compares the
// SHA-256 of both executables and refuses ([StaleError]).
//
// Who owns the cluster is told by a lock on a file, which the kernel drops
// however the owner dies; a socket or state file without that lock means
// nothing. The paths are in [Paths].
package kept
