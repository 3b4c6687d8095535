// Command worker is a worker process under test: the production lock client and
// sink with a recorder wired in. It is started by the runner, which hands it its
// configuration by environment and a control channel as file descriptor 3.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	cfg, err := workload.ParseConfig(os.Getenv(workload.ConfigEnv))
	if err != nil {
		return err
	}
	hooks, err := variant(cfg.Variant)
	if err != nil {
		return err
	}
	conn, err := control.Inherited()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("run", cfg.Run, "proc", cfg.Life)
	if err := workload.Run(ctx, cfg, conn, hooks, log); err != nil {
		_ = conn.Send(control.Message{Cmd: control.CmdError, Error: err.Error()})
		return err
	}
	return nil
}
