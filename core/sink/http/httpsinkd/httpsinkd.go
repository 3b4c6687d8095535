// Package httpsinkd is the reference service of the fenced HTTP sink: httpsink.Handler in
// front of a boltsink in one file. It is small so that it can be copied; a service of your
// own keeps the handler, and puts a sink.Sink of its own database behind it.
package httpsinkd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	boltsink "fencepost/core/sink/bolt"
	httpsink "fencepost/core/sink/http"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 64
)

// shutdownTimeout bounds the requests that are under way when the service is told to end.
const shutdownTimeout = 10 * time.Second

// Main is the whole command: it serves until SIGTERM or SIGINT and returns the exit code.
// handler makes what is served of the sink; nil: httpsink.Handler.
func Main(args []string, out io.Writer, handler func(*boltsink.Sink) http.Handler) int {
	fl := flag.NewFlagSet("httpsinkd", flag.ContinueOnError)
	fl.SetOutput(out)
	listen := fl.String("listen", "127.0.0.1:8085", "`address` to listen at")
	file := fl.String("file", "", "`path` of the file that holds everything; made if it is not there")
	fl.Usage = func() {
		fmt.Fprintln(out, "httpsinkd serves a fenced sink: effects are taken with the highest token of their\nresource only, and once for each idempotency key (docs/core.md).")
		fl.PrintDefaults()
	}
	err := fl.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // the package has said it
		return exitUsage
	case fl.NArg() > 0 || *file == "":
		fmt.Fprintln(out, "httpsinkd: --file=PATH is needed, and nothing but flags: see --help")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := Serve(ctx, *listen, *file, handler, slog.New(slog.NewTextHandler(out, nil))); err != nil {
		fmt.Fprintln(out, "httpsinkd: "+err.Error())
		return exitFailed
	}
	return 0
}

// Serve serves the sink in a file at an address until ctx ends, and finishes then what is
// under way.
func Serve(ctx context.Context, listen, file string, handler func(*boltsink.Sink) http.Handler, log *slog.Logger) (err error) {
	s, err := boltsink.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if handler == nil {
		handler = func(s *boltsink.Sink) http.Handler { return httpsink.Handler(s) }
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler(s), ReadHeaderTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	log.Info("serving", "address", ln.Addr().String(), "file", file)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err = srv.Shutdown(ending)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
