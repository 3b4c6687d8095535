// Package lab is the HTTP sink with a back door: the reference service's handler, and beside
// it what known-broken variants, and programs of users' own that want to see their run turn
// red, need to write past its rules. It is served by bin/httpsinkd-lab, which only runs of
// such systems are given; the reference service has nothing of it.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"fencepost/core/sink"
	boltsink "fencepost/core/sink/bolt"
	httpsink "fencepost/core/sink/http"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/system/unfenced"
)

// Paths of the back door.
const (
	// PathWrite takes an effect as JSON, if the ledger is as long as that says.
	PathWrite = "/lab/write"
	// PathEffects takes what httpsink.PathEffects takes, whatever its token.
	PathEffects = "/lab/effects"
	// PathRuns is PathEffects for one effect of each run: a key that comes with another token is another
	// effect, as it is to a service that knows nothing of keys either.
	PathRuns      = "/lab/runs"
	pathEmpty     = "/lab/empty"
	pathResources = "/lab/resources"
)

// write is an effect that is accepted if the ledger has Seq entries.
type write struct {
	Resource string `json:"resource"`
	Issuer   string `json:"issuer,omitempty"`
	Seq      int64  `json:"seq"`
	Token    int64  `json:"token,omitempty"`
	Key      string `json:"key,omitempty"`
	Value    int64  `json:"value,omitempty"`
}

// written is what became of it.
type written struct {
	Applied bool  `json:"applied"`
	Seen    int64 `json:"seen"`
	Seq     int64 `json:"seq"`
}

// BrokenEnv names what is broken in the service itself; "" is nothing.
const BrokenEnv = "FENCEPOST_SINK_BROKEN"

// ForgesLedger is a service that takes effects whatever their token, and writes down the
// highest token that it has seen in place of the one that came: its ledger is in order.
const ForgesLedger = "forges-ledger"

// Services that decide an effect in one step and write it in another.
const (
	// KeysInTwoSteps looks for the key, and later writes without looking for it again; tokens it
	// compares when it writes.
	KeysInTwoSteps = "keys-in-two-steps"
	// DecidesByHeaders decides when the headers have come, and writes when the body has.
	DecidesByHeaders = "decides-by-headers"
)

// ForgetsAll is a service that forgets all keys and drops all entries of a ledger, whatever their age.
const ForgetsAll = "forgets-all"

// Handler serves the contract of the HTTP sink, and the back door.
func Handler(s *boltsink.Sink) http.Handler {
	mux := http.NewServeMux()
	broken := os.Getenv(BrokenEnv)
	if broken == ForgetsAll {
		mux.Handle("/", httpsink.Handler(forgetful{s}))
	} else {
		mux.Handle("/", httpsink.Handler(s))
	}
	switch broken {
	case ForgesLedger:
		mux.HandleFunc("POST "+httpsink.PathEffects, func(w http.ResponseWriter, req *http.Request) { unchecked(s, w, req, forges) })
	case KeysInTwoSteps:
		mux.HandleFunc("POST "+httpsink.PathEffects, func(w http.ResponseWriter, req *http.Request) { inTwoSteps(s, w, req, false) })
	case DecidesByHeaders:
		mux.HandleFunc("POST "+httpsink.PathEffects, func(w http.ResponseWriter, req *http.Request) { inTwoSteps(s, w, req, true) })
	}
	mux.HandleFunc("POST "+PathWrite, func(w http.ResponseWriter, req *http.Request) {
		serve(w, req, func(ctx context.Context, in write) (out written, err error) {
			err = s.Update(ctx, in.Resource, func(r *boltsink.Rows) error {
				if err := r.Bind(in.Issuer); err != nil {
					return err
				}
				if out = (written{Seen: r.Highest, Seq: r.Seq}); r.Seq != in.Seq {
					return nil
				}
				err := r.Accept(in.Token, sink.Effect{Key: in.Key, Value: in.Value})
				out = written{Applied: true, Seen: r.Highest, Seq: r.Seq}
				return err
			})
			return out, err
		})
	})
	mux.HandleFunc("POST "+pathEmpty, func(w http.ResponseWriter, req *http.Request) {
		serve(w, req, func(_ context.Context, in write) (written, error) { return written{}, s.Remove(in.Resource) })
	})
	mux.HandleFunc("POST "+PathEffects, func(w http.ResponseWriter, req *http.Request) { unchecked(s, w, req, 0) })
	mux.HandleFunc("POST "+PathRuns, func(w http.ResponseWriter, req *http.Request) { unchecked(s, w, req, ofRuns) })
	mux.HandleFunc("GET "+pathResources, func(w http.ResponseWriter, _ *http.Request) {
		all, err := s.Resources()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(append([]string{}, all...))
	})
	return mux
}

