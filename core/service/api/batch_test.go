package api_test

import (
	"fmt"
	"strings"
	"testing"

	"fencepost/core/scheduler"
	"fencepost/core/service/api"
)

// TestBatch: each job of a batch has the answer that it would have alone, in the order of the request.
func TestBatch(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for n, path := range []string{"/jobs/batch", "/api/v1/jobs/batch"} {
			key := fmt.Sprint("k", n)
			w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "`+key+`"}`).want(w.T, 201)
			a := w.do("POST", path, `{"jobs": [
				{"kind": "log"},
				{"kind": "log", "idempotency_key": "`+key+`"},
				{"kind": "log", "idempotency_key": "`+key+`", "payload": 1},
				{"kind": "log", "queue": "other", "idempotency_key": "new`+key+`"}]}`).want(w.T, 200)
			for i, want := range []struct {
				status      int
				queue, code string
			}{{201, "main", ""}, {200, "main", ""}, {422, "", "key-reused"}, {201, "other", ""}} {
				if a.at("jobs", i, "status") != float64(want.status) || a.text1("jobs", i, "receipt", "queue") != want.queue ||
					a.text1("jobs", i, "problem", "code") != want.code {
					t.Errorf("%s: job %d: %v, want %+v", path, i, a.at("jobs", i), want)
				}
			}
			for bad, field := range map[string]string{
				`{"kind": ""}`: "jobs[1].kind", `{"kind": "log", "schedule": "@every 30s"}`: "jobs[1].schedule", `{"kind": "log", "queue": "nowhere"}`: "jobs[1].queue",
			} {
				a := w.do("POST", path, `{"jobs": [{"kind": "log", "idempotency_key": "never"}, `+bad+`]}`).want(w.T, 400, "invalid")
				if a.text1("errors", 0, "field") != field {
					t.Errorf("%s, want %s named", a.text, field)
				}
			}
			w.do("POST", path, `{"jobs": []}`).want(w.T, 400, "invalid")
			w.do("POST", path, `{"jobs": [`+strings.TrimSuffix(strings.Repeat(`{"kind":"log"},`, scheduler.MaxMany+1), ",")+`]}`).want(w.T, 400, "invalid")
			w.do("POST", path, `{"jobs": [{"kind": "log"}]}`, "Idempotency-Key: k").want(w.T, 400, "invalid")
			w.do("POST", path, `[]`).want(w.T, 400, "invalid")
		}
		w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "never"}`).want(w.T, 201)
		a := w.do("POST", "/jobs/batch", `{"jobs": [`+strings.TrimSuffix(strings.Repeat(`{"kind":"log"},`, 500), ",")+`]}`).want(w.T, 200)
		for i := range 500 {
			if a.at("jobs", i, "status") != 201. {
				t.Fatalf("job %d of 500: %v", i, a.at("jobs", i))
			}
		}
	})
}

// TestBatchCounts: each job of a batch is one request of the rate.
func TestBatchCounts(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		a := w.do("POST", "/jobs/batch", `{"jobs": [`+strings.TrimSuffix(strings.Repeat(`{"kind":"log"},`, 8), ",")+`]}`).want(w.T, 200)
		in := 0
		for i := range 8 {
			if a.at("jobs", i, "status") == 201. {
				in++
			} else if a.text1("jobs", i, "problem", "code") != "rate" || a.at("jobs", i, "problem", "retry_after_seconds") != 1. {
				t.Errorf("%v", a.at("jobs", i))
			}
		}
		if in != 5 {
			t.Errorf("%d of 8 were let in, want the burst of 5: %s", in, a.text)
		}
	}, func(o *api.Options) { o.Rate, o.Burst = 2, 5 })
}
