package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"

	"fencepost/harness/cluster"
	"fencepost/harness/osproc"
)

// Options say how a server is started.
type Options struct {
	// CacheDir has templates and scratch data. Default: cluster.CacheDir.
	CacheDir string
	// Log is the file that the server's output is appended to.
	Log string
	// Ended is called when the server ends although nobody asked for it; nil: nobody is told.
	Ended func(error)
}

// Server is a PostgreSQL server with an empty database of its own.
type Server struct {
	*osproc.Service
	Program Program
	// Pass is the file with the password, in the format of libpq's password file.
	Pass    string
	scratch *cluster.Scratch
	closed  bool
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
	s := &Server{Program: program}
	if s.scratch, err = cluster.NewScratch(o.CacheDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	dir := filepath.Join(s.scratch.Dir, "postgres")
	if err := cluster.CopyTree(template, dir); err != nil {
		return nil, fmt.Errorf("copy the template of a PostgreSQL database: %w", err)
	}
	s.Pass = filepath.Join(dir, passName)
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
	s.Service = &osproc.Service{
		Name: "PostgreSQL", Address: addr, Dir: dir, Log: o.Log, Ended: o.Ended,
		EndSignal: syscall.SIGINT, // ends sessions; SIGTERM would wait for them
		Command: func() *exec.Cmd {
			cmd := exec.Command(program.path("postgres"), "-D", filepath.Join(dir, dataName), "-h", host, "-p", port)
			cmd.SysProcAttr, cmd.Env = attr, environ()
			return cmd
		},
		Ready: s.ready,
	}
	return s, s.Service.Start(ctx)
}

// ready asks for an answer to a query.
func (s *Server) ready(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, ConnString(s.Addr(), s.Pass))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

// Close ends the server and removes its data. The log stays. Closing again does nothing.
func (s *Server) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.Service != nil {
		err = s.Service.Close()
	}
	return errors.Join(err, s.scratch.Close())
}

// ConnString is how a program connects to a server, by its own address or that of a
// link to it; pass is the server's password file.
func ConnString(addr, pass string) string {
	u := url.URL{Scheme: "postgres", User: url.User(Role), Host: addr, Path: Database,
		RawQuery: url.Values{"passfile": {pass}, "sslmode": {"disable"}}.Encode()}
	return u.String()
}
