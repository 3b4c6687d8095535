package api

import (
	"context"
	_ "embed"
	"net/http"
	"time"
)

// Description is the API in OpenAPI 3.1.
//
//go:embed openapi.yaml
var Description []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(Description)
}

// status is the answer to a probe.
type status struct {
	Status string `json:"status"`
}

// probeTimeout bounds what a probe waits for the database.
const probeTimeout = 2 * time.Second

// health is whether the database answers, by a quorum.
func (s *server) health(r *http.Request) (reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	if err := s.o.Reader.Ping(ctx); err != nil {
		return reply{}, err
	}
	return reply{body: status{"ok"}}, nil
}

// ready is whether this process should be given requests.
func (s *server) ready(r *http.Request) (reply, error) {
	if err := s.o.Ready(); err != nil {
		return reply{}, problem{Status: http.StatusServiceUnavailable, Code: "not-ready", Detail: err.Error()}
	}
	return s.health(r)
}