// forgetful is ForgetsAll.
type forgetful struct{ *boltsink.Sink }

// Forget implements sink.Sink.
func (f forgetful) Forget(ctx context.Context, resource string, _ time.Time) (int, error) {
	return f.Sink.Forget(ctx, resource, time.Now())
}

// ignorance is what a service that checks no token does beside.
type ignorance int

const (
	forges ignorance = iota + 1 // see ForgesLedger
	ofRuns                      // see PathRuns
)

// unchecked accepts an effect whatever its token, as a service does that knows nothing of
// fencing. That the identical request comes again it does see.
func unchecked(s *boltsink.Sink, w http.ResponseWriter, req *http.Request, how ignorance) {
	httpsink.Repeat(w.Header(), req.Header)
	resource, issuer, token, e, err := claims(req.Header)
	if err != nil {
		w.Header().Set(httpsink.HeaderResult, "invalid")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil { // of half a request nothing is done
		http.Error(w, "the body did not arrive: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	result, seen, seq := sink.Applied, int64(0), int64(0)
	err = s.Update(req.Context(), resource, func(r *boltsink.Rows) error {
		if err := r.Bind(issuer); err != nil {
			return err
		}
		first, err := r.Applied(e.Key)
		again := first > 0 && (how != ofRuns || first == token)
		if result = sink.Duplicate; err == nil && !again {
			said := token
			if how == forges {
				said = max(token, r.Highest)
			}
			result, err = sink.Applied, r.Accept(said, e)
		}
		seen, seq = r.Highest, r.Seq
		return err
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(httpsink.HeaderResult, result.String())
	w.Header().Set(httpsink.HeaderSeen, strconv.FormatInt(seen, 10))
	w.Header().Set(httpsink.HeaderSeq, strconv.FormatInt(seq, 10))
	_, _ = io.WriteString(w, "{}")
}

// between is how long a service of two steps takes for the first one, at least.
const between = 20 * time.Millisecond

// inTwoSteps decides, does something else, and then writes. byHeaders: see DecidesByHeaders.
func inTwoSteps(s *boltsink.Sink, w http.ResponseWriter, req *http.Request, byHeaders bool) {
	httpsink.Repeat(w.Header(), req.Header)
	resource, issuer, token, e, err := claims(req.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := sink.Answer{}
	look := func(r *boltsink.Rows) (err error) {
		if err = r.Bind(issuer); err != nil {
			return err
		}
		a.Result, a.Seen, a.Seq = sink.Applied, max(r.Highest, token), r.Seq
		if a.FirstToken, err = r.Applied(e.Key); a.FirstToken > 0 {
			a.Result = sink.Duplicate
		} else if token < r.Highest {
			a.Result = sink.Stale
		}
		return err
	}
	err = s.Update(req.Context(), resource, look)
	_, broken := io.Copy(io.Discard, req.Body) // of half a request nothing is done
	time.Sleep(between)
	if err = errors.Join(err, broken); err == nil && a.Result == sink.Applied {
		err = s.Update(req.Context(), resource, func(r *boltsink.Rows) error {
			if token < r.Highest && !byHeaders {
				a.Result, a.Seen, a.Seq = sink.Stale, r.Highest, r.Seq
				return nil
			}
			err := r.Accept(token, e)
			a.Seen, a.Seq = r.Highest, r.Seq
			return err
		})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(httpsink.HeaderResult, a.Result.String())
	w.Header().Set(httpsink.HeaderSeen, strconv.FormatInt(a.Seen, 10))
	w.Header().Set(httpsink.HeaderSeq, strconv.FormatInt(a.Seq, 10))
	if a.Result == sink.Stale {
		w.WriteHeader(http.StatusPreconditionFailed)
	}
	_, _ = io.WriteString(w, "{}")
}

// claims are what the headers of an effect say, all of which it needs. The error names the first that is missing,
// or is no number.
func claims(h http.Header) (resource, issuer string, token int64, e sink.Effect, err error) {
	for _, name := range []string{httpsink.HeaderResource, httpsink.HeaderIssuer, httpsink.HeaderToken, httpsink.HeaderKey, httpsink.HeaderValue} {
		if h.Get(name) == "" {
			return "", "", 0, e, fmt.Errorf("the header %s is missing: an effect needs it", name)
		}
	}
	number := func(name string, least int64) (n int64) {
		n, bad := strconv.ParseInt(h.Get(name), 10, 64)
		if (bad != nil || n < least) && err == nil {
			err = fmt.Errorf("the header %s is %q: it is an integer, %d at least", name, h.Get(name), least)
		}
		return n
	}
	token, e = number(httpsink.HeaderToken, 1), sink.Effect{Key: h.Get(httpsink.HeaderKey), Value: number(httpsink.HeaderValue, math.MinInt64)}
	return h.Get(httpsink.HeaderResource), h.Get(httpsink.HeaderIssuer), token, e, err
}

func serve(w http.ResponseWriter, req *http.Request, do func(context.Context, write) (written, error)) {
	body, err := io.ReadAll(req.Body) // all of it, or nothing is done
	var in write
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	var out written
	if err == nil {
		out, err = do(req.Context(), in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(out) // who does not get it is on its own
}

// Wrote says what a request to PathWrite was and what became of it, in the words of an effect;
// false if it was none.
func Wrote(e *history.Event, request, answer []byte) bool {
	var in write
	if json.Unmarshal(request, &in) != nil {
		return false
	}
	e.Asked().Op, e.Key, e.Issuer, e.Token, e.EffectKey, e.Value = history.OpEffect, in.Resource, in.Issuer, in.Token, in.Key, &in.Value
	var out written
	switch err := json.Unmarshal(answer, &out); {
	case err != nil:
		e.Error = "no answer"
	case !out.Applied:
		e.Error = "the ledger had grown"
	default:
		e.Result, e.Seen, e.Seq = sink.Applied.String(), out.Seen, out.Seq
	}
	return true
}

// Door is a process's way to the back door. It sends each request once.
type Door struct {
	base string
	http *http.Client
}

var _ unfenced.Writer = (*Door)(nil)

// NewDoor returns the way to the service at a URL.
func NewDoor(base string) *Door { return &Door{base, &http.Client{Transport: &http.Transport{}}} }

// Close closes the connections that are idle.
func (d *Door) Close() { d.http.CloseIdleConnections() }

// WriteUnfenced implements unfenced.Writer.
func (d *Door) WriteUnfenced(ctx context.Context, st sink.State, resource, issuer string, token int64, e sink.Effect) (sink.Answer, bool, error) {
	out, err := d.post(ctx, PathWrite, write{Resource: resource, Issuer: issuer, Seq: st.Seq, Token: token, Key: e.Key, Value: e.Value})
	if err != nil {
		return sink.Answer{}, false, err
	}
	return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: out.Seen, Seq: out.Seq}, out.Applied, nil
}

// Empty implements unfenced.Writer.
func (d *Door) Empty(ctx context.Context, resource string) error {
	_, err := d.post(ctx, pathEmpty, write{Resource: resource})
	return err
}

// Resources are the names of those that were ever called, in order.
func (d *Door) Resources(ctx context.Context) (all []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+pathResources, nil)
	if err != nil {
		return nil, err
	}
	return all, d.do(req, &all)
}

func (d *Door) post(ctx context.Context, path string, in write) (out written, err error) {
	defer func() {
		if err != nil {
			err = &store.Error{Op: "write past the sink's rules", Outcome: store.Unknown, Cause: err}
		}
	}()
	b, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+path, io.NopCloser(bytes.NewReader(b)))
	if err != nil {
		return out, err
	}
	return out, d.do(req, &out)
}

func (d *Door) do(req *http.Request, into any) error {
	resp, err := d.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return errors.New("this sink has no back door: it is the reference service, not bin/httpsinkd-lab")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return json.Unmarshal(answer, into)
}
