package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"fencepost/core/job"
	"fencepost/core/worker"
)

// The kinds.
const (
	KindHTTP = "http"
	KindLog  = "log"
)

// Set are handlers by kind, and what they ask of payloads.
type Set struct {
	http   *HTTP
	logger *slog.Logger
}

// New makes the set.
func New(h *HTTP, logger *slog.Logger) *Set { return &Set{h, logger} }

// Handlers are the handlers by kind.
func (s *Set) Handlers() map[string]worker.Handler {
	return map[string]worker.Handler{KindHTTP: s.http.Run, KindLog: s.log}
}

// Check reports a job that none of the handlers can run, as a *job.InvalidError.
func (s *Set) Check(kind string, payload []byte) error {
	switch kind {
	case KindHTTP:
		return s.http.Check(payload)
	case KindLog:
		return nil
	}
	kinds := slices.Sorted(maps.Keys(s.Handlers()))
	return &job.InvalidError{Field: "kind", Reason: fmt.Sprintf("is %q: this scheduler runs %s", kind, strings.Join(kinds, " and "))}
}

// log writes the run into the log.
func (s *Set) log(_ context.Context, t *worker.Task) error {
	s.logger.Info("running job of kind log", "job", t.Run.Job.ID, "queue", t.Run.Job.Queue, "run", t.Run.ID.String(), "attempt", t.Run.Attempt,
		"payload", string(t.Run.Job.Payload), "schedule", t.Run.Job.Occurrence.Schedule)
	return nil
}
