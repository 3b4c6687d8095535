package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
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
	db, err := Lay(ctx, o.CacheDir, filepath.Join(scratch.Dir, "postgres"))
	if err != nil {
		return nil, err
	}
	addr, err := osproc.FreeAddr()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	service := &osproc.Service{
		Name: "PostgreSQL", Address: addr, Dir: db.Dir, Secret: db.Secret, Closed: closed, Log: o.Log, Ended: o.Ended,
		EndSignal: EndSignal,
		Command:   func() *exec.Cmd { return db.Command(host, port) },
		Ready:     func(ctx context.Context) error { return Answers(ctx, addr, db.Secret) },
	}
	if err := service.Start(ctx); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return &Server{Service: service, Program: db.Program}, nil
}

// Greeting is SSLRequest, which a server answers by one letter before anybody logs in: yes or no.
var Greeting = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// EndSignal ends a server with its sessions; SIGTERM would wait for them.
const EndSignal = syscall.SIGINT

// Files are an empty database in a directory, with the server for it.
type Files struct {
	Program Program
	Dir     string
	// Secret is a password file of libpq's for the role that programs log in as.
	Secret string
	attr   *syscall.SysProcAttr
}

// Lay makes dir an empty database: a copy of the template, which the first call on a machine
// makes (seconds). A server that is missing is a *[MissingError].
func Lay(ctx context.Context, cacheDir, dir string) (Files, error) {
	program, err := Find(ctx, cacheDir)
	if err != nil {
		return Files{}, err
	}
	template, err := ensureTemplate(ctx, cacheDir, program)
	if err != nil {
		return Files{}, err
	}
	if err := cluster.CopyTree(template, dir); err != nil {
		return Files{}, fmt.Errorf("copy the template of a PostgreSQL database: %w", err)
	}
	return filesIn(program, dir)
}

func filesIn(p Program, dir string) (Files, error) {
	attr, err := namespaces()
	return Files{Program: p, Dir: dir, Secret: SecretIn(dir), attr: attr}, err
}

// data is a file or directory of the database itself.
func (f Files) data(name string) string { return filepath.Join(f.Dir, dataName, name) }

// Command is a life of the server, which listens at host and port.
func (f Files) Command(host, port string) *exec.Cmd {
	cmd := exec.Command(f.Program.path("postgres"), "-D", f.data(""), "-h", host, "-p", port)
	cmd.SysProcAttr, cmd.Env = f.attr, environ()
	return cmd
}

// SecretIn is the Secret of Files in a directory.
func SecretIn(dir string) string { return filepath.Join(dir, passName) }

// Answers asks the server at addr for an answer to a query.
func Answers(ctx context.Context, addr, secret string) error {
	conn, err := pgx.Connect(ctx, ConnString(addr, secret))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

// Now is the time by the server's wall clock.
func Now(ctx context.Context, addr, secret string) (now time.Time, err error) {
	conn, err := pgx.Connect(ctx, ConnString(addr, secret))
	if err != nil {
		return now, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, err
}

// ConnString is how a program connects to a server, by its own address or that of a
// link to it; secret is the server's.
func ConnString(addr, secret string) string {
	return connString(addr, secret, Role, Database)
}

func connString(addr, secret, role, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: addr, Path: database,
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
	own := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return slices.ContainsFunc([]string{"PG", "LC_", "LANG", "TZ="}, func(p string) bool { return strings.HasPrefix(e, p) })
	})
	return append([]string{"LC_ALL=C", "TZ=UTC"}, own...)
}

// The role that programs of a run log in as, which owns the database and is no
// superuser.
const (
	Role     = "fencepost"
	Database = "fencepost"
)

// Names within a template and a server's directory.
const (
	dataName = "data"
	passName = "pgpass"
)

// settings are the server's. Sizes suit a sink on a machine that three Cassandra nodes
// share; what concerns safety is as the server comes: fsync, synchronous_commit and
// full_page_writes are on.
const settings = `
unix_socket_directories = ''
password_encryption = scram-sha-256
max_connections = 300
shared_buffers = 32MB
dynamic_shared_memory_type = sysv
max_wal_size = 256MB
min_wal_size = 32MB
max_worker_processes = 2
max_parallel_workers_per_gather = 0
log_timezone = UTC
timezone = UTC
log_line_prefix = '%m [%p] %a '
log_checkpoints = off
`

const hba = `
host all all 127.0.0.0/8 scram-sha-256
host all all ` + sandbox.Subnet + ` scram-sha-256
`

// ensureTemplate returns the directory of the template for p, made now if need be.
// Several processes may ask at once.
func ensureTemplate(ctx context.Context, cacheDir string, p Program) (string, error) {
	key := sha256.Sum256([]byte(p.Version + settings + hba))
	root := filepath.Join(cacheDir, "postgres")
	dir := filepath.Join(root, "template-"+hex.EncodeToString(key[:8]))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	making, err := os.MkdirTemp(root, "making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(making) // unless it got its final name
	if err := makeTemplate(ctx, p, making); err != nil {
		return "", fmt.Errorf("make a template of a PostgreSQL database: %w", err)
	}
	if err := os.Rename(making, dir); err != nil {
		if _, there := os.Stat(dir); there == nil { // another process was faster
			return dir, nil
		}
		return "", err
	}
	return dir, nil
}

func makeTemplate(ctx context.Context, p Program, dir string) error {
	data := filepath.Join(dir, dataName)
	super, password := rand.Text(), rand.Text()
	superFile := filepath.Join(dir, "superuser")
	if err := os.WriteFile(superFile, []byte(super), 0o600); err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, p.path("initdb"), "-D", data, "-U", "postgres", "--pwfile="+superFile,
		"--auth=scram-sha-256", "--no-locale", "--encoding=UTF8", "--data-checksums", "--no-sync")
	if err := run(initdb); err != nil {
		return err
	}
	if err := os.Remove(superFile); err != nil { // nobody logs in as postgres
		return err
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(settings)
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return err
	}
	// *:*: whatever link a program comes by.
	if err := os.WriteFile(filepath.Join(dir, passName), fmt.Appendf(nil, "*:*:%s:%s:%s\n", Database, Role, password), 0o600); err != nil {
		return err
	}
	return p.single(ctx, data, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'\nCREATE DATABASE %s OWNER %s\n", Role, password, Database, Role))
}

// single executes statements, one a line, in a database without a server. It ends in order.
func (p Program) single(ctx context.Context, data, statements string) error {
	cmd := exec.CommandContext(ctx, p.path("postgres"), "--single", "-D", data, "-c", "exit_on_error=on", "postgres")
	cmd.Stdin = strings.NewReader(statements)
	return run(cmd)
}

// run runs a program of the server's to its end.
func run(cmd *exec.Cmd) (err error) {
	if cmd.SysProcAttr, err = namespaces(); err != nil {
		return err
	}
	cmd.Env = environ()
	runtime.LockOSThread() // with it the program would die
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(out)))
	}
	return nil
}
