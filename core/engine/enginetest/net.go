package enginetest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"fencepost/core/forward"
	"fencepost/core/store"
)

// simNet carries a process's HTTP requests to other processes through its simulated
// network.
type simNet struct{ p *process }

var errNoAnswer = errors.New("the other side is gone")

// RoundTrip implements http.RoundTripper.
func (n *simNet) RoundTrip(r *http.Request) (*http.Response, error) {
	w := n.p.w
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var about struct {
		ID  string `json:"id"`
		Job struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	_ = json.NewDecoder(bytes.NewReader(body)).Decode(&about) // of several enqueues the first
	what := cmp.Or(about.ID, about.Job.ID)
	if what == "" { // about a schedule or a shard, or a ping
		what = fmt.Sprintf("%x", sha256.Sum256(body))
	}
	to := w.named(r.URL.Host)
	w.count("forward")
	var answer *http.Response
	err = n.p.peers.Call(r.Context(), r.URL.Path+" "+what, func() {
		if to == nil || to.isCrashed() {
			return
		}
		rec, req := httptest.NewRecorder(), r.Clone(r.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		forward.Handler(to.eng).ServeHTTP(rec, req)
		if to.answered() { // or nobody is there to
			answer = rec.Result()
		}
	})
	switch {
	case store.OutcomeOf(err) == store.Fail, err == nil && to == nil:
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: errNoAnswer}
	case err != nil:
		return nil, err
	case answer == nil:
		return nil, errNoAnswer
	}
	return answer, nil
}

// named is the process of that name, which is its address too.
func (w *World) named(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		if p.name == name {
			return p
		}
	}
	return nil
}
