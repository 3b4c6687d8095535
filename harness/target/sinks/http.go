package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	httpsink "fencepost/core/sink/http"
	"fencepost/harness/env/osproc"
	"fencepost/harness/target/sinks/lab"
)

// Services of the HTTP sink: the reference one, and the one with a back door.
const (
	httpBinary = "httpsinkd"
	labBinary  = "httpsinkd-lab"
)

// httpGreeting is a request that every HTTP server answers.
var httpGreeting = []byte("OPTIONS * HTTP/1.1\r\nHost: sink\r\n\r\n")

func startHTTP(ctx context.Context, o Options) (*osproc.Service, error) {
	name := httpBinary
	if o.Unfenced || o.Broken != "" {
		name = labBinary
	}
	binary := filepath.Join(o.BinDir, name)
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: make build puts it beside the tool", err)
	}
	addr, err := osproc.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fencepost-sink-")
	if err != nil {
		return nil, err
	}
	s := &osproc.Service{
		Name: "the sink's service " + name, Address: addr, Dir: dir, Log: o.Log, Ended: o.Ended,
		Command: func() *exec.Cmd {
			cmd := exec.Command(binary, "--listen="+addr, "--file="+filepath.Join(dir, "sink.db"))
			cmd.Env = append(os.Environ(), lab.BrokenEnv+"="+o.Broken)
			return cmd
		},
		Ready: func(ctx context.Context) error { return healthy(ctx, addr) },
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// healthy asks a service over a connection of its own.
func healthy(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+httpsink.PathHealth, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// remote is the HTTP sink.
type remote struct {
	*httpsink.Sink
	*lab.Door
}

func openHTTP(_ context.Context, at Place) (Client, error) {
	url := "http://" + at.Addr
	s, err := httpsink.New(url, httpsink.Options{RequestTimeout: at.Timeout})
	if err != nil {
		return nil, err
	}
	return remote{s, lab.NewDoor(url)}, nil
}

// Close implements Client.
func (r remote) Close() {
	r.Sink.Close()
	r.Door.Close()
}
