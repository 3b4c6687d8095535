// Package docker is the backend that runs the nodes of a cluster in containers,
// with testcontainers-go, on the Docker daemon of this machine.
//
// # A node is two containers
//
// As in a Kubernetes pod, one container holds the network namespace and another
// runs in it:
//
//   - the holder owns the address. It runs this very program ([Init]), which is
//     copied into it, redirects the node's connections to port 7000 of each peer
//     into the links, says so, and then waits. It alone has CAP_NET_ADMIN.
//   - the node runs the image as it is, in the holder's network namespace. It is
//     started when the redirects are there, so that no connection of Cassandra is
//     older than they are; a node that is killed and started again finds them still.
//
// So nothing is asked of the image (no nft, no capability), nor of this process (no
// root): only the daemon.
//
// # Links
//
// The proxies of package link listen in this process at the gateway address of the
// cluster's own bridge network. That is an address of this machine if the daemon's
// containers run on it; with Docker Desktop, rootless Docker or a daemon elsewhere they do
// not, and Start says so. A cluster counts as healthy only when all directed links
// have carried bytes: that is the proof that the redirects are in force.
//
// # Faults
//
// SIGKILL, SIGSTOP, SIGCONT and SIGTERM are sent to a node's first process by the
// daemon; it is the JVM, as in the local backend, and its state is read from /proc, or
// asked of the daemon if its processes cannot be seen from here. The daemon's own pause
// is not used: what /proc shows of it depends on the version of control groups.
//
// The commit log is in a volume of memory (tmpfs) that the holder mounts too, so
// that it outlives the node's process.
//
// # Leaving nothing
//
// Everything bears labels: of its cluster, and of the process that owns it (PID, start
// time, and the boot and the PID namespace in which they mean something). Close removes
// what bears the cluster's label; Start removes clusters whose owner is certainly gone.
// Ryuk, the reaper of testcontainers, is not used: it is one more image to pull and one
// more container, and would do the same.
package docker
