package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kind is a store, as runs know it.
type Kind struct {
	// Name is what --store takes, About says what there is.
	Name, About string
	// Servers is how many there are, n1 first; without Spare of them the rest goes on.
	Servers, Spare int
	// Port is that of clients.
	Port int
	// Peers are the ports at which servers reach each other, by what they are for; of the
	// first that is "".
	Peers []Peer
	// Find finds the program; Fetch is the command that fetches what it does not find.
	Find  func(ctx context.Context, cacheDir string) (Program, error)
	Fetch string
	// Files are written into a server's directory before its first start.
	Files func(s Site, i int) map[string]string
	// Args are a server's command line after the program's own.
	Args func(s Site, i int) []string
	// Lay, of a store that needs more than files, makes a server's directory ready, after those of
	// the servers before it, and returns what makes the command of each life; Files and Args are
	// then not used.
	Lay func(ctx context.Context, cacheDir string, s Site, i int) (Command, error)
	// EndSignal asks a server to end in order; 0: SIGTERM.
	EndSignal syscall.Signal
	// Secret is the file with what programs show to a server at a login; nil: they show nothing.
	Secret func(s Site) string

	// Hello is what the i-th server answers, in whatever state it is, as long as it runs. SpeaksFirst:
	// it says something before.
	Hello       func(i int) []byte
	SpeaksFirst bool
	// Ready asks a server once whether it serves.
	Ready func(ctx context.Context, s Site, i int) error
	// Read makes a read through a server that must not be stale, or what the store has instead,
	// which ReadAs names ("a linearizable read"). It fails without a quorum, and NoQuorum says so
	// of an error by which the server itself says that.
	Read     func(ctx context.Context, s Site, i int) error
	ReadAs   string
	NoQuorum func(error) bool
	// Leader is the server that decides, now, about what a run keeps under its name.
	Leader func(ctx context.Context, s Site, run string) (int, error)

	// Cannot says why servers cannot have some faults. What the others need:
	Cannot Cannot
	// Mark writes a key into a server itself; taken is false if that refuses it, as it has all from
	// another. Marked says whether a server has a key. Nil: what one lost, others give it again.
	Mark   func(ctx context.Context, s Site, i int, key string) (taken bool, err error)
	Marked func(ctx context.Context, s Site, i int, key string) (bool, error)
	// Now is the time by a server's wall clock.
	Now func(ctx context.Context, s Site, i int) (time.Time, error)
	// Role is what a server is to the others, and Promote makes a replica the primary.
	Role    func(ctx context.Context, s Site, i int) (Role, error)
	Promote func(ctx context.Context, s Site, i int) error
}

// Command makes the command of a server's next life, at the site as it is then.
type Command func(ctx context.Context, s Site) (*exec.Cmd, error)

// Peer is a port of servers for each other.
type Peer struct {
	Purpose  string
	Port     int
	Patience time.Duration // as of link.Spec
}

// Program is an installed server.
type Program struct {
	Path, Version string
	// Args come before a server's own, Env is what its environment has beside the harness's.
	Args, Env []string
}

// Site is where servers run.
type Site struct {
	IPs  []string
	Dirs []string // of the servers; their data is in DataDir
	Port int      // of clients
	// Primary is the server that the others follow, in a store that knows replicas.
	Primary int
}

// DataDir is where the i-th server keeps what it stores.
func (s Site) DataDir(i int) string { return filepath.Join(s.Dirs[i], "data") }

// Addr is where clients reach the i-th server.
func (s Site) Addr(i int) string { return s.at(i, s.Port) }

func (s Site) at(i, port int) string { return net.JoinHostPort(s.IPs[i], strconv.Itoa(port)) }

// hello is the Hello of servers that are alike.
func hello(text string) func(int) []byte { return func(int) []byte { return []byte(text) } }

// fetch is the Fetch of a store that scripts/fetch-store knows by this name.
func fetch(name string) string { return "scripts/fetch-store " + name }

// kinds are all there are.
var kinds = []Kind{etcd, nats, postgresOne, postgresStandby, postgresSync, zookeeper, redis, redisReplica, redisFive, redisPostgres, temporal}

// Kinds are all there are.
func Kinds() []Kind { return slices.Clone(kinds) }

// Names are those of all kinds.
func Names() (out []string) {
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}

// Cassandra is the store of a run that names none; its nodes are package cluster's.
const Cassandra = "cassandra"

// Of is the kind with this name; Cassandra is none.
func Of(name string) (Kind, error) {
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if at < 0 {
		return Kind{}, fmt.Errorf("unknown store %q; there are: %s", name, strings.Join(append([]string{Cassandra}, Names()...), ", "))
	}
	return kinds[at], nil
}

// dial connects to a server until ctx is over.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// first is the Leader of a store whose first server decides.
func first(context.Context, Site, string) (int, error) { return 0, nil }

// askRole asks a server for its Role.
type askRole func(ctx context.Context, s Site, i int) (Role, error)

// primaryBy is the Leader of a store in which a server says itself that it is the primary.
func primaryBy(ask askRole) func(context.Context, Site, string) (int, error) {
	return func(ctx context.Context, s Site, _ string) (int, error) {
		return askAll(ctx, s, func(ctx context.Context, i int) (int, bool, error) {
			role, err := ask(ctx, s, i)
			return i, role.Primary, err
		})
	}
}

// linked is a server's role; an error of a replica that is not in sync.
func linked(ctx context.Context, s Site, i int, ask askRole) (Role, error) {
	role, err := ask(ctx, s, i)
	if err == nil && !role.Primary && !role.InSync {
		err = errors.New("it has no link to its primary yet")
	}
	return role, err
}

// askTimeout bounds the wait for one server's answer to who leads: one that is paused never gives it.
const askTimeout = 2 * time.Second

// askAll asks one server after the other who leads, until one knows.
func askAll(ctx context.Context, s Site, ask func(ctx context.Context, i int) (leader int, known bool, err error)) (int, error) {
	err := errors.New("no server knows one")
	for i := range s.IPs {
		once, cancel := context.WithTimeout(ctx, askTimeout)
		leader, known, e := ask(once, i)
		cancel()
		if e == nil && known {
			return leader, nil
		}
		err = errors.Join(err, e)
	}
	return 0, err
}
