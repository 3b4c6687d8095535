//go:build integration

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/systems/drive"
)

// startPostgres starts the machine's own PostgreSQL, or what scripts/fetch-store has fetched. It runs as
// nobody in a user namespace, as it refuses root.
func startPostgres(t *testing.T) drive.Place {
	t.Helper()
	fetch := exec.CommandContext(t.Context(), "../../../scripts/fetch-store", "postgres")
	fetch.Stderr = os.Stderr
	bin, err := fetch.Output()
	must(t, err)
	nobody, err := user.Lookup("nobody")
	must(t, err)
	uid, err1 := strconv.Atoi(nobody.Uid)
	gid, err2 := strconv.Atoi(nobody.Gid)
	must(t, errors.Join(err1, err2))
	data := t.TempDir()
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(strings.TrimSpace(string(bin)), name), append([]string{"-D", data}, args...)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "LC_ALL=C"), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
			Pdeathsig:   syscall.SIGKILL,
		}
		return cmd
	}
	must(t, program("initdb", "-U", "fencepost", "--auth=trust", "--no-sync").Run())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, free.Close())
	host, port, err := net.SplitHostPort(free.Addr().String())
	must(t, err)
	server := program("postgres", "-h", host, "-p", port, "-k", "", "-F", "-c", "log_min_messages=fatal")
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // it has no more to do
		_ = server.Wait()
	})
	conn, err := pgx.ParseConfig("host=" + host + " port=" + port + " user=fencepost dbname=postgres sslmode=disable")
	must(t, err)
	var db *pgx.Conn
	for until := time.Now().Add(20 * time.Second); db == nil; time.Sleep(20 * time.Millisecond) {
		if db, err = pgx.ConnectConfig(t.Context(), conn); err != nil && time.Now().After(until) {
			t.Fatal(err)
		}
	}
	_, err = db.Exec(t.Context(), "CREATE DATABASE fencepost")
	must(t, errors.Join(err, db.Close(t.Context())))
	return drive.Place{Nodes: []string{free.Addr().String()}, Name: "test", Locks: []string{"lock"}, TTL: 1200 * time.Millisecond}
}
