package workload

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"fencepost/core/forward"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/query"
	"fencepost/core/store/cassandra"
)

// apiServer serves the HTTP API of a worker's own scheduler on a socket, as schedulerd does, and has
// the client that asks it.
type apiServer struct {
	http   *http.Server
	client *apiClient
	ended  chan struct{}
}

// lastAPIAnswers is for how long requests may go on when the scheduler has ended.
const lastAPIAnswers = 5 * time.Second

// serveAPI serves the API of s at an address of this worker.
func (p *process) serveAPI(s *scheduler.Scheduler) (*apiServer, error) {
	j := p.cfg.Jobs
	host, _, err := net.SplitHostPort(j.Listen)
	if err != nil {
		return nil, fmt.Errorf("the API's address: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for requests to the API: %w", err)
	}
	o := api.Options{
		Scheduler: s, Token: rand.Text(), Now: p.clock.Wall, Logger: slog.New(warnings{p.log.Handler()}),
		Reader: query.New(query.Options{Shards: cassandra.NewShards(p.lockDB), Runs: cassandra.NewRuns(p.lockDB), Queues: s}),
	}
	h := api.Handler(o)
	if p.hooks.API != nil {
		h = p.hooks.API(p.cfg, h)
	}
	out := &apiServer{http: forward.NewServer(h), ended: make(chan struct{}), client: newAPIClient(listener.Addr().String(), o.Token, s)}
	go func() {
		defer close(out.ended)
		if err := out.http.Serve(listener); err != http.ErrServerClosed {
			p.log.Error("serving the API ended", "error", err)
		}
	}()
	return out, nil
}

func newAPIClient(addr, token string, s *scheduler.Scheduler) *apiClient {
	return &apiClient{
		base: "http://" + addr, token: token, shards: s,
		http: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: maxCommands}},
	}
}

// close lets what is on its way end, when the scheduler has ended.
func (s *apiServer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAPIAnswers)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.ended
	s.client.http.CloseIdleConnections()
}

// warnings is a handler of logs without the line that the API has for each request.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}
