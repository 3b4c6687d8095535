package sinks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	httpsink "fencepost/core/sink/http"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks/lab"
)

// answerHTTP is Kind.Answer of the HTTP sink.
func answerHTTP(worker string, x httptap.Exchange) (history.Event, bool) {
	e := history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteAnswer, TS: x.Answered, Details: &history.Details{Asked: &history.Asked{Worker: worker, Sent: x.Sent}}}
	h := x.Request.Header
	e.Key, e.Issuer, e.EffectKey = h.Get(httpsink.HeaderResource), h.Get(httpsink.HeaderIssuer), h.Get(httpsink.HeaderKey)
	e.Token = number(h.Get(httpsink.HeaderToken))
	switch x.Request.Method + " " + x.Request.URL.Path {
	case "POST " + httpsink.PathRaise:
		e.Asked().Op, e.EffectKey = history.OpRaise, ""
	case "POST " + httpsink.PathEffects, "POST " + lab.PathEffects:
		value := number(h.Get(httpsink.HeaderValue))
		e.Asked().Op, e.Value = history.OpEffect, &value
	case "GET " + httpsink.PathState:
		e.Asked().Op, e.Issuer, e.EffectKey, e.Token = history.OpGet, "", "", 0
		return e, read(&e, x)
	case "POST " + lab.PathWrite:
		return e, lab.Wrote(&e, x.Body, x.Answer)
	default:
		return e, false
	}
	e.Issuer = cmp.Or(e.Issuer, e.Key)
	return e, decided(&e, x)
}

// decided adds a decision, or why there is none.
func decided(e *history.Event, x httptap.Exchange) bool {
	if x.Response == nil {
		e.Error = "no answer"
		return true
	}
	h := x.Response.Header
	switch result := h.Get(httpsink.HeaderResult); result {
	case "applied", "duplicate", "stale", "conflict":
		e.Result, e.Seen, e.Seq = result, number(h.Get(httpsink.HeaderSeen)), number(h.Get(httpsink.HeaderSeq))
	default:
		e.Error = fmt.Sprintf("%s, %s %q", x.Response.Status, httpsink.HeaderResult, result)
	}
	return true
}

// read adds what a read showed.
func read(e *history.Event, x httptap.Exchange) bool {
	var st struct{ Value, Seen, Seq int64 }
	switch {
	case x.Response == nil:
		e.Error = "no answer"
	case x.Response.StatusCode != http.StatusOK || json.Unmarshal(x.Answer, &st) != nil:
		e.Error = x.Response.Status
	default:
		e.Value, e.Seen, e.Seq = &st.Value, st.Seen, st.Seq
	}
	return true
}

// number is 0 for what is none: the service has refused that.
func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
