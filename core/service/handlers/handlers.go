package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Headers of a request.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderToken    = "Fencing-Token"
	HeaderResource = "Fencing-Resource"
	HeaderKind     = "Job-Kind"
	HeaderQueue    = "Job-Queue"
	HeaderAttempt  = "Job-Attempt"
	HeaderSchedule = "Schedule-Key"
	HeaderNominal  = "Schedule-Time"
)

// AnyHost allows every host.
const AnyHost = "*"

// HTTP makes requests.
type HTTP struct {
	// Target is where jobs go that name no URL; "" for nowhere.
	Target string
	// Hosts are those that jobs may name in their URLs, as host or host:port, in lower
	// case; AnyHost for all.
	Hosts []string
	// Client makes the requests; default: NewClient's.
	Client *http.Client
}

// request is the payload of a job.
type request struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// maxShown bounds what is kept of an answer that was no success, in bytes.
const maxShown = 300

var methods = []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Check reports a payload of which no request can be made, as a *job.InvalidError.
func (h *HTTP) Check(payload []byte) error {
	r, err := h.parse(payload)
	if err == nil {
		_, err = h.address(r)
	}
	return err
}

func bad(field, format string, args ...any) error {
	return &job.InvalidError{Field: "payload" + field, Reason: fmt.Sprintf(format, args...)}
}

// parse reads a payload. What it refuses no process can run.
func (h *HTTP) parse(payload []byte) (request, error) {
	var r request
	if len(payload) > 0 {
		d := json.NewDecoder(bytes.NewReader(payload))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return r, bad("", `is not {"url", "method", "headers", "body"}: %v`, err)
		}
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if !slices.Contains(methods, r.Method) {
		return r, bad(".method", "is %q: want %s", r.Method, strings.Join(methods, ", "))
	}
	for name, value := range r.Headers {
		if name == "" || strings.ContainsAny(name, " \r\n:") || strings.ContainsAny(value, "\r\n") {
			return r, bad(".headers", "has %q, which is no header", name)
		}
		if h.reserved(name) {
			return r, bad(".headers", "has %s, which the scheduler sets", name)
		}
	}
	if u, err := url.Parse(r.URL); r.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
		return r, bad(".url", "is %q: want http(s)://host/path, without a password", r.URL)
	}
	return r, nil
}

// address is where a request goes. What it refuses another process may run: it is a matter
// of settings.
func (h *HTTP) address(r request) (string, error) {
	if r.URL == "" {
		if h.Target == "" {
			return "", bad(".url", "is missing, and this scheduler has no default target")
		}
		return h.Target, nil
	}
	if u, err := url.Parse(r.URL); err != nil || !h.allowed(u) {
		return "", bad(".url", "is %q: its host is not among those that are allowed here", r.URL)
	}
	return r.URL, nil
}

func (h *HTTP) reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case HeaderKey, HeaderToken, HeaderResource, HeaderKind, HeaderQueue, HeaderAttempt, HeaderSchedule, HeaderNominal, "Host", "Content-Length":
		return true
	}
	return false
}

func (h *HTTP) allowed(u *url.URL) bool {
	return slices.Contains(h.Hosts, AnyHost) || slices.Contains(h.Hosts, strings.ToLower(u.Host)) || slices.Contains(h.Hosts, strings.ToLower(u.Hostname()))
}

// Run is the handler. What cannot become a request goes to the dead letter queue, whose
// jobs keep their payloads; what may not be made here waits for a process that may.
func (h *HTTP) Run(ctx context.Context, t *worker.Task) error {
	r, err := h.parse(t.Run.Job.Payload)
	if err != nil {
		return job.Permanent(err)
	}
	address, err := h.address(r)
	if err != nil {
		return job.NotHere(err)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(r.Body))
	if err != nil {
		return job.Permanent(err)
	}
	h.head(req, r, t.Run, t.Resource())
	if !t.Valid() {
		return errors.New("http: the run's shard is not trusted any more: nothing was sent")
	}
	res, err := h.client().Do(req)
	if err != nil {
		return fmt.Errorf("http: no answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxShown))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("http: %s: %s", res.Status, strings.ToValidUTF8(strings.TrimSpace(string(text)), "?"))
	}
	// Read to its end, the connection is used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	return nil
}

func (h *HTTP) head(req *http.Request, r request, run job.Run, resource string) {
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", "fencepost-scheduler")
	req.Header.Set(HeaderKey, string(run.Job.ID))
	req.Header.Set(HeaderToken, run.ID.String())
	req.Header.Set(HeaderResource, resource)
	req.Header.Set(HeaderKind, run.Job.Kind)
	req.Header.Set(HeaderQueue, run.Job.Queue)
	req.Header.Set(HeaderAttempt, strconv.Itoa(run.Attempt))
	if o := run.Job.Occurrence; !o.IsZero() {
		req.Header.Set(HeaderSchedule, url.QueryEscape(o.Schedule))
		req.Header.Set(HeaderNominal, time.UnixMilli(o.Nominal).UTC().Format(time.RFC3339Nano))
	}
}

// stay goes nowhere else than where it is sent.
var stay = NewClient(func(rt http.RoundTripper) http.RoundTripper { return rt })

// NewClient is a client that follows no redirects. The environment's proxies are not
// used. Wrap may watch its requests.
func NewClient(wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     wrap(&http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (h *HTTP) client() *http.Client {
	if h.Client != nil {
		return h.Client
	}
	return stay
}
