// Command temporal is the Temporal server with all of its services in one process, built from its module.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite" // the store that the configuration names
	"go.temporal.io/server/temporal"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("config-file", "", "the server's configuration, as YAML")
	flag.Parse()
	if *file == "" {
		return errors.New("-config-file is missing")
	}
	cfg, err := config.Load(config.WithConfigFile(*file))
	if err != nil {
		return err
	}
	s, err := temporal.NewServer(temporal.ForServices(temporal.DefaultServices), temporal.WithConfig(cfg),
		temporal.WithLogger(log.NewZapLogger(log.BuildZapLogger(cfg.Log))), temporal.InterruptOn(temporal.InterruptCh()))
	if err != nil {
		return err
	}
	return s.Start() // it returns when the server has stopped
}
