package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/harness/env/kept"
	"fencepost/harness/env/schedulers"
)

// schedulersOptions are the flags of schedulers, and of up's.
type schedulersOptions struct {
	count, port int
	inside      bool // this is the process beside the cluster
}

// peerPorts are those by which the schedulers reach each other, from the first's own.
const peerPorts = 1000

func (o *schedulersOptions) flags(f *pflag.FlagSet, name, about string, count int) {
	f.IntVar(&o.count, name, count, about)
	f.IntVar(&o.port, "port", 8080, "port of the first scheduler on 127.0.0.1; the others follow")
}

func (o *schedulersOptions) check(name string, least int) error {
	switch {
	case o.count < least || o.count > schedulers.MaxCount:
		return usageError(fmt.Errorf("--%s=%d: want %d to %d", name, o.count, least, schedulers.MaxCount))
	case o.count > 0 && (o.port < 1 || o.port+peerPorts+o.count > 65535):
		return usageError(fmt.Errorf("--port=%d: want 1 to %d", o.port, 65535-peerPorts-o.count))
	}
	return nil
}

func newSchedulersCmd() *cobra.Command {
	var o schedulersOptions
	cmd := &cobra.Command{
		Use:   "schedulers",
		Short: "Run schedulers beside the cluster of \"fencepost up\"",
		Long: `Runs schedulerd processes beside the cluster that "fencepost up" keeps, until Ctrl-C or
"fencepost down", and lets this machine reach them at 127.0.0.1: the API, /metrics and a
page that shows what they do. One that is killed is started again. What schedulerd reads
from the environment (schedulerd --help) is handed on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check("count", 1); err != nil {
				return err
			}
			if o.inside {
				return schedulersInside(cmd.Context(), o)
			}
			files, err := o.listen()
			if err != nil {
				return err
			}
			defer closeFiles(files)
			paths, err := kept.DefaultPaths()
			if err != nil {
				return err
			}
			// Signals go to those inside, and end this one with them.
			return runSchedulers(context.Background(), paths, o, files)
		},
	}
	o.flags(cmd.Flags(), "count", "how many", 3)
	hidden(cmd.Flags(), &o.inside, "inside")
	return cmd
}

// addresses are where people reach the schedulers.
func (o *schedulersOptions) addresses() (out []string) {
	for i := range o.count {
		out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port+i)))
	}
	return out
}

// listen opens the ports in this process's network.
func (o *schedulersOptions) listen() (files []*os.File, err error) {
	for _, address := range o.addresses() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			closeFiles(files)
			return nil, fmt.Errorf("the schedulers cannot be reached there: %w; --port takes others", err)
		}
		f, err := l.(*net.TCPListener).File()
		l.Close()
		if err != nil {
			closeFiles(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// runSchedulers runs them beside the cluster until they end.
func runSchedulers(ctx context.Context, paths kept.Paths, o schedulersOptions, files []*os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return exitOf(kept.Exec(ctx, paths,
		[]string{self, "schedulers", "--inside", "--count=" + strconv.Itoa(o.count), "--port=" + strconv.Itoa(o.port)}, files...))
}

// schedulersInside runs them in this process's network, for the listeners it was given.
func schedulersInside(ctx context.Context, o schedulersOptions) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	contact, port := os.Getenv(kept.EnvContactPoints), os.Getenv(kept.EnvCQLPort)
	if contact == "" || port == "" {
		return usageError(errors.New("--inside is for the tool itself: run fencepost schedulers"))
	}
	program, err := schedulerd()
	if err != nil {
		return err
	}
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for i := range o.count {
		f := os.NewFile(uintptr(3+i), "listener")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("listener %d: %w", i, err)
		}
		listeners = append(listeners, l)
	}
	var one sync.Mutex
	return schedulers.Run(ctx, schedulers.Options{
		Program: program, ContactPoints: contact, CQLPort: port, Listeners: listeners, PeerPort: o.port + peerPorts, LogDir: paths.Dir, Env: os.Environ(),
		Say: func(s string) {
			one.Lock()
			defer one.Unlock()
			fmt.Println(s)
		},
	})
}

// schedulerd is beside this program, or in PATH.
func schedulerd() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "schedulerd")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath("schedulerd")
	if err != nil {
		return "", fmt.Errorf("there is no schedulerd in %s, nor in PATH: make build", filepath.Dir(self))
	}
	return found, nil
}

// upSchedulers runs schedulers beside a cluster as soon as it is up, until it ends.
func upSchedulers(ctx context.Context, paths kept.Paths, o schedulersOptions, files []*os.File) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := kept.Query(paths); err == nil {
			return runSchedulers(ctx, paths, o, files)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ready says whether all schedulers are.
func (o *schedulersOptions) ready() bool {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, address := range o.addresses() {
		if !schedulers.Ready(context.Background(), client, address) {
			return false
		}
	}
	return true
}

// urls are what a person opens.
func (o *schedulersOptions) urls() string {
	var out []string
	for _, address := range o.addresses() {
		out = append(out, "http://"+address+"/")
	}
	return strings.Join(out, "  ")
}
