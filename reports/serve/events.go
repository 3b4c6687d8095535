package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"fencepost/harness/record/progress"
)

const (
	// heartbeat is how often a stream that has nothing to say says so: a connection
	// that is gone is noticed, and nobody between closes an idle one.
	heartbeat = 15 * time.Second
	// lookAgain is how often the list is looked at for those who watch it.
	lookAgain = time.Second
)

// stream is an open answer of server-sent events.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// open begins a stream. A browser that loses it asks again after two seconds.
func openStream(w http.ResponseWriter) stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return stream{w, http.NewResponseController(w)}
}

func (s stream) begin() error { return s.write("retry: 2000\n\n") }

func (s stream) heartbeat() error { return s.write(": still here\n\n") }

// send sends an event; without an id it leaves where a browser would go on.
func (s stream) send(id, name string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.write(fmt.Sprintf("%sevent: %s\ndata: %s\n\n", id, name, b))
}

func (s stream) write(text string) error {
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// after is the number of the last event that the browser has: Last-Event-ID when it
// connects again, the parameter after when it does first.
func after(r *http.Request) (int64, error) {
	s := r.Header.Get("Last-Event-ID")
	if s == "" {
		s = r.URL.Query().Get("after")
	}
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is not the number of an event", printable(s))
	}
	return n, nil
}

// runEvents passes on a run's events, from the one after the last that the browser
// has, under their own numbers, until the run is over. To a browser that has them
// all it says that nothing follows (204), which keeps it from asking again.
func (s *Server) runEvents(w http.ResponseWriter, r *http.Request) {
	e, ok := s.index.Find(r.PathValue("name"))
	if !ok {
		http.Error(w, "there is no such run", http.StatusNotFound)
		return
	}
	n, err := after(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, err := s.open(e, progressFile)
	if err != nil {
		http.Error(w, "the run has no "+progressFile, http.StatusNotFound)
		return
	}
	f.Close()
	path := filepath.Join(e.dir, progressFile)
	if !held(path) {
		if rest, err := progress.Read(path, n); err == nil && len(rest) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	st := openStream(w)
	if r.Method == http.MethodHead {
		return
	}
	defer s.metrics.stream("run")()
	if st.begin() == nil {
		s.pass(r.Context(), st, path, n)
	}
}

// pass sends what a file has and will have.
func (s *Server) pass(ctx context.Context, st stream, path string, n int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, done := make(chan progress.Event), make(chan error, 1)
	go func() {
		done <- progress.Follow(ctx, path, n, func(e progress.Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		var err error
		select {
		case e := <-events:
			err = st.send(strconv.FormatInt(e.Seq, 10), string(e.Kind), e)
		case <-tick.C:
			err = st.heartbeat()
		case err := <-done:
			_ = st.send("", "over", over(err))
			return
		case <-s.stop.Done():
			err = s.stop.Err()
		}
		if err != nil {
			cancel()
			<-done
			return
		}
	}
}

// over says why nothing follows; "" is the run's own end.
func over(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, progress.ErrAbandoned):
		return "The run’s process ended without saying how the run ended."
	}
	return err.Error()
}

// listEvents says when the list has changed.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) {
	st := openStream(w)
	if r.Method == http.MethodHead {
		return
	}
	defer s.metrics.stream("list")()
	if st.begin() != nil {
		return
	}
	look, beat := time.NewTicker(lookAgain), time.NewTicker(heartbeat)
	defer look.Stop()
	defer beat.Stop()
	said := r.URL.Query().Get("version")
	for {
		var err error
		_, version, _ := s.index.List()
		if now := strconv.FormatUint(version, 10); now != said {
			said, err = now, st.send("", "list", now)
		}
		if err == nil {
			select {
			case <-look.C:
			case <-beat.C:
				err = st.heartbeat()
			case <-r.Context().Done():
				return
			case <-s.stop.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
