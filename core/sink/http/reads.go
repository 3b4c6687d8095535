package httpsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"fencepost/core/sink"
)

// maxAnswer bounds an answer: a payload as base64, or a page of the ledger.
const maxAnswer = 4 << 20

// neverDialled: no connection was made, by what a transport says that tells no more.
func neverDialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// ask makes a request whose answer is JSON.
func (s *Sink) ask(ctx context.Context, c *call, into any) error {
	return s.settle(ctx, c, func(r *http.Response, body []byte) error {
		switch {
		case r.StatusCode == http.StatusOK:
			if err := CheckRepeated(r.Header, c.header); err != nil {
				return err
			}
			if err := json.Unmarshal(body, into); err != nil {
				return fmt.Errorf("not the JSON of an answer: %w", err)
			}
			return nil
		case r.Header.Get(HeaderResult) == resultInvalid:
			return &finalError{error: errors.New(said(body))}
		}
		return noDecision(r, body, "")
	})
}

func of(c *call, resource string) (*call, error) {
	c.header = http.Header{}
	if err := checkName(HeaderResource, resource); err != nil {
		return nil, c.refused(err)
	}
	c.header.Set(HeaderResource, resource)
	return c, nil
}

// Read implements sink.Sink.
func (s *Sink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	c, err := of(&call{op: "read " + resource, method: http.MethodGet, path: PathState}, resource)
	if err != nil {
		return sink.State{}, err
	}
	for _, k := range keys {
		if err := checkName(HeaderKey, k); err != nil {
			return sink.State{}, c.refused(err)
		}
		c.header.Add(HeaderKey, k)
	}
	var st sink.State
	if err := s.ask(ctx, c, &st); err != nil {
		return sink.State{}, err
	}
	if st.Applied == nil {
		st.Applied = map[string]int64{}
	}
	return st, nil
}

// Ledger implements sink.Sink, page by page.
func (s *Sink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	var out []sink.Entry
	last := int64(0)
	for {
		c, err := of(&call{op: "read ledger of " + resource, method: http.MethodGet, path: PathLedger, query: fmt.Sprintf("?after=%d", last)}, resource)
		if err != nil {
			return nil, err
		}
		var page ledger
		if err := s.ask(ctx, c, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if e.Seq != last+1 && len(out) > 0 { // those before the first were forgotten
				return nil, c.refused(fmt.Errorf("entry %d follows entry %d: the ledger has lost some", e.Seq, last))
			}
			last = e.Seq
			out = append(out, e)
		}
		if !page.More || len(page.Entries) == 0 {
			return out, nil
		}
	}
}

// Forget implements sink.Sink. After a lost answer the number is of what the last copy dropped.
func (s *Sink) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	c, err := of(&call{op: "forget keys of " + resource, method: http.MethodPost, path: PathForget}, resource)
	if err != nil {
		return 0, err
	}
	if c.body, err = json.Marshal(forget{Before: before}); err != nil {
		return 0, c.refused(err)
	}
	var done forgotten
	err = s.ask(ctx, c, &done)
	return done.Dropped, err
}

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
