package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fencepost/core/service/api"
)

func TestBadRequests(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for body, field := range map[string]string{
			`{}`:                             "kind",
			`[]`:                             "body",
			`{"kind": "log"`:                 "body",
			`{"kind": "log"} {}`:             "body",
			`{"kind": "log", "color": "r"}`:  "color",
			`{"Kind": "log"}`:                "Kind",
			`{"kind": "log", "kind": "bad"}`: "kind",
			`{"kind": 5}`:                    "kind",
			`{"kind": "none"}`:               "kind",
			`{"kind": "log", "taskId": "x"}`: "taskId",
			`{"kind": "log", "payload": 1, "params": 2}`:                                                "params",
			`{"kind": "log", "payload": {"a": 1, "a": 2}}`:                                              "payload.a",
			`{"kind": "log", "queue": "none"}`:                                                          "queue",
			`{"kind": "log", "cron": "* * * * *", "schedule": "now"}`:                                   "cron",
			`{"kind": "log", "cron": "* * *"}`:                                                          "cron",
			`{"kind": "log", "zone": "UTC"}`:                                                            "zone",
			`{"kind": "log", "schedule": "2026-03-29T25:00:00Z"}`:                                       "schedule",
			`{"kind": "log", "schedule": "2026-03-29T01:00:00.0001Z"}`:                                  "schedule",
			`{"kind": "log", "schedule": "1926-03-29T01:00:00Z"}`:                                       "schedule",
			`{"kind": "log", "schedule": "@every soon"}`:                                                "schedule",
			`{"kind": "log", "max_attempts": 0}`:                                                        "max_attempts",
			`{"kind": "log", "max_attempts": 1.5}`:                                                      "max_attempts",
			`{"kind": "log", "max_attempts": -1}`:                                                       "max_attempts",
			`{"kind": "log", "max_duration_seconds": 0}`:                                                "max_duration_seconds",
			`{"kind": "log", "max_duration_seconds": -1}`:                                               "max_duration_seconds",
			`{"kind": "log", "max_duration_seconds": 0.0001}`:                                           "max_duration_seconds",
			`{"kind": "log", "max_duration_seconds": 1e300}`:                                            "max_duration_seconds",
			`{"kind": "log", "rescue": "maybe"}`:                                                        "rescue",
			`{"kind": "log", "on_failure": "maybe"}`:                                                    "on_failure",
			`{"kind": "log", "retry": {}}`:                                                              "retry",
			`{"kind": "log", "retry": {"delays_seconds": [1, -1]}}`:                                     "retry.delays_seconds[1]",
			`{"kind": "log", "retry": {"base_seconds": 1, "jitter": 2}}`:                                "retry",
			`{"kind": "log", "then": [{"kind": "log"}, {"kind": "none"}]}`:                              "then[1].kind",
			`{"kind": "log", "then": [{"kind": "log", "queue": "x"}]}`:                                  "then[0].queue",
			`{"kind": "log", "idempotency_key": "` + strings.Repeat("k", 256) + `"}`:                    "idempotency_key",
			`{"kind": "log", "then": [` + strings.Repeat(`{"kind": "log"},`, 100) + `{"kind": "log"}]}`: "then",
		} {
			a := w.do("POST", "/jobs", body).want(w.T, 400, "invalid")
			if a.text1("errors", 0, "field") != field || a.text1("errors", 0, "reason") == "" {
				t.Errorf("%.80s: %s, want field %s", body, a.text, field)
			}
		}
		w.do("POST", "/jobs", `{"kind": "log"}`, "Content-Type: application/x-www-form-urlencoded").want(w.T, 415, "media-type")
		w.do("POST", "/jobs?queue=main", `{"kind": "log"}`).want(w.T, 400, "invalid")
		w.do("POST", "/jobs", `{"kind": "log", "payload": "`+strings.Repeat("x", api.DefaultMaxBody)+`"}`).want(w.T, 413, "too-large")
		for _, id := range []string{"x", "0-" + strings.Repeat("0", 32), "7-" + strings.Repeat("a", 32)} {
			for _, path := range []string{"GET ", "POST /run", "POST /cancel", "POST /retry", "GET /runs"} {
				method, tail, _ := strings.Cut(path, " ")
				if a := w.do(method, "/api/v1/jobs/"+id+tail, ""); a.status != 404 && (tail != "/runs" || a.status != 200) {
					t.Errorf("%s of %s: %s", path, id, a.text)
				}
			}
		}
		w.do("GET", "/nothing", "").want(w.T, 404, "no-route")
		if a := w.do("DELETE", "/jobs", "").want(w.T, 405, "method"); a.header.Get("Allow") != "POST" {
			t.Errorf("%v", a.header)
		}
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for _, bad := range []string{"", "Authorization: Bearer ", "Authorization: Bearer sesam2", "Authorization: Basic sesam", "Authorization: sesam", "Authorization: bearer sesam"} {
			if a := w.do("GET", "/api/v1/queues", "", bad).want(w.T, 401, "token"); a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q: %v", bad, a.header)
			}
		}
		w.do("GET", "/api/v1/queues", "", "Authorization: Bearer sesam").want(w.T, 200)
		for _, open := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
			if a := w.do("GET", open, ""); a.status != 200 {
				t.Errorf("%s: %s", open, a.text)
			}
		}
	}, func(o *api.Options) { o.Token = "sesam" })
}

