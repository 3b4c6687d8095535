package httpsink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type entry struct {
	resource string
	sink.Entry
}

type rig struct {
	*Server
	t       *testing.T
	client  *http.Client
	entries []entry
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, client: &http.Client{Transport: &http.Transport{}}}
	srv, err := Listen(New(func(res string, e sink.Entry) { r.entries = append(r.entries, entry{res, e}) }), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r.Server = srv
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ask makes a request and returns "status result/error seen seq value".
func (r *rig) ask(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.Addr()+path, bytes.NewBufferString(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, v
}

func (r *rig) want(method, path, body string, status int, want string) {
	r.t.Helper()
	got, v := r.ask(method, path, body)
	text := ""
	for _, k := range []string{"result", "error", "value", "seen", "seq"} {
		if x, ok := v[k]; ok {
			text += fmt.Sprintf("%s=%v ", k, x)
		}
	}
	if text = strings.TrimSpace(text); got != status || !strings.Contains(text, want) {
		r.t.Errorf("%s %s %s: %d %q, want %d and %q in it", method, path, body, got, text, status, want)
	}
}

// The rules of core/sink, by HTTP, and the ledger that they leave.
func TestDecisions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	raise := func(token int) string { return fmt.Sprintf(`{"issuer":"l","token":%d}`, token) }
	effect := func(token int, key string, value int) string {
		return fmt.Sprintf(`{"issuer":"l","token":%d,"key":%q,"value":%d}`, token, key, value)
	}
	r.want("GET", "/res", "", 200, "value=0 seen=0 seq=0")
	r.want("POST", "/res/raise", raise(3), 200, "result=applied seen=3 seq=1")
	r.want("POST", "/res/raise", raise(3), 200, "result=applied seen=3 seq=1") // again: nothing new
	r.want("POST", "/res/effect", effect(3, "a", 1), 200, "result=applied seen=3 seq=2")
	r.want("POST", "/res/effect", effect(3, "a", 1), 200, "result=duplicate seen=3 seq=2")
	r.want("POST", "/res/effect", effect(3, "a", 9), 409, "result=conflict seen=3")
	r.want("POST", "/res/raise", raise(2), 409, "result=stale seen=3")
	r.want("POST", "/res/effect", effect(5, "b", 2), 200, "result=applied seen=5 seq=3") // raises too
	r.want("POST", "/res/effect", effect(4, "c", 3), 409, "result=stale seen=5")
	r.want("POST", "/res/effect", effect(6, "b", 2), 200, "result=duplicate seen=6 seq=3") // raises, then answers
	r.want("GET", "/res", "", 200, "value=2 seen=6 seq=4")
	r.want("POST", "/res/effect", `{"issuer":"l","token":4,"key":"late","value":2,"fenced":false}`, 200, "result=applied seen=6 seq=5")
	r.want("POST", "/res/raise", `{"issuer":"other","token":9}`, 400, `accepts tokens of issuer "l" only`)
	r.want("POST", "/other/raise", raise(1), 200, "seq=1")

	var ledger []string
	for _, e := range r.entries {
		ledger = append(ledger, fmt.Sprintf("%s %d %s %s %d %s %d", e.resource, e.Seq, e.Kind, e.Issuer, e.Token, e.Key, e.Value))
	}
	want := []string{"res 1 raise l 3  0", "res 2 accept l 3 a 1", "res 3 accept l 5 b 2", "res 4 raise l 6  0", "res 5 accept l 4 late 2", "other 1 raise l 1  0"}
	if strings.Join(ledger, "\n") != strings.Join(want, "\n") {
		t.Errorf("ledger:\n%s\nwant:\n%s", strings.Join(ledger, "\n"), strings.Join(want, "\n"))
	}
	if got := r.Resources(); strings.Join(got, " ") != "other res" {
		t.Errorf("resources %v", got)
	}
}

// What can never be carried out is refused with the reason, and leaves nothing behind.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for body, want := range map[string]string{
		`{"token":1}`:                          "issuer is missing",
		`{"issuer":"l"}`:                       "token 0",
		`{"issuer":"l","token":1}`:             "key is missing",
		`{"issuer":"l","token":1,"key":"k"}`:   "value is missing",
		`{"issuer":"l","token":1,"kee":"k"}`:   `unknown field "kee"`,
		`token=1`:                              "not the JSON",
		`{"issuer":"l","token":1,"key":"k"} x`: "data after",
	} {
		r.want("POST", "/res/effect", body, 400, want)
	}
	r.want("POST", "/res/raise", `{"issuer":"l","token":1,"key":"k"}`, 400, "nothing else")
	r.want("POST", "/res", `{}`, 404, "POST /NAME/raise")
	r.want("POST", "/res/effect", `{"issuer":"l","key":"`+strings.Repeat("x", maxBody)+`"}`, 400, "too large")
	if len(r.entries) != 0 || len(r.Resources()) != 0 {
		t.Errorf("left behind: %v %v", r.entries, r.Resources())
	}
}

// After Close only the harness is answered.
func TestClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want("POST", "/res/raise", `{"issuer":"l","token":3}`, 200, "applied")
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A handler that was under way.
	if _, err := r.decide("res", call{Issuer: "l", Token: 9}, false, true); err == nil {
		t.Error("a late request is decided")
	}
	a, err := r.Raise(t.Context(), "res", "l", 7)
	if err != nil || a.Result != sink.Applied || a.Seq != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if st, err := r.Read(t.Context(), "res"); err != nil || st.Seen != 7 || st.Seq != 2 || st.Issuer != "l" {
		t.Errorf("%+v, %v", st, err)
	}
}

// Many at once: one entry a key, numbers without gaps, tokens that never fall.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"issuer":"l","token":%d,"key":"k%d","value":%d}`, 1+i/2, i/2, i/2)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Addr()+"/res/effect", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := r.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	wg.Wait()
	top, keys := int64(0), map[string]bool{}
	for i, e := range r.entries {
		if e.Seq != int64(i+1) || e.Token < top || e.Key != "" && keys[e.Key] {
			t.Errorf("entry %d: %+v after token %d", i, e, top)
		}
		top, keys[e.Key] = e.Token, true
	}
}
