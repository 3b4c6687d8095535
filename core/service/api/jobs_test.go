package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fencepost/core/service/api"
)

func TestJobLife(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for _, path := range []string{"/jobs", "/api/v1/jobs"} {
			a := w.do("POST", path, `{"kind": "log", "payload": {"n": [1, null, "ü"]}, "schedule": "2000-01-01T01:00:00+01:00", "max_duration_seconds": 2.5,
				"retry": {"delays_seconds": [0.5, 60]}, "then": [{"kind": "log"}]}`).want(w.T, http.StatusCreated)
			id := a.text1("id")
			if a.header.Get("Location") != path+"/"+id+"?queue=main" || a.body["duplicate"] != false {
				t.Errorf("%s: %v", a.text, a.header)
			}
			later := w.do("POST", path, `{"taskId": "log", "params": {"n": [1, null, "ü"]}, "schedule": "2000-01-01T02:00:00Z"}`).want(w.T, http.StatusCreated).text1("id")
			time.Sleep(time.Second)
			if a := w.do("GET", path+"/"+id, "").want(w.T, 200); a.body["state"] != "completed" || a.at("attempts") != 1.0 || a.text1("run_id") == "" || a.text1("ended") == "" {
				t.Errorf("%s", a.text)
			}
			a = w.do("GET", path+"/"+later, "").want(w.T, 200)
			if a.body["state"] != "pending" || a.body["due"] != "2000-01-01T02:00:00Z" || a.text1("payload", "n", 2) != "ü" || a.body["kind"] != "log" || a.at("max_duration_seconds") != 60.0 {
				t.Errorf("%s", a.text)
			}
			w.do("POST", "/api/v1/jobs/"+later+"/cancel", "").want(w.T, 200)
			w.do("POST", "/api/v1/jobs/"+later+"/cancel", "").want(w.T, 409, "state")
			w.do("POST", path+"/"+later+"/run", "").want(w.T, 409, "state")
			if a := w.do("GET", path+"/"+later, ""); a.body["state"] != "cancelled" {
				t.Errorf("%s", a.text)
			}
			runs := w.do("GET", "/api/v1/jobs/"+id+"/runs?days=2", "").want(w.T, 200)
			if runs.at("items", 0, "outcome") != "completed" || runs.at("items", 0, "worker") != "a" || runs.at("items", 1) != nil {
				t.Errorf("%s", runs.text)
			}
		}
	})
}

// TestRunNow: what waits for its time, or for its next attempt, runs at once.
func TestRunNow(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for _, path := range []string{"/jobs", "/api/v1/jobs"} {
			dated := w.do("POST", path, `{"kind": "log", "schedule": "2030-01-01T00:00:00Z"}`).want(w.T, 201).text1("id")
			retried := w.do("POST", path, `{"kind": "bad", "max_attempts": 2, "retry": {"delays_seconds": [3600]}}`).want(w.T, 201).text1("id")
			time.Sleep(time.Second)
			for id, state := range map[string]string{dated: "completed", retried: "dlq"} {
				if a := w.do("POST", path+"/"+id+"/run", "").want(w.T, 200); a.body["duplicate"] != false || a.body["id"] != id {
					t.Errorf("%s", a.text)
				}
				time.Sleep(time.Second)
				if a := w.do("GET", path+"/"+id, "").want(w.T, 200); a.body["state"] != state {
					t.Errorf("%s, want %s", a.text, state)
				}
			}
			w.do("POST", path+"/"+dated+"/run", "").want(w.T, 409, "state")
			w.do("POST", path+"/"+dated[:len(dated)-1]+"/run", "").want(w.T, 404, "no-job")
		}
	})
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		first := w.do("POST", "/jobs", `{"kind": "log"}`, "Idempotency-Key: k").want(w.T, 201)
		time.Sleep(time.Second)
		for _, again := range []answer{
			w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "k"}`),
			w.do("POST", "/api/v1/jobs", `{"idempotency_key": "k", "taskId": "log", "queue": "main", "schedule": "now"}`, "Idempotency-Key: k"),
		} {
			again.want(w.T, 200)
			if again.body["id"] != first.body["id"] || again.body["duplicate"] != true {
				t.Errorf("%s, then %s", first.text, again.text)
			}
		}
		other := w.do("POST", "/jobs", `{"kind": "log", "queue": "other", "idempotency_key": "k"}`).want(w.T, 201)
		if other.body["id"] == first.body["id"] {
			t.Error("one id in two queues")
		}
		w.do("GET", "/jobs/"+other.text1("id")+"?queue=other", "").want(w.T, 200)
		w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "k"}`, "Idempotency-Key: l").want(w.T, 400, "invalid")
		if a, b := w.do("POST", "/jobs", `{"kind": "log"}`), w.do("POST", "/jobs", `{"kind": "log"}`); a.body["id"] == b.body["id"] {
			t.Error("two jobs without keys are one")
		}
	})
}