// TestForeignPages: without a token a page of another site can have nothing done.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	const pause = "/api/v1/queues/main/pause"
	foreign := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://elsewhere.example"}
	inWorld(t, func(w *world) {
		for _, h := range foreign {
			w.do("POST", pause, "", h).want(w.T, 403, "cross-site")
		}
		w.do("GET", "/api/v1/queues", "", foreign[0]).want(w.T, 200)
		w.do("POST", pause, "", "Sec-Fetch-Site: same-origin").want(w.T, 200)
	})
	inWorld(t, func(w *world) { // who shows the token is no page
		w.do("POST", pause, "", "Authorization: Bearer sesam", foreign[2]).want(w.T, 200)
	}, func(o *api.Options) { o.Token = "sesam" })
}

func TestRate(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		count := func() (in int) {
			for range 20 {
				a := w.do("GET", "/api/v1/queues", "")
				if a.status == 200 {
					in++
				} else if a.want(w.T, 429, "rate"); a.header.Get("Retry-After") != "1" {
					t.Errorf("%v", a.header)
				}
			}
			return in
		}
		if n := count(); n != 5 {
			t.Errorf("%d of 20 at once were let in, want the burst of 5", n)
		}
		w.do("GET", "/healthz", "").want(w.T, 200)
		time.Sleep(time.Second)
		if n := count(); n != 2 {
			t.Errorf("%d of 20 were let in a second later, want 2", n)
		}
	}, func(o *api.Options) { o.Rate, o.Burst = 2, 5 })
}

// TestDatabaseGone: probes say so, reads fail, and only what may have been done is called
// unknown.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		id := w.do("POST", "/jobs", `{"kind": "log", "schedule": "2001-01-01T00:00:00Z"}`).want(w.T, 201).text1("id")
		w.session.Cut(true)
		w.do("POST", "/api/v1/jobs/"+id+"/cancel", "").want(w.T, 503, "unavailable") // no batch had it
		w.do("GET", "/healthz", "").want(w.T, 503, "unavailable")
		w.do("GET", "/readyz", "").want(w.T, 503, "unavailable")
		w.do("GET", "/jobs/"+id, "").want(w.T, 503, "unavailable")
		w.do("GET", "/api/v1/jobs?state=pending", "").want(w.T, 503, "unavailable")
		w.do("GET", "/api/v1/queues", "").want(w.T, 503, "unavailable")
		// Unless a batch has it, an enqueue was certainly not done.
		a := w.do("POST", "/jobs", `{"kind": "log"}`)
		if a.status == 503 {
			a.want(w.T, 503, "unavailable")
		} else if a.want(w.T, 504, "outcome-unknown"); a.text1("job_id") == "" {
			t.Errorf("%s", a.text)
		}
		if strings.Contains(string(a.text), "sim") {
			t.Errorf("%s", a.text)
		}
		time.Sleep(2 * time.Minute) // the shards' trust ends
		w.do("POST", "/api/v1/jobs/"+id+"/cancel", "").want(w.T, 503, "no-owner")
		w.session.Cut(false)
		time.Sleep(2 * time.Minute)
		w.do("GET", "/readyz", "").want(w.T, 200)
		w.do("GET", "/jobs/"+id, "").want(w.T, 200)
		w.do("POST", "/jobs", `{"kind": "log"}`).want(w.T, 201)
	})
}

