package httpsink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// DefaultTimeout is that of Options.
const DefaultTimeout = 2 * time.Second

// Options configure a Sink.
type Options struct {
	// RequestTimeout bounds the wait for the answer to one copy of a request; then the
	// identical request is sent on another connection. Default DefaultTimeout.
	RequestTimeout time.Duration
	// Transport makes the connections, of TLS say. Default: one of the Sink's own, without
	// a proxy. It must not repeat requests of itself.
	Transport http.RoundTripper
	// Header is sent with every request: Authorization, say.
	Header http.Header
}

// Sink is a client of a remote sink. Safe for concurrent use. Close it.
type Sink struct {
	base    string
	timeout time.Duration
	header  http.Header
	http    *http.Client
	traced  bool // the transport tells when a request gets a connection
	close   func()
}

var _ sink.Sink = (*Sink)(nil)

// New returns a client of the sink at a URL such as http://sink:8080 or
// https://example.org/sink. Nothing is sent yet.
func New(base string, o Options) (*Sink, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("httpsink: %q is not a URL such as http://sink:8080", base)
	}
	s := &Sink{base: strings.TrimSuffix(base, "/"), timeout: o.RequestTimeout, header: o.Header, close: func() {}}
	if s.timeout <= 0 {
		s.timeout = DefaultTimeout
	}
	if o.Transport == nil {
		t := &http.Transport{DialContext: (&net.Dialer{Timeout: s.timeout}).DialContext, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}
		o.Transport, s.close, s.traced = t, t.CloseIdleConnections, true
	}
	s.http = &http.Client{
		Transport: o.Transport,
		// A redirect is no decision, and what it leads to may be another service.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Close closes the connections that are idle.
func (s *Sink) Close() { s.close() }

// call is one operation, of as many copies as it takes.
type call struct {
	op, method, path string
	header           http.Header
	body             []byte
	query            string // with its question mark
	uncertain        int    // copies that may have been carried out
}

// Raise implements sink.Sink. A token that is already the highest is Applied.
func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	c := &call{op: fmt.Sprintf("raise %s to %d", resource, token), method: http.MethodPost, path: PathRaise}
	if err := c.claim(resource, issuer, token); err != nil {
		return sink.Answer{}, err
	}
	return s.decide(ctx, c, issuer)
}

// Accept implements sink.Sink. A resend after a lost answer is answered Duplicate if an
// earlier copy was accepted.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	c := &call{op: fmt.Sprintf("accept %s on %s with token %d", e.Key, resource, token), method: http.MethodPost, path: PathEffects, body: e.Payload}
	if err := c.claim(resource, issuer, token); err != nil {
		return sink.Answer{}, err
	}
	if err := checkName(HeaderKey, e.Key); err != nil {
		return sink.Answer{}, c.refused(fmt.Errorf("%w: without a key a resend could not be told from a second effect", err))
	}
	if len(e.Payload) > MaxPayload {
		return sink.Answer{}, c.refused(fmt.Errorf("a payload of %d bytes is larger than %d", len(e.Payload), MaxPayload))
	}
	c.header.Set(HeaderKey, e.Key)
	c.header.Set(HeaderIntent, intentOf([]byte(e.Intent)))
	c.header.Set(HeaderValue, strconv.FormatInt(e.Value, 10))
	return s.decide(ctx, c, issuer)
}

func (c *call) claim(resource, issuer string, token int64) error {
	c.header = http.Header{}
	for name, v := range map[string]string{HeaderResource: resource, HeaderIssuer: issuer} {
		if err := checkName(name, v); err != nil {
			return c.refused(err)
		}
		c.header.Set(name, v)
	}
	if err := (sink.Call{Resource: resource, Issuer: issuer, Token: token}).Check(); err != nil {
		return c.refused(err)
	}
	c.header.Set(HeaderToken, strconv.FormatInt(token, 10))
	return nil
}

// refused is the error of a call that was never sent.
func (c *call) refused(err error) error {
	return &store.Error{Op: c.op, Outcome: store.Fail, Cause: fmt.Errorf("httpsink: %w", err)}
}

// decide sends copies of the call until one is decided or ctx ends.
func (s *Sink) decide(ctx context.Context, c *call, issuer string) (a sink.Answer, err error) {
	err = s.settle(ctx, c, func(r *http.Response, body []byte) error {
		a, err = decision(r, body, c.header, issuer)
		return err
	})
	if err == nil && c.uncertain > 0 {
		err = sink.Unsettled(c.op, a)
	}
	return a, err
}

// finalError is an answer that is an error, and no reason to ask again.
type finalError struct {
	error
	// done: the request may have been carried out all the same.
	done bool
}

func (e *finalError) Unwrap() error { return e.error }

