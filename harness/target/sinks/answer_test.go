package sinks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"fencepost/core/sink"
	httpsink "fencepost/core/sink/http"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/env/link/linktest"
	"fencepost/harness/record/history"
)

// noted collects the notes of a link to a service.
type noted struct {
	mu    sync.Mutex
	notes []history.Event
}

// through is a link of w1 to a service, which is read.
func (n *noted) through(t *testing.T, k Kind, addr string) *link.Link {
	t.Helper()
	tap := httptap.New(httptap.Options{
		Exchange: func(l *link.Link, x httptap.Exchange) {
			if e, ok := k.Answer(l.From(), x); ok {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.notes = append(n.notes, e)
			}
		},
		Unread: func(l *link.Link, reason error) { t.Errorf("%s: %v", l.Name(), reason) },
	})
	return linktest.Open(t, "sink", addr, tap)
}

func (n *noted) all() []history.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes)
}

// text is a note in short.
func text(e history.Event) string {
	value := ""
	if e.Value != nil {
		value = fmt.Sprint(" ", *e.Value)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s/%d %s%s: %s%s %d %d", e.Asked().Op, e.Key, e.Issuer, e.Token, e.EffectKey, value, e.Result, e.Error, e.Seen, e.Seq))
}

// What a client is told is what its link carried, refusals and reads included, and the
// ledger's times lie between the request and the answer.
func TestAnswer(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	s, direct := started(t, k, Options{Unfenced: true})
	n := &noted{}
	c, err := k.Open(t.Context(), Place{Addr: n.through(t, k, s.Addr()).Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	effect := func(key, intent string, value int64) sink.Effect {
		return sink.Effect{Key: key, Intent: intent, Value: value}
	}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := c.Raise(ctx, "r", "l", 5); return err }, "raise r l/5 : applied 5 1"},
		{func() error { _, err := c.Read(ctx, "r"); return err }, "get r /0  0:  5 1"},
		{func() error { _, err := c.Accept(ctx, "r", "l", 5, effect("k", "i", 7)); return err }, "effect r l/5 k 7: applied 5 2"},
		{func() error { _, err := c.Accept(ctx, "r", "l", 5, effect("k", "i", 7)); return err }, "effect r l/5 k 7: duplicate 5 2"},
		{func() error { _, err := c.Accept(ctx, "r", "l", 5, effect("k", "j", 8)); return err }, "effect r l/5 k 8: conflict 5 2"},
		{func() error { _, err := c.Accept(ctx, "r", "l", 4, effect("late", "i", 8)); return err }, "effect r l/4 late 8: stale 5 2"},
		{func() error { _, err := c.Raise(ctx, "r", "l", 4); return err }, "raise r l/4 : stale 5 2"},
		{func() error { _, err := c.Read(ctx, "r", "k"); return err }, "get r /0  7:  5 2"},
		{func() error {
			_, applied, err := c.WriteUnfenced(ctx, sink.State{Seq: 2}, "r", "l", 3, effect("back", "", 9))
			if !applied {
				return fmt.Errorf("not applied: %w", err)
			}
			return err
		}, "effect r l/3 back 9: applied 5 3"},
		{func() error {
			_, _, err := c.WriteUnfenced(ctx, sink.State{Seq: 2}, "r", "l", 3, effect("back2", "", 9))
			return err
		}, "effect r l/3 back2 9: the ledger had grown 0 0"},
		{func() error { _, err := c.Ledger(ctx, "r"); return err }, ""},
	} {
		before := len(n.all())
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.want, err)
		}
		var got string
		for _, e := range n.all()[before:] {
			got += text(e)
			if e.Asked().Worker != "w1" || e.Asked().Sent <= 0 || e.TS < e.Asked().Sent || e.Proc != history.Harness {
				t.Errorf("%+v", e)
			}
		}
		if got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	ledger, err := direct.Ledger(ctx, "r")
	if err != nil || len(ledger) != 3 {
		t.Fatalf("%+v, %v", ledger, err)
	}
	for _, en := range ledger {
		notes := n.all()
		i := slices.IndexFunc(notes, func(e history.Event) bool { return e.Result == "applied" && e.Seq == en.Seq })
		if e := notes[i]; en.At < e.Asked().Sent || en.At > e.TS {
			t.Errorf("entry %d was decided at %d, between %d and %d", en.Seq, en.At, e.Asked().Sent, e.TS)
		}
	}
}

