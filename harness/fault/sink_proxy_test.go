package fault

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/gateway"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/env/link/linktest"
	"fencepost/harness/record/history"
)

// writing has a client that sends writes through a proxy, each until it is answered by 200, for
// as long as the test lasts.
func writing(t *testing.T) *Env {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	t.Cleanup(srv.Close)
	g, err := gateway.Start(strings.TrimPrefix(srv.URL, "http://"))
	must(t, err)
	t.Cleanup(g.Close)
	l := linktest.Open(t, "sink", g.Addr(), httptap.New(httptap.Options{Exchange: func(_ *link.Link, x httptap.Exchange) { g.Near(x) }}))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			for !write(l.Addr(), n) {
				select {
				case <-stop:
					return
				default:
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return (&Env{Proxy: g}).Ready()
}

func write(addr string, n int) bool {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/effects", strings.NewReader("x"))
	if err != nil {
		return false
	}
	req.Header.Set("Fencing-Token", "1")
	req.Header.Set("Idempotency-Key", fmt.Sprint(n))
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// What a proxy did counts by what taps read on both of its sides.
func TestProxiesMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inert bool
		proofs
	}{
		"sink-slow-uploads":           {false, proofs{true, "the slowest took", true, "reads pass the proxy"}},
		"sink-slow-uploads nobody":    {true, proofs{false, "the slowest took", true, "reads pass the proxy"}},
		"sink-broken-uploads":         {false, proofs{true, "were not answered and did not come out whole", true, "reads pass the proxy"}},
		"sink-broken-uploads nobody":  {true, proofs{false, " 0 were not answered and did not come out whole", true, "reads pass the proxy"}},
		"sink-doubled-uploads":        {false, proofs{true, "in more copies than went in", true, "reads pass the proxy"}},
		"sink-doubled-uploads nobody": {true, proofs{false, " 0 came out in more copies", true, "reads pass the proxy"}},
		"sink-answering-proxy":        {false, proofs{true, "were answered and had not come out", true, "reads pass the proxy"}},
		"sink-answering-proxy nobody": {true, proofs{false, " 0 were answered and had not", true, "reads pass the proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault, _, _ := strings.Cut(name, " ")
			env, spec := writing(t), Spec{Fault: fault, Targets: []string{SinkTarget}}
			if c.inert {
				env.Inert = FamilyProxy
			}
			if fault == "sink-slow-uploads" {
				spec.Latency = map[bool]time.Duration{false: 200 * time.Millisecond, true: time.Minute}[c.inert] // no write takes a minute by itself
			}
			since := history.Now()
			mustProveAfter(t, env, spec, func() {
				for env.Proxy.Seen(since).Near < 10 { // half of them may be what came again
					time.Sleep(time.Millisecond)
				}
			}, c.proofs)
		})
	}
	f, err := New(Spec{Fault: "sink-doubled-uploads", Targets: []string{SinkTarget}})
	must(t, err)
	if _, err := f.Inject(t.Context(), (&Env{}).Ready(), nil); err == nil {
		t.Error("a proxy that is not there did something")
	}
	if _, err := New(Spec{Fault: "sink-slow-uploads", Targets: []string{SinkTarget}}); err == nil {
		t.Error("an upload that is late by nothing")
	}
}
