package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

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
	single := exec.CommandContext(ctx, p.path("postgres"), "--single", "-D", data, "-c", "exit_on_error=on", "postgres")
	single.Stdin = strings.NewReader(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'\nCREATE DATABASE %s OWNER %s\n", Role, password, Database, Role))
	return run(single)
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
