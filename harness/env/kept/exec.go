package kept

import (
	"context"
	"encoding/json"
	"fencepost/harness/env/osproc"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// exitNotFound is a shell's exit code for a command that does not exist.
const exitNotFound = 127

// killGrace is how long a cancelled command may take to end: schedulers drain and
// hand over first.
const killGrace = 20 * time.Second

// exec runs a command for a client.
func (d *daemon) exec(ctx context.Context, h hello, files []*os.File, in *json.Decoder) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env := d.environment(h.Env)
	path, err := lookPath(h.Args[0], h.Dir, env)
	if err != nil {
		fmt.Fprintf(files[2], "fencepost exec: %v\n", err)
		return exitNotFound, nil
	}
	cmd := &exec.Cmd{
		Path: path, Args: h.Args, Dir: h.Dir, Env: env,
		Stdin: files[0], Stdout: files[1], Stderr: files[2], ExtraFiles: files[3:],
		// A group of its own, so that a signal reaches its children as Ctrl-C would.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", h.Args[0], err)
	}
	group := -cmd.Process.Pid
	go watchClient(in, cancel, func(s syscall.Signal) { _ = syscall.Kill(group, s) })
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err = <-exited:
	case <-ctx.Done():
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case err = <-exited:
		case <-time.After(killGrace):
			_ = syscall.Kill(group, syscall.SIGKILL)
			err = <-exited
		}
	}
	code, err := osproc.ExitCode(cmd.ProcessState, err)
	if err != nil {
		return 0, fmt.Errorf("wait for %s: %w", h.Args[0], err)
	}
	return code, nil
}

// lookPath finds a command as the client's own shell would: by the client's PATH
// and from its directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	for _, d := range filepath.SplitList(Getenv(env)("PATH")) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		if path := filepath.Join(d, name); executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: command not found in PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s: %w", path, os.ErrPermission)
	}
	return nil
}

// Getenv is os.Getenv for another process's environment.
func Getenv(env []string) func(string) string {
	return func(name string) (value string) {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				value = v // the last one counts, as for os/exec
			}
		}
		return value
	}
}
