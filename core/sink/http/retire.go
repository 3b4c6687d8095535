package httpsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"fencepost/core/sink"
)

// retire is the body of a request to remove resources, retired its answer.
type (
	retire struct {
		Issuer    string   `json:"issuer"`
		Below     int64    `json:"below"`
		Resources []string `json:"resources"`
	}
	retired struct {
		Removed int `json:"removed"`
	}
)

var _ sink.Retirer = (*Sink)(nil)

// Retire implements sink.Retirer, if the sink of the service does. After a lost answer the
// number is of what the last copy removed.
func (s *Sink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (int, error) {
	c := &call{op: "retire resources of " + issuer, method: http.MethodPost, path: PathRetire, header: http.Header{}}
	if err := sink.CheckRetire(issuer, below, resources); err != nil {
		return 0, c.refused(err)
	}
	var err error
	if c.body, err = json.Marshal(retire{issuer, below, resources}); err != nil {
		return 0, c.refused(err)
	}
	if len(c.body) > MaxPayload {
		return 0, c.refused(fmt.Errorf("%d resources make a body of %d bytes, more than %d: retire them in parts", len(resources), len(c.body), MaxPayload))
	}
	var done retired
	err = s.ask(ctx, c, &done)
	return done.Removed, err
}

func (h handler) retire(w http.ResponseWriter, req *http.Request) {
	body, ok := bodyOf(w, req, MaxPayload)
	if !ok {
		return
	}
	var in retire
	err := json.Unmarshal(body, &in)
	if err == nil {
		err = sink.CheckRetire(in.Issuer, in.Below, in.Resources)
	}
	r, can := h.sink.(sink.Retirer)
	if err == nil && !can {
		err = errors.New("the sink of this service removes no resources")
	}
	if err != nil {
		invalid(w, fmt.Errorf(`not {"issuer": …, "below": a token, "resources": […]}: %w`, err))
		return
	}
	n, err := r.Retire(req.Context(), in.Issuer, in.Below, in.Resources...)
	if err != nil {
		undecided(w, err)
		return
	}
	reply(w, http.StatusOK, retired{n})
}
