package httpsink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// ledgerPage is how many entries a page of the ledger has: with the longest names, each
// byte of them written as six, it stays below maxAnswer.
const ledgerPage = 600

// Handler enforces the contract in front of a sink. It answers a request when the sink has
// decided it, and what the sink stored then is what it acknowledges: a durable sink makes a
// durable service. An error of the sink whose outcome is not a failure is answered by 503
// without a decision.
func Handler(s sink.Sink) http.Handler {
	h := handler{s}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathRaise, h.raise)
	mux.HandleFunc("POST "+PathEffects, h.effect)
	mux.HandleFunc("GET "+PathState, h.state)
	mux.HandleFunc("GET "+PathLedger, h.ledger)
	mux.HandleFunc("POST "+PathForget, h.forget)
	mux.HandleFunc("POST "+PathRetire, h.retire)
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, struct{}{}) })
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		reply(w, http.StatusNotFound, problem{fmt.Sprintf("%s %s: there are POST %s, %s, %s, %s and GET %s, %s, %s", req.Method, req.URL.Path, PathRaise, PathEffects, PathForget, PathRetire, PathState, PathLedger, PathHealth)})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		Repeat(w.Header(), req.Header)
		mux.ServeHTTP(w, req)
	})
}

type handler struct{ sink sink.Sink }

// claim is what the headers of a decision say.
type claim struct {
	resource, issuer string
	token            int64
}

func claimOf(h http.Header) (c claim, err error) {
	if c.resource, err = resourceOf(h); err != nil {
		return c, err
	}
	token, err := one(h, HeaderToken)
	if err != nil {
		return c, err
	}
	if c.token, err = parseToken(token); err != nil {
		return c, err
	}
	if c.issuer, err = one(h, HeaderIssuer); err != nil {
		return c, err
	}
	c.issuer = cmp.Or(c.issuer, c.resource)
	return c, checkName(HeaderIssuer, c.issuer)
}

func resourceOf(h http.Header) (string, error) {
	name, err := one(h, HeaderResource)
	if err != nil {
		return "", err
	}
	return name, checkName(HeaderResource, name)
}

func (h handler) raise(w http.ResponseWriter, req *http.Request) {
	c, err := claimOf(req.Header)
	if err != nil {
		invalid(w, err)
		return
	}
	a, err := h.sink.Raise(req.Context(), c.resource, c.issuer, c.token)
	answer(w, a, err)
}

func (h handler) effect(w http.ResponseWriter, req *http.Request) {
	c, err := claimOf(req.Header)
	if err != nil {
		invalid(w, err)
		return
	}
	e, err := effectOf(req.Header)
	if err != nil {
		invalid(w, err)
		return
	}
	body, ok := bodyOf(w, req, MaxPayload)
	if !ok {
		return
	}
	if e.Payload = body; e.Intent == "" {
		e.Intent = intentOf(body)
	}
	a, err := h.sink.Accept(req.Context(), c.resource, c.issuer, c.token, e)
	answer(w, a, err)
}

// bodyOf reads the whole body, or answers: half a request that a fault let through decides
// nothing. Only one that is too large is invalid. What is slow or breaks off may arrive the
// next time.
func bodyOf(w http.ResponseWriter, req *http.Request, limit int64) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		invalid(w, fmt.Errorf("the body: %w: more than %d bytes", err, limit))
	} else if err != nil {
		undecided(w, fmt.Errorf("the body did not arrive: %w", err))
	}
	return body, err == nil
}