// A request that the service does not answer, as it is killed, is noted without an answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	s, _ := started(t, k, Options{})
	n := &noted{}
	l := n.through(t, k, s.Addr())
	if err := s.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr()+httpsink.PathEffects, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{httpsink.HeaderResource: "r", httpsink.HeaderToken: "3", httpsink.HeaderKey: "k", httpsink.HeaderValue: "9"} {
		req.Header.Set(name, v)
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := tr.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	for l.Counters().Up.PassedBytes == 0 { // the kernel takes them for it
		select {
		case err := <-failed:
			t.Fatal(err)
		default:
			runtime.Gosched()
		}
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Fatal("it answered")
	}
	for l.Counters().ConnsOpen > 0 {
		runtime.Gosched()
	}
	if notes := n.all(); len(notes) != 1 || text(notes[0]) != "effect r r/3 k 9: no answer 0 0" {
		t.Errorf("%+v", notes)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An answer that repeats another request is no answer to this one, whatever it says.
func TestAnswerToAnother(t *testing.T) {
	t.Parallel()
	ask := func(method, path string, names ...string) *http.Request {
		req := httptest.NewRequest(method, path, nil)
		for i, name := range names {
			req.Header.Set(name, fmt.Sprint(i+1))
		}
		return req
	}
	raise := ask("POST", httpsink.PathRaise, httpsink.HeaderResource, httpsink.HeaderToken)
	for name, c := range map[string]struct {
		request *http.Request
		answer  func(h http.Header)
		want    string
	}{
		"repeated":            {raise, func(h http.Header) { httpsink.Repeat(h, raise.Header) }, ""},
		"nothing":             {raise, func(http.Header) {}, `repeats Fencing-Resource ""`},
		"another token":       {raise, func(h http.Header) { httpsink.Repeat(h, raise.Header); h.Set(httpsink.HeaderToken, "9") }, `repeats Fencing-Token "9"`},
		"an effect's":         {raise, func(h http.Header) { httpsink.Repeat(h, raise.Header); h.Set(httpsink.HeaderKey, "k") }, `repeats Idempotency-Key "k"`},
		"of another resource": {ask("GET", httpsink.PathState, httpsink.HeaderResource), func(h http.Header) { h.Set(httpsink.HeaderResource, "9") }, `repeats Fencing-Resource "9"`},
	} {
		h := http.Header{httpsink.HeaderResult: {"applied"}, httpsink.HeaderSeen: {"5"}, httpsink.HeaderSeq: {"6"}}
		c.answer(h)
		e, ok := answerHTTP("w1", httptap.Exchange{Request: c.request, Response: &http.Response{StatusCode: http.StatusOK, Header: h}, Answer: []byte(`{"value":1,"seen":5,"seq":6}`)})
		if !ok || c.want == "" && (e.Error != "" || e.Result != "applied" || e.Seen != 5) ||
			c.want != "" && (!strings.Contains(e.Error, c.want) || e.Result != "" || e.Value != nil || e.Seen != 0) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// What lacks a header is told which.
func TestMissingHeaders(t *testing.T) {
	t.Parallel()
	k := found(t, HTTP)
	s, _ := started(t, k, Options{Unfenced: true})
	all := map[string]string{httpsink.HeaderResource: "r", httpsink.HeaderIssuer: "l", httpsink.HeaderToken: "3", httpsink.HeaderKey: "k", httpsink.HeaderValue: "9"}
	for name := range all {
		for _, bad := range []string{"", "x"} {
			if bad != "" && name != httpsink.HeaderToken && name != httpsink.HeaderValue {
				continue
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr()+"/lab/effects", nil)
			if err != nil {
				t.Fatal(err)
			}
			for n, v := range all {
				req.Header.Set(n, v)
			}
			want := "the header " + name + " is missing"
			if req.Header.Del(name); bad != "" {
				req.Header.Set(name, bad)
				want = "the header " + name + ` is "x"`
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var said struct{ Error string }
			err = json.NewDecoder(resp.Body).Decode(&said)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.HasPrefix(said.Error, want) {
				t.Errorf("%s: %d %q, %v", want, resp.StatusCode, said.Error, err)
			}
		}
	}
}