// remedies are for statuses that speak of the request or of who sent it, and which the
// next copy would be answered with too.
var remedies = map[int]string{
	http.StatusMovedPermanently:            elsewhere,
	http.StatusPermanentRedirect:           elsewhere,
	http.StatusUnauthorized:                "the service does not know this client: set Options.Header",
	http.StatusForbidden:                   "this client may not do that: look at its rights and at Options.Header",
	http.StatusNotFound:                    "no sink answers there: check the URL",
	http.StatusMethodNotAllowed:            "no sink answers there: check the URL",
	http.StatusGone:                        "no sink answers there: check the URL",
	http.StatusNotImplemented:              "no sink answers there: check the URL",
	http.StatusRequestEntityTooLarge:       tooLarge,
	http.StatusRequestURITooLong:           tooLarge,
	http.StatusRequestHeaderFieldsTooLarge: tooLarge,
}

const (
	elsewhere = "the sink has moved: use the URL that Location names"
	tooLarge  = "what is in front of the sink takes no requests of that size: send a smaller payload, read fewer keys at once, or raise its limit"
)

// noDecision is the error of an answer without a decision. A request that is too large is
// refused before it gets anywhere; of any other answer that some gateway gives nobody
// knows what it stands for.
func noDecision(r *http.Response, body []byte, what string) error {
	err := fmt.Errorf("status %s%s: %s", r.Status, what, said(body))
	if remedy := remedies[r.StatusCode]; remedy != "" {
		return &finalError{fmt.Errorf("%w: %s", err, remedy), remedy != tooLarge}
	}
	return err
}

// decision reads an answer to Raise or Accept, whose request had these headers.
func decision(r *http.Response, body []byte, asked http.Header, issuer string) (sink.Answer, error) {
	var a sink.Answer
	result := r.Header.Get(HeaderResult)
	a.Result = sink.ResultOf(result)
	if a.Result != 0 || result == resultIssuer || result == resultInvalid {
		if err := CheckRepeated(r.Header, asked); err != nil {
			return a, err
		}
	}
	switch {
	case a.Result != 0:
	case result == resultIssuer:
		return a, &finalError{error: &sink.IssuerError{Resource: asked.Get(HeaderResource), Bound: r.Header.Get(HeaderIssuer), Used: issuer}}
	case result == resultInvalid:
		return a, &finalError{error: errors.New(said(body))}
	default:
		return a, noDecision(r, body, " without "+HeaderResult+", which is no decision")
	}
	if r.StatusCode != statuses[result] {
		return a, fmt.Errorf("status %s with %s %s", r.Status, HeaderResult, result)
	}
	for name, to := range map[string]*int64{HeaderSeen: &a.Seen, HeaderFirst: &a.FirstToken, HeaderSeq: &a.Seq} {
		v := r.Header.Get(name)
		if v == "" && name == HeaderFirst {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return a, fmt.Errorf("%s %q in an answer: not a number", name, v)
		}
		*to = n
	}
	return a, nil
}

// said is what an answer's body says, for an error.
func said(body []byte) string {
	var p problem
	if json.Unmarshal(body, &p) == nil && p.Error != "" {
		return p.Error
	}
	return fmt.Sprintf("%.300q", body)
}

// settle sends copies of a call until read takes an answer or ctx ends.
func (s *Sink) settle(ctx context.Context, c *call, read func(*http.Response, []byte) error) error {
	var pause sink.Pause
	var last error
	for {
		if ctx.Err() != nil {
			e := &store.Error{Op: c.op, Outcome: store.Fail, Cause: errors.Join(context.Cause(ctx), last)}
			if c.uncertain > 0 && c.method != http.MethodGet {
				e.Outcome = store.Unknown
			}
			return e
		}
		start := time.Now()
		resp, body, sent, err := s.send(ctx, c)
		if err == nil {
			err = read(resp, body)
		}
		if err == nil {
			return nil
		}
		if final := (*finalError)(nil); errors.As(err, &final) {
			e := &store.Error{Op: c.op, Outcome: store.Fail, Permanent: true, Cause: final.error}
			if is := (*sink.IssuerError)(nil); c.method != http.MethodGet && (final.done || c.uncertain > 0 && !errors.As(err, &is)) {
				e.Outcome = store.Unknown // an earlier copy may have met another opinion
			}
			return e
		}
		last = err
		if sent {
			c.uncertain++
		}
		if time.Since(start) < s.timeout {
			pause.Wait(ctx)
		}
	}
}

// send sends one copy and reads its answer, the whole of it. Without a connection, sent is
// false: nothing has left this process.
func (s *Sink) send(ctx context.Context, c *call) (resp *http.Response, body []byte, sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, c.method, s.base+c.path+c.query, nil)
	if err != nil {
		return nil, nil, false, err
	}
	for _, h := range []http.Header{s.header, c.header} {
		for name, v := range h {
			req.Header[name] = v
		}
	}
	if c.method != http.MethodGet {
		// A body that cannot be read twice, even an empty one: the transport repeats requests
		// with an idempotency key of itself if it can.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	}
	resp, err = s.http.Do(req)
	if err != nil {
		return nil, nil, connected.Load() || !s.traced && !neverDialled(err), err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return resp, body, true, err
}
