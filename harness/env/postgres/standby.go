package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"
)

// admin is the role of the harness and of a standby on servers of which one follows the other, a
// superuser. Programs do not have its password.
const admin = "harness"

// Names within a directory of such a server.
const (
	adminPassName = "adminpass"
	walName       = "pg_wal"
	// standbySignal is in the directory of a server for as long as that follows another:
	// PostgreSQL removes it at a promotion.
	standbySignal = "standby.signal"
)

// replication is what a server's configuration has besides: a standby that was away, or is new,
// finds what it has missed on the primary, and looks for the primary often.
const replication = `
wal_keep_size = 128MB
wal_retrieve_retry_interval = 200ms
`

const replicationHBA = `
host replication ` + admin + ` ` + sandbox.Subnet + ` scram-sha-256
`

// LayPrimary makes dir an empty database as Lay does, which a standby can follow.
func LayPrimary(ctx context.Context, cacheDir, dir string) (Files, error) {
	f, err := Lay(ctx, cacheDir, dir)
	if err != nil {
		return f, err
	}
	password := rand.Text()
	if err := errors.Join(
		extend(f.data("postgresql.conf"), replication), extend(f.data("pg_hba.conf"), replicationHBA),
		os.WriteFile(AdminSecretIn(dir), fmt.Appendf(nil, "*:*:*:%s:%s\n", admin, password), 0o600),
	); err != nil {
		return f, err
	}
	return f, f.Program.single(ctx, f.data(""), fmt.Sprintf("CREATE ROLE %s LOGIN SUPERUSER PASSWORD '%s'\nCREATE TABLE %s (key text PRIMARY KEY)\n", admin, password, marks))
}

func extend(file, text string) error {
	had, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(had, text...), 0o600)
}

// LayStandby makes dir a copy of a primary's directory that has not started yet. The copy follows it.
func LayStandby(ctx context.Context, cacheDir, primary, dir string) (Files, error) {
	program, err := Find(ctx, cacheDir)
	if err != nil {
		return Files{}, err
	}
	if err := cluster.CopyTree(primary, dir); err != nil {
		return Files{}, fmt.Errorf("copy a PostgreSQL primary: %w", err)
	}
	f, err := filesIn(program, dir)
	if err != nil {
		return f, err
	}
	return f, os.WriteFile(f.data(standbySignal), nil, 0o600)
}

// AdminSecretIn is the password file of the harness's own role in a directory.
func AdminSecretIn(dir string) string { return filepath.Join(dir, adminPassName) }

// Standby is a life of the server in which it follows the primary at primaryHost.
func (f Files) Standby(host, port, primaryHost string) *exec.Cmd {
	cmd := f.Command(host, port)
	cmd.Args = append(cmd.Args, "-c", fmt.Sprintf("primary_conninfo=host=%s port=%s user=%s passfile='%s' sslmode=disable",
		primaryHost, port, admin, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(AdminSecretIn(f.Dir))))
	return cmd
}

// Follow makes a server without a process ready to follow the primary at addr, whose directory is
// primary. One that has followed until now goes on. One that was the primary itself may have what
// the other never got: its database is replaced by a base copy.
func (f Files) Follow(ctx context.Context, addr, primary string) (err error) {
	if _, err := os.Stat(f.data(standbySignal)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	start, stop := "pg_backup_start('fencepost', true)", "pg_backup_stop(false)"
	if f.Program.Major < 15 {
		start, stop = "pg_start_backup('fencepost', true, false)", "pg_stop_backup(false, false)"
	}
	conn, err := asAdmin(ctx, addr, AdminSecretIn(primary))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "SELECT "+start); err != nil {
		return fmt.Errorf("base copy: %w", err)
	}
	from, to := filepath.Join(primary, dataName), f.data("")
	if err := errors.Join(os.RemoveAll(to), copyRunning(from, to, notInBackup)); err != nil {
		return fmt.Errorf("base copy: %w", err)
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM "+stop).Scan(&label); err != nil {
		return fmt.Errorf("base copy: %w", err)
	}
	// The log last: what makes the copy consistent is in it now.
	return errors.Join(
		copyRunning(filepath.Join(from, walName), f.data(walName), func(string) bool { return false }),
		os.WriteFile(f.data("backup_label"), []byte(label), 0o600),
		os.WriteFile(f.data(standbySignal), nil, 0o600),
	)
}

// notInBackup is of files that are of the running server alone, and of the log's.
func notInBackup(name string) bool {
	return name == "postmaster.pid" || name == "postmaster.opts" || filepath.Dir(name) == walName
}

// copyRunning copies a directory in which a server works, but for some files. A file that is gone when
// its turn comes is not needed, or the log has what it takes to do without.
func copyRunning(from, to string, without func(name string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if without(name) {
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	})
}
