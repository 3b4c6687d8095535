package broken

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"fencepost/core/clock"
	"fencepost/core/sink"
	httpsink "fencepost/core/sink/http"
	"fencepost/core/store"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

func init() {
	plant("sink-trusts-any-answer", only(workload.Hooks{Sink: trustsAnyAnswer}))
}

// trustsAnyAnswer takes each decision that comes for the one that it asked for.
func trustsAnyAnswer(cfg workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
	return &trustingSink{inner, "http://" + cfg.SinkAddr + httpsink.PathEffects, cfg.TTL / 6}
}

type trustingSink struct {
	sink.Sink
	url     string
	timeout time.Duration
}

func (s *trustingSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	op := "accept " + e.Key + " whatever the answer is to"
	for copies := 0; ; copies++ {
		a, err := s.send(ctx, resource, issuer, token, e)
		if err == nil && a.Result == sink.Stale && copies > 0 {
			return a, sink.Unsettled(op, a)
		}
		if err == nil {
			return a, nil
		}
		if stopped := clock.Go().Sleep(ctx, 20*time.Millisecond); stopped != nil {
			return sink.Answer{}, &store.Error{Op: op, Outcome: store.Unknown, Cause: errors.Join(stopped, err)}
		}
	}
}

var errUndecided = errors.New("no decision")

// send sends one copy.
func (s *trustingSink) send(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (a sink.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, nil)
	if err != nil {
		return a, err
	}
	for name, v := range map[string]string{
		httpsink.HeaderResource: resource, httpsink.HeaderIssuer: issuer, httpsink.HeaderToken: strconv.FormatInt(token, 10),
		httpsink.HeaderKey: e.Key, httpsink.HeaderIntent: hex.EncodeToString(e.Fingerprint()), httpsink.HeaderValue: strconv.FormatInt(e.Value, 10),
	} {
		req.Header.Set(name, v)
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return a, err
	}
	if a.Result = sink.ResultOf(resp.Header.Get(httpsink.HeaderResult)); a.Result == 0 {
		return a, errUndecided
	}
	a.Seen, _ = strconv.ParseInt(resp.Header.Get(httpsink.HeaderSeen), 10, 64)
	a.Seq, _ = strconv.ParseInt(resp.Header.Get(httpsink.HeaderSeq), 10, 64)
	return a, nil
}