// TestKeyReused: a key stands for one request, in whatever state its job is.
func TestKeyReused(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const request = `{"kind": "%s", "payload": {"a": 1, "b": {"c": 12345678901234567890, "d": []}}, "max_attempts": %d, "schedule": "%s"}`
		for key, kind := range map[string]string{"done": "log", "dead": "bad", "runs": "slow", "waits": "log", "cancelled": "log"} {
			due := "2000-01-01T00:00:00Z"
			if key == "waits" || key == "cancelled" {
				due = "2030-01-01T00:00:00Z"
			}
			header := "Idempotency-Key: " + key
			body := fmt.Sprintf(request, kind, 1, due)
			id := w.do("POST", "/jobs", body, header).want(w.T, 201).text1("id")
			if key == "cancelled" {
				w.do("POST", "/api/v1/jobs/"+id+"/cancel", "").want(w.T, 200)
			}
			time.Sleep(time.Second)
			same := []string{body, fmt.Sprintf(`{"params": {"b": {"d": [], "c": 12345678901234567890}, "a": 1}, "max_attempts": 1, "schedule": "%s", "kind": "%s"}`,
				strings.Replace(due, "00:00:00Z", "01:00:00+01:00", 1), kind)}
			for _, body := range same {
				if a := w.do("POST", "/api/v1/jobs", body, header).want(w.T, 200); a.body["id"] != id || a.body["duplicate"] != true {
					t.Errorf("%s: %s", key, a.text)
				}
			}
			for _, other := range []string{
				fmt.Sprintf(request, kind, 2, due),
				fmt.Sprintf(request, kind, 1, "2031-01-01T00:00:00Z"),
				strings.Replace(body, "67890", "67891", 1),
				fmt.Sprintf(`{"kind": "%s"}`, kind),
				strings.Replace(body, `"max_`, `"then": [{"kind": "log"}], "max_`, 1),
			} {
				if a := w.do("POST", "/jobs", other, header).want(w.T, 422, "key-reused"); a.body["job_id"] != id {
					t.Errorf("%s: %s", key, a.text)
				}
			}
		}
		close(w.gate)
	})
}

// TestKeyReusedInTheInbox: what only the inbox has counts too.
func TestKeyReusedInTheInbox(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.stop()
		const body = `{"kind": "log", "idempotency_key": "k"}`
		w.do("POST", "/jobs", body).want(w.T, 202)
		w.do("POST", "/jobs", body).want(w.T, 202)
		w.do("POST", "/jobs", `{"kind": "bad", "idempotency_key": "k"}`).want(w.T, 422, "key-reused")
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		ids := map[string]bool{}
		for range 7 {
			ids[w.do("POST", "/jobs", `{"kind": "bad", "max_attempts": 1}`).want(w.T, 201).text1("id")] = true
		}
		time.Sleep(time.Second)
		seen, after, pages := map[string]bool{}, "", 0
		for {
			a := w.do("GET", "/api/v1/dlq?limit=2"+after, "").want(w.T, 200)
			pages++
			for n := 0; a.at("items", n) != nil; n++ {
				id := a.text1("items", n, "id")
				if seen[id] || !ids[id] || a.at("items", n, "note") != "on purpose" || a.at("items", n, "kind") != "bad" {
					t.Errorf("%v", a.at("items", n))
				}
				seen[id] = true
			}
			next := a.text1("next")
			if next == "" {
				break
			}
			after = "&after=" + next
		}
		if len(seen) != 7 || pages < 4 {
			t.Errorf("%d jobs on %d pages", len(seen), pages)
		}
		one := ""
		for one = range ids {
			break
		}
		w.do("POST", "/jobs/"+one+"/run", "").want(w.T, 200)
		w.do("POST", "/api/v1/jobs/"+one+"/retry", "") // pending, running or dead again
		time.Sleep(time.Second)
		w.do("POST", "/api/v1/dlq/"+one+"/redrive", "").want(w.T, 200)
		time.Sleep(time.Second)
		a := w.do("POST", "/api/v1/dlq/redrive", `{"limit": 5}`).want(w.T, 200)
		if n, _ := a.at("redriven").([]any); len(n) != 5 || a.body["more"] != true {
			t.Errorf("%s", a.text)
		}
		w.do("POST", "/api/v1/dlq/redrive", `{"limit": 101}`).want(w.T, 400, "invalid")
		w.do("POST", "/api/v1/dlq/redrive", `{"queue": "other"}`).want(w.T, 200)
	})
}

