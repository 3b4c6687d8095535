package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fencepost/harness/env/gateway"
	"fencepost/harness/record/history"
)

func init() {
	const seen = "By what taps read on both sides of the proxy, which is not its own word: "
	register(Kind{
		Name: "sink-slow-uploads", On: SinkService, Family: FamilyProxy,
		About:  "a proxy before the sink holds back the end of each write's first copy, and delivers it though its client may have given up",
		Proof:  seen + "at least one write took as long as the latency from its first byte to its answer. *passes*",
		Params: []string{"latency"},
		Needs:  Needs{Proxy: true},
		New: func(s Spec) (Fault, error) {
			if s.Latency <= 0 {
				return nil, errors.New("the latency by which the end of an upload is late must be above 0")
			}
			return proxied{gateway.Slow, s.Latency}, nil
		},
	}, Kind{
		Name: "sink-broken-uploads", On: SinkService, Family: FamilyProxy,
		About: "a proxy before the sink breaks the first copy of each write off before its end, and ends both connections",
		Proof: seen + "at least 3 copies of writes were not answered and did not come out whole. *passes*",
		Needs: Needs{Proxy: true},
		New:   plain(proxied{mode: gateway.Break}),
	}, Kind{
		Name: "sink-doubled-uploads", On: SinkService, Family: FamilyProxy,
		About: "a proxy before the sink sends the first copy of each write twice at once, and passes on the first answer",
		Proof: seen + "of at least 3 writes more copies came out than went in. *passes*",
		Needs: Needs{Proxy: true},
		New:   plain(proxied{mode: gateway.Double}),
	}, Kind{
		Name: "sink-answering-proxy", On: SinkService, Family: FamilyProxy,
		About: "a proxy before the sink answers the first copy of each write by itself: in turn with 502, and with a decision that it has passed on for another write",
		Proof: seen + "at least 3 answers were given of which no copy of the write had come out. *passes*",
		Needs: Needs{Proxy: true},
		New:   plain(proxied{mode: gateway.Answer}),
	})
}

// proxied is what the proxy before the sink does to writes.
type proxied struct {
	mode gateway.Mode
	late time.Duration
}

var errNoProxy = errors.New("this run's sink is not reached by HTTP, so no proxy is before it")

func (p proxied) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	g := env.Proxy
	if g == nil {
		return nil, errNoProxy
	}
	if err := passes(ctx, g.Addr()); err != nil {
		return nil, fmt.Errorf("before the fault: %w", err)
	}
	a := &activeProxied{proxied: p, env: env, since: history.Now()}
	return a, env.do(func() error { g.Set(p.mode, p.late); return nil })
}

// passes asks the sink through the proxy.
func passes(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("a read does not pass the proxy: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a read through the proxy is answered %s", resp.Status)
	}
	return nil
}

type activeProxied struct {
	proxied
	env   *Env
	since int64
}

// enoughWrites is how many writes must have been disturbed: one may be on its way when it is counted.
const enoughWrites = 3

func (a *activeProxied) Probe(context.Context) Evidence {
	c := a.env.Proxy.Seen(a.since)
	n, what := 0, ""
	switch a.mode {
	case gateway.Slow:
		return Evidence{Proven: c.Longest >= a.late, Text: fmt.Sprintf("of %d copies of writes that came out the slowest took %.1f s", c.Far, c.Longest.Seconds())}
	case gateway.Break:
		n, what = c.Broken, "were not answered and did not come out whole"
	case gateway.Double:
		n, what = c.Doubled, "came out in more copies than went in"
	default:
		n, what = c.Alone, "were answered and had not come out"
	}
	return Evidence{Proven: n >= enoughWrites, Text: fmt.Sprintf("of %d copies of writes that went in, and %d that came out, %d %s", c.Near, c.Far, n, what)}
}

func (a *activeProxied) Heal(context.Context) error {
	return a.env.do(func() error { a.env.Proxy.Set(gateway.Pass, 0); return nil })
}

// After: what comes through the proxy from now on is carried once.
func (a *activeProxied) After(ctx context.Context) Evidence {
	if err := passes(ctx, a.env.Proxy.Addr()); err != nil {
		return Evidence{Text: firstLine(err)}
	}
	return Evidence{Proven: true, Text: "reads pass the proxy as before"}
}
