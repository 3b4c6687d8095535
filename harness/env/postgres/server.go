package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// Options say how a server is started.
type Options struct {
	// CacheDir has templates and scratch data. Default: cluster.CacheDir.
	CacheDir string
	// Log is the file that the server's output is appended to.
	Log string
	// Ended is called when a life of the server has ended, with how; nil: nobody is told.
	Ended func(*history.ProcessLife)
}

// Server is a PostgreSQL server with an empty database of its own.
type Server struct {
	// Secret is a password file of libpq's.
	*osproc.Service
	Program Program
}

// Start finds a server, gives it a copy of the template and returns when it answers.
// The first start on a machine also makes the template (seconds). On error nothing is
// left running. A server that is missing is a *[MissingError]. Close it.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if o.CacheDir == "" {
		if o.CacheDir, err = cluster.CacheDir(); err != nil {
			return nil, err
		}
	}
	program, err := Find(ctx, o.CacheDir)
	if err != nil {
		return nil, err
	}
	template, err := ensureTemplate(ctx, o.CacheDir, program)
	if err != nil {
		return nil, err
	}
	scratch, err := cluster.NewScratch(o.CacheDir)
	if err != nil {
		return nil, err
	}
	closed := sync.OnceValue(scratch.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, closed())
		}
	}()
	dir := filepath.Join(scratch.Dir, "postgres")
	if err := cluster.CopyTree(template, dir); err != nil {
		return nil, fmt.Errorf("copy the template of a PostgreSQL database: %w", err)
	}
	addr, err := osproc.FreeAddr()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	attr, err := namespaces()
	if err != nil {
		return nil, err
	}
	secret := filepath.Join(dir, passName)
	service := &osproc.Service{
		Name: "PostgreSQL", Address: addr, Dir: dir, Secret: secret, Closed: closed, Log: o.Log, Ended: o.Ended,
		EndSignal: syscall.SIGINT, // ends sessions; SIGTERM would wait for them
		Command: func() *exec.Cmd {
			cmd := exec.Command(program.path("postgres"), "-D", filepath.Join(dir, dataName), "-h", host, "-p", port)
			cmd.SysProcAttr, cmd.Env = attr, environ()
			return cmd
		},
		Ready: func(ctx context.Context) error { return ready(ctx, ConnString(addr, secret)) },
	}
	if err := service.Start(ctx); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return &Server{Service: service, Program: program}, nil
}

// ready asks for an answer to a query.
func ready(ctx context.Context, to string) error {
	conn, err := pgx.Connect(ctx, to)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

// ConnString is how a program connects to a server, by its own address or that of a
// link to it; secret is the server's.
func ConnString(addr, secret string) string {
	u := url.URL{Scheme: "postgres", User: url.User(Role), Host: addr, Path: Database,
		RawQuery: url.Values{"passfile": {secret}, "sslmode": {"disable"}}.Encode()}
	return u.String()
}

// as is the user that the harness's own appears as to the server: one that is not root
// and has a name, without which initdb does not work.
const as = "nobody"

// namespaces are those of a server; see the package comment.
func namespaces() (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(as)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL runs as the user %s: %w", as, err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("the numbers of the user %s: %w", as, err)
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}, nil
}

// environ is the environment of a server: a person's own settings of PostgreSQL and
// locale must not reach it.
func environ() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "PG") || strings.HasPrefix(e, "LC_") || strings.HasPrefix(e, "LANG") || strings.HasPrefix(e, "TZ=") {
			continue
		}
		env = append(env, e)
	}
	return env
}
