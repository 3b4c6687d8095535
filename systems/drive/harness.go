package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ready tells the harness that this process can work.
func ready() error {
	_, err := control(context.Background(), "/ready", nil)
	return err
}

// point stands still if the harness wants to. It returns for how long to stay, usually 0.
func point(name, proc, key string) (time.Duration, error) {
	answer, err := control(context.Background(), "/point", map[string]string{"point": name, "proc": proc, "key": key})
	return time.Duration(answer.HoldMS) * time.Millisecond, err
}

type answer struct {
	HoldMS int64  `json:"hold_ms"`
	Error  string `json:"error"`
}

func control(ctx context.Context, path string, body any) (a answer, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, variable("CONTROL")+path, bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return a, err
	}
	if res.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: %s", path, a.Error)
	}
	return a, nil
}

const (
	// sinkTimeout bounds one request to the sink, sinkPatience all copies of it.
	sinkTimeout  = time.Second
	sinkPatience = 8 * time.Second
)

// repeated is what an answer of the sink repeats of its request.
var repeated = []string{"Fencing-Resource", "Fencing-Token", "Idempotency-Key"}

// sink is one client's way to what the locks protect. Each call is recorded, and sent again
// until it is answered.
type sink struct {
	record  *record
	proc    string
	effects string // the path of effects: what the service checks
	http    http.Client
}

// What a service checks, by the path of its effects. The others know nothing of tokens; ofRuns takes an
// effect again that comes with the key of another run.
const (
	byToken = "/effects"
	byKey   = "/lab/effects"
	ofRuns  = "/lab/runs"
)

func newSink(r *record, proc, effects string) *sink {
	return &sink{record: r, proc: proc, effects: effects, http: http.Client{Timeout: sinkTimeout, Transport: &http.Transport{}}}
}

// outcome is what became of a request to the sink.
type outcome int

const (
	unanswered outcome = iota // or refused after an unanswered copy
	refused
	done
)

// raise makes a token known, and waits for that.
func (s *sink) raise(resource, issuer string, token int64) (outcome, error) {
	head, err := s.record.invoke(s.proc, "raise", resource, event{"issuer": issuer, "token": token})
	if err != nil {
		return unanswered, err
	}
	return s.finish(head, s.send(http.MethodPost, "/raise", claim(resource, issuer, token)))
}

// effect writes a value. before is called between its invoke and its first copy.
func (s *sink) effect(resource, issuer string, token int64, key string, value, decided int64, before func() error) (outcome, error) {
	head, err := s.record.invoke(s.proc, "effect", resource, event{
		"issuer": issuer, "token": token, "effect_key": key, "value": value, "decided_at": decided,
	})
	if err != nil {
		return unanswered, err
	}
	if err := before(); err != nil {
		return unanswered, err
	}
	headers := claim(resource, issuer, token)
	headers["Idempotency-Key"], headers["Fencing-Value"] = key, strconv.FormatInt(value, 10)
	return s.finish(head, s.send(http.MethodPost, s.effects, headers))
}

// get reads the value.
func (s *sink) get(resource string) (value int64, known bool, err error) {
	head, err := s.record.invoke(s.proc, "get", resource, nil)
	if err != nil {
		return 0, false, err
	}
	a := s.send(http.MethodGet, "/state", map[string]string{"Fencing-Resource": resource})
	if a.state == nil {
		return 0, false, s.record.end(head, "unknown", event{"error": "no answer"})
	}
	st := a.state
	return st.Value, true, s.record.end(head, "ok", event{"value": st.Value, "seen": st.Seen, "seq": st.Seq})
}

func claim(resource, issuer string, token int64) map[string]string {
	return map[string]string{"Fencing-Resource": resource, "Fencing-Issuer": issuer, "Fencing-Token": strconv.FormatInt(token, 10)}
}

// decision is what the sink answered; without a result and a state: nothing.
type decision struct {
	result    string
	seen, seq int64
	state     *struct{ Value, Seen, Seq int64 }
	copies    int
}

// send sends identical copies until one is answered.
func (s *sink) send(method, path string, headers map[string]string) (d decision) {
	for until := awake() + sinkPatience; d.copies == 0 || awake() < until; time.Sleep(20 * time.Millisecond) {
		d.copies++
		if s.try(method, path, headers, &d) {
			return d
		}
	}
	return d
}

func (s *sink) try(method, path string, headers map[string]string, d *decision) bool {
	req, err := http.NewRequest(method, variable("SINK")+path, nil)
	if err != nil {
		return false
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return false
	}
	for _, k := range repeated {
		if res.Header.Get(k) != headers[k] {
			return false // the answer to another request
		}
	}
	if method == http.MethodGet && res.StatusCode == http.StatusOK {
		return json.Unmarshal(body, &d.state) == nil
	}
	result := res.Header.Get("Fencing-Result")
	seen, err1 := strconv.ParseInt(res.Header.Get("Fencing-Seen"), 10, 64)
	seq, err2 := strconv.ParseInt(res.Header.Get("Fencing-Seq"), 10, 64)
	if result == "" || err1 != nil || err2 != nil {
		return false // no decision, whatever the status says
	}
	d.result, d.seen, d.seq = result, seen, seq
	return true
}

// finish records the end and says whether the sink did as it was asked.
func (s *sink) finish(head event, d decision) (outcome, error) {
	known := event{"result": d.result, "seen": d.seen, "seq": d.seq}
	switch {
	case d.result == "":
		return unanswered, s.record.end(head, "unknown", event{"error": "no answer"})
	case d.result == "applied" || d.result == "duplicate":
		return done, s.record.end(head, "ok", known)
	case d.copies > 1: // refused, but an earlier copy may have been accepted
		return unanswered, s.record.end(head, "unknown", event{"error": d.result + " after an unanswered copy"})
	}
	return refused, s.record.end(head, "fail", known)
}