// TestLists: each state has its list, of both queues.
func TestLists(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for n := range 4 {
			w.do("POST", "/jobs", `{"kind": "log"}`).want(w.T, 201)
			w.do("POST", "/jobs", `{"kind": "slow", "max_duration_seconds": 3600}`).want(w.T, 201)
			id := w.do("POST", "/jobs", fmt.Sprintf(`{"kind": "log", "schedule": "2001-01-01T00:00:0%dZ"}`, n)).want(w.T, 201).text1("id")
			if n == 0 {
				w.do("POST", "/api/v1/jobs/"+id+"/cancel", "").want(w.T, 200)
			}
		}
		time.Sleep(time.Second)
		count := func(state, query string) (n int) {
			for after := ""; ; {
				a := w.do("GET", "/api/v1/jobs?state="+state+query+after, "").want(w.T, 200)
				items, _ := a.at("items").([]any)
				for _, i := range items {
					if got := i.(map[string]any)["state"]; got != state {
						t.Errorf("%s in the list of %s", got, state)
					}
				}
				n += len(items)
				if a.text1("next") == "" {
					return n
				}
				after = "&after=" + a.text1("next")
			}
		}
		for state, want := range map[string]int{"completed": 4, "running": 4, "pending": 3, "cancelled": 1, "dlq": 0, "abandoned": 0} {
			if n := count(state, "&limit=3"); n != want {
				t.Errorf("%d jobs are %s, want %d", n, state, want)
			}
		}
		if n := count("running", "&queue=other"); n != 0 {
			t.Errorf("%d jobs of the other queue are running", n)
		}
		next := w.do("GET", "/api/v1/jobs?state=running&limit=1", "").text1("next")
		for _, bad := range []string{"", "?state=waiting", "?state=dlq&limit=0", "?state=dlq&limit=201", "?state=dlq&limit=x", "?state=dlq&after=x",
			"?state=dlq&after=" + next, "?state=dlq&queue=none", "?state=dlq&color=red", "?state=dlq&state=running", "?%zz"} {
			w.do("GET", "/api/v1/jobs"+bad, "").want(w.T, 400, "invalid")
		}
		close(w.gate)
		time.Sleep(time.Second)
		if n := count("completed", ""); n != 8 {
			t.Errorf("%d jobs are completed", n)
		}
	})
}

// TestCancelRunning: the answer waits for the end of the run.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		id := w.do("POST", "/jobs", `{"kind": "slow", "max_duration_seconds": 3600}`).want(w.T, 201).text1("id")
		time.Sleep(time.Second)
		if a := w.do("POST", "/jobs/"+id+"/run", "").want(w.T, 200); a.body["duplicate"] != true {
			t.Errorf("%s", a.text)
		}
		if a := w.do("GET", "/jobs/"+id, ""); a.body["state"] != "running" || a.body["kind"] != "slow" {
			t.Errorf("%s", a.text)
		}
		w.do("POST", "/api/v1/jobs/"+id+"/cancel", "").want(w.T, 200)
		if a := w.do("GET", "/jobs/"+id, ""); a.body["state"] != "cancelled" {
			t.Errorf("%s", a.text)
		}
	}, func(o *api.Options) { o.Timeout = 5 * time.Second })
}