// effectOf is what the headers of an effect say; its intent is "" if they do not say it.
func effectOf(h http.Header) (e sink.Effect, err error) {
	if e.Key, err = one(h, HeaderKey); err != nil {
		return e, err
	}
	if err := checkName(HeaderKey, e.Key); err != nil {
		return e, fmt.Errorf("%w: without a key a resend could not be told from a second effect", err)
	}
	value, err := one(h, HeaderValue)
	if err != nil {
		return e, err
	}
	if value != "" {
		if e.Value, err = strconv.ParseInt(value, 10, 64); err != nil {
			return e, fmt.Errorf("%s %q: not a whole number", HeaderValue, value)
		}
	}
	if e.Intent, err = one(h, HeaderIntent); err != nil || e.Intent == "" {
		return e, err
	}
	return e, checkIntent(e.Intent)
}

// answer writes a decision, or that there is none.
func answer(w http.ResponseWriter, a sink.Answer, err error) {
	var is *sink.IssuerError
	switch {
	case errors.As(err, &is):
		w.Header().Set(HeaderIssuer, is.Bound)
		decided(w, resultIssuer, problem{is.Error()})
		return
	case err != nil:
		undecided(w, err)
		return
	}
	h := w.Header()
	h.Set(HeaderSeen, strconv.FormatInt(a.Seen, 10))
	h.Set(HeaderSeq, strconv.FormatInt(a.Seq, 10))
	if a.FirstToken > 0 {
		h.Set(HeaderFirst, strconv.FormatInt(a.FirstToken, 10))
	}
	decided(w, a.Result.String(), struct {
		Result string `json:"result"`
	}{a.Result.String()})
}

// undecided answers what the sink did not decide: the caller may ask again.
func undecided(w http.ResponseWriter, err error) {
	if store.OutcomeOf(err) == store.Fail {
		w.Header().Set("Retry-After", "1")
	}
	reply(w, http.StatusServiceUnavailable, problem{err.Error()})
}

func invalid(w http.ResponseWriter, err error) { decided(w, resultInvalid, problem{err.Error()}) }

func decided(w http.ResponseWriter, result string, body any) {
	w.Header().Set(HeaderResult, result)
	reply(w, statuses[result], body)
}

// reply writes JSON. Who does not get it asks again. An answer is of its moment: one from a
// cache would be of another.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (h handler) state(w http.ResponseWriter, req *http.Request) {
	res, err := resourceOf(req.Header)
	if err != nil {
		invalid(w, err)
		return
	}
	st, err := h.sink.Read(req.Context(), res, req.Header.Values(HeaderKey)...)
	if err != nil {
		undecided(w, err)
		return
	}
	reply(w, http.StatusOK, st)
}

func (h handler) ledger(w http.ResponseWriter, req *http.Request) {
	res, err := resourceOf(req.Header)
	after := int64(0)
	if q := req.URL.Query().Get("after"); err == nil && q != "" {
		if after, err = strconv.ParseInt(q, 10, 64); err != nil || after < 0 {
			err = fmt.Errorf("after=%q: not the number of an entry", q)
		}
	}
	if err != nil {
		invalid(w, err)
		return
	}
	rest, err := sink.LedgerAfter(req.Context(), h.sink, res, after, ledgerPage+1)
	if err != nil {
		undecided(w, err)
		return
	}
	entries := append([]sink.Entry{}, rest[:min(ledgerPage, len(rest))]...) // none is [], not null
	page := ledger{Entries: entries, More: len(rest) > ledgerPage}
	reply(w, http.StatusOK, page)
}

func (h handler) forget(w http.ResponseWriter, req *http.Request) {
	body, ok := bodyOf(w, req, 1<<10)
	if !ok {
		return
	}
	res, err := resourceOf(req.Header)
	var f forget
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		err = dec.Decode(&f)
	}
	if err == nil && f.Before.IsZero() {
		err = errors.New("before is missing")
	}
	if err != nil {
		invalid(w, fmt.Errorf(`not {"before": "2006-01-02T15:04:05Z"} for a %s: %w`, HeaderResource, err))
		return
	}
	n, err := h.sink.Forget(req.Context(), res, f.Before)
	if err != nil {
		undecided(w, err)
		return
	}
	reply(w, http.StatusOK, forgotten{n})
}