// TestInbox: without an owner an enqueue is accepted by the inbox, and visible there.
func TestInbox(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.session.Cut(true)
		time.Sleep(2 * time.Minute)
		w.session.Cut(false)
		a := w.do("POST", "/jobs", `{"kind": "log", "payload": 1}`).want(w.T, 202)
		if a.body["inbox"] != true {
			t.Errorf("%s", a.text)
		}
		if got := w.do("GET", a.header.Get("Location"), "").want(w.T, 200); got.body["inbox"] != true || got.body["state"] != "pending" || got.at("payload") != 1.0 {
			t.Errorf("%s", got.text)
		}
		time.Sleep(2 * time.Minute)
		if got := w.do("GET", a.header.Get("Location"), "").want(w.T, 200); got.body["inbox"] != false || got.body["state"] != "completed" {
			t.Errorf("%s", got.text)
		}
	})
}

// TestNotReady, and what a request leaves in the log.
func TestNotReady(t *testing.T) {
	t.Parallel()
	var routes []string
	inWorld(t, func(w *world) {
		w.do("GET", "/readyz", "", "X-Request-Id: mine.1").want(w.T, 503, "not-ready")
		w.do("GET", "/healthz", "").want(w.T, 200)
		a := w.do("GET", "/jobs/x", "", "X-Request-Id: no good\n").want(w.T, 404)
		if id := a.header.Get("X-Request-Id"); id == "" || id != a.text1("request_id") || strings.Contains(id, " ") {
			t.Errorf("%s: %v", a.text, a.header)
		}
		var line struct {
			ID     string `json:"request_id"`
			Route  string `json:"route"`
			Status int    `json:"status"`
		}
		_, first, _ := strings.Cut(w.log.String(), "\n") // behind what failed
		first, _, _ = strings.Cut(first, "\n")
		if err := json.Unmarshal([]byte(first), &line); err != nil || line.ID != "mine.1" || line.Route != "GET /readyz" || line.Status != 503 {
			t.Errorf("%s: %+v, %v", first, line, err)
		}
		if strings.Count(w.log.String(), `"level":"DEBUG","msg":"request"`) != 2 || strings.Count(w.log.String(), `"level":"INFO","msg":"request"`) != 1 {
			t.Errorf("%s", w.log)
		}
		if fmt.Sprint(routes) != "[GET /readyz 503 GET /healthz 200 GET /jobs/{id} 404]" {
			t.Errorf("%q", routes)
		}
	}, func(o *api.Options) {
		o.Ready = func() error { return fmt.Errorf("it stops") }
		o.Observe = func(_, route string, status int, _ time.Duration) {
			routes = append(routes, fmt.Sprint(route, " ", status))
		}
	})
}

// TestPanic: one request must not end the process, nor be answered by nothing.
func TestPanic(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.do("GET", "/readyz", "").want(w.T, http.StatusInternalServerError, "internal")
		if !strings.Contains(w.log.String(), "on purpose") {
			t.Errorf("%s", w.log)
		}
	}, func(o *api.Options) { o.Ready = func() error { panic("on purpose") } })
}
