package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const body = `{"timing": {"kind": "cron", "cron": "*/10 * * * * *", "zone": "Asia/Ho_Chi_Minh"}, "job": {"kind": "log", "payload": 7, "then": [{"kind": "log"}]}, "overlap": "allow"}`
		put := w.do("PUT", "/api/v1/schedules/nightly", body).want(w.T, 200)
		if put.body["schedule"] != "nightly" || put.body["duplicate"] != false {
			t.Errorf("%s", put.text)
		}
		if a := w.do("PUT", "/api/v1/schedules/nightly", body).want(w.T, 200); a.body["duplicate"] != true {
			t.Errorf("%s", a.text)
		}
		time.Sleep(35 * time.Second)
		a := w.do("GET", "/api/v1/schedules/nightly", "").want(w.T, 200)
		fired, _ := a.at("fired").(float64)
		if fired < 3 || fired > 4 || a.body["enabled"] != true || a.at("timing", "zone") != "Asia/Ho_Chi_Minh" || a.at("job", "payload") != 7.0 || a.text1("next") == "" {
			t.Errorf("%s", a.text)
		}
		// By its id it is a job.
		a = w.do("GET", "/jobs/"+put.text1("id"), "").want(w.T, 200)
		if a.body["state"] != "scheduled" || a.at("schedule", "key") != "nightly" || a.body["kind"] != "log" {
			t.Errorf("%s", a.text)
		}
		w.do("POST", "/api/v1/schedules/nightly/disable", "").want(w.T, 200)
		time.Sleep(time.Minute)
		if a := w.do("GET", "/jobs/"+put.text1("id"), ""); a.body["state"] != "disabled" || a.text1("due") != "" {
			t.Errorf("%s", a.text)
		}
		one := w.do("POST", "/api/v1/schedules/nightly/trigger", "", "Idempotency-Key: t1").want(w.T, 200)
		time.Sleep(time.Second)
		two := w.do("POST", "/jobs/"+put.text1("id")+"/run", "", "Idempotency-Key: t1").want(w.T, 200)
		three := w.do("POST", "/jobs/"+put.text1("id")+"/run", "").want(w.T, 200)
		if one.body["id"] != two.body["id"] || two.body["duplicate"] != true || three.body["id"] == two.body["id"] || three.body["duplicate"] != false {
			t.Errorf("%s %s %s", one.text, two.text, three.text)
		}
		time.Sleep(time.Second)
		w.do("GET", "/jobs/"+three.text1("id"), "").want(w.T, 200)
		w.do("POST", "/api/v1/schedules/nightly/trigger", "", "Idempotency-Key: not a name").want(w.T, 400, "invalid")
		w.do("POST", "/api/v1/schedules/nightly/enable", "").want(w.T, 200)
		if list := w.do("GET", "/api/v1/schedules?limit=1", "").want(w.T, 200); list.at("items", 0, "key") != "nightly" || list.at("items", 0, "enabled") != true {
			t.Errorf("%s", list.text)
		}
		w.do("DELETE", "/api/v1/schedules/nightly", "").want(w.T, 200)
		w.do("GET", "/api/v1/schedules/nightly", "").want(w.T, 404, "no-schedule")
		w.do("POST", "/api/v1/schedules/nightly/enable", "").want(w.T, 404, "no-schedule")
		w.do("GET", "/jobs/"+put.text1("id"), "").want(w.T, 404, "no-job")
	})
}

// TestScheduleByJob: an enqueue with a cron expression makes a schedule.
func TestScheduleByJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for _, body := range []string{
			`{"taskId": "log", "cron": "*/5 * * * * *", "params": {}}`,
			`{"kind": "log", "schedule": "*/5 * * * * *", "zone": "Europe/Berlin"}`,
			`{"kind": "log", "schedule": "@every 5s", "idempotency_key": "mine"}`,
			`{"kind": "log", "cron": "@hourly"}`,
		} {
			a := w.do("POST", "/api/v1/jobs", body).want(w.T, 201)
			if got := w.do("GET", a.header.Get("Location"), "").want(w.T, 200); got.body["state"] != "scheduled" || got.text1("due") == "" {
				t.Errorf("%s", got.text)
			}
		}
		w.do("GET", "/api/v1/schedules/mine", "").want(w.T, 200)
		time.Sleep(21 * time.Second)
		fired := 0.0
		list := w.do("GET", "/api/v1/schedules", "").want(w.T, 200)
		for n := 0; list.at("items", n) != nil; n++ {
			f, _ := list.at("items", n, "fired").(float64)
			fired += f
		}
		if fired < 12 || fired > 15 {
			t.Errorf("%v occurrences in 21 s: %s", fired, list.text)
		}
	})
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for body, field := range map[string]string{
			`{"job": {"kind": "log"}}`: "timing.kind",
			`{"timing": {"kind": "cron", "cron": "61 * * * *"}, "job": {"kind": "log"}}`:                                  "timing.cron",
			`{"timing": {"kind": "cron", "cron": "* * * * *", "zone": "Mars"}, "job": {"kind": "log"}}`:                   "timing.zone",
			`{"timing": {"kind": "fixed_rate", "every_seconds": 0.5}, "job": {"kind": "log"}}`:                            "timing.every_seconds",
			`{"timing": {"kind": "at"}, "job": {"kind": "log"}}`:                                                          "timing.at",
			`{"timing": {"kind": "now"}, "job": {"kind": "none"}}`:                                                        "job.kind",
			`{"timing": {"kind": "now"}, "job": {"kind": "log", "then": [{}]}}`:                                           "job.then[0].kind",
			`{"timing": {"kind": "now"}, "job": {"kind": "log", "key": "k"}}`:                                             "job.key",
			`{"timing": {"kind": "now"}, "job": {"kind": "log", "max_attempts": 1001}}`:                                   "job.max_attempts",
			`{"timing": {"kind": "now"}, "job": {"kind": "log"}, "grace_seconds": -1}`:                                    "grace_seconds",
			`{"timing": {"kind": "now"}, "job": {"kind": "log"}, "misfire": "never"}`:                                     "misfire",
			`{"timing": {"kind": "now"}, "job": {"kind": "log"}, "queue": "none"}`:                                        "queue",
			`{"timing": {"kind": "at", "at": "tomorrow"}, "job": {"kind": "log"}}`:                                        "timing.at",
			`{"timing": {"kind": "now"}, "job": {"kind": "log", "retry": {"base_seconds": 1, "factor": 0.1}}}`:            "job.retry",
			`{"timing": {"kind": "now"}, "job": {"kind": "log", "then": [{"kind": "log", "max_duration_seconds": 1e9}]}}`: "",
		} {
			a := w.do("PUT", "/api/v1/schedules/s", body)
			if field == "" {
				a.want(w.T, 200)
				continue
			}
			if a.want(w.T, 400, "invalid"); a.text1("errors", 0, "field") != field {
				t.Errorf("%s: %s, want field %s", body, a.text, field)
			}
		}
	})
}

// TestMoreShards: a queue is created, and gets more shards, while it is at work.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		put := func(queue, body string) answer { return w.do("PUT", "/api/v1/queues/"+queue, body) }
		size := func(a answer) string {
			return fmt.Sprintf("%v %v %v %v", a.body["queue"], a.body["shards"], a.body["first_shards"], a.body["duplicate"])
		}
		first := w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "k"}`).want(w.T, 201)
		for _, c := range []struct{ queue, body, want string }{
			{"main", `{"shards": 3}`, "main 3 3 true"}, {"main", `{"shards": 40}`, "main 40 3 false"}, {"main", `{"shards": 40}`, "main 40 3 true"},
			{"new%201", `{"shards": 2}`, "new 1 2 2 false"}, {"new%201", `{"shards": 2}`, "new 1 2 2 true"},
		} {
			if a := put(c.queue, c.body).want(w.T, 200); size(a) != c.want {
				t.Errorf("PUT %s of %s: %s, want %s", c.body, c.queue, a.text, c.want)
			}
		}
		if again := w.do("POST", "/jobs", `{"kind": "log", "idempotency_key": "k"}`).want(w.T, 200); again.body["id"] != first.body["id"] {
			t.Errorf("a key that was enqueued before the raise: %s, not %v", again.text, first.body["id"])
		}
		time.Sleep(time.Minute)
		beyond := 0
		for range 200 {
			a := w.do("POST", "/jobs", `{"kind": "log"}`).want(w.T, 201)
			shard, err := job.ID(a.text1("id")).Shard()
			if err != nil || shard >= 40 {
				t.Fatal(a.text)
			}
			if shard >= 3 {
				beyond++
			}
			w.do("GET", "/jobs/"+a.text1("id"), "").want(w.T, 200)
		}
		if beyond < 150 {
			t.Errorf("%d of 200 jobs are in the 37 of 40 shards that are new", beyond)
		}
		w.do("POST", "/jobs", `{"kind": "log", "queue": "new 1"}`).want(w.T, 201)
		time.Sleep(time.Second)
		if q := w.do("GET", "/api/v1/queues/main", "").want(w.T, 200); q.at("shards", 39, "owner") != "a" || q.at("shards", 40) != nil || q.at("depth", "pending", "jobs") != 0.0 {
			t.Errorf("%s", q.text)
		}
		for _, c := range []struct {
			queue, body string
			status      int
			code        string
		}{
			{"main", `{"shards": 39}`, 400, "invalid"}, {"main", `{"shards": 0}`, 400, "invalid"}, {"main", `{"shards": 1025}`, 400, "invalid"},
			{"main", `{}`, 400, "invalid"}, {"main", `{"shards": 41, "first": 1}`, 400, "invalid"}, {strings.Repeat("n", 101), `{"shards": 1}`, 400, "invalid"},
		} {
			put(c.queue, c.body).want(w.T, c.status, c.code)
		}
		w.do("POST", "/api/v1/queues/main/pause", "").want(w.T, 200)
		put("main", `{"shards": 41}`).want(w.T, 409, "paused")
	})
}

// TestQueues: what they hold, and that a paused one starts nothing.
func TestQueues(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		depth := func(a answer, at ...any) string {
			n := func(state string) any { return a.at(append(at, "depth", state, "jobs")...) }
			return fmt.Sprint(a.at(append(at, "state")...), n("pending"), n("running"), n("dlq"))
		}
		get := func(want string) answer {
			t.Helper()
			a := w.do("GET", "/api/v1/queues/main", "").want(w.T, 200)
			if got := depth(a); got != want {
				t.Errorf("%s, want %s: %s", got, want, a.text)
			}
			return a
		}
		get("running0 0 0")
		for range 2 {
			w.do("POST", "/jobs", `{"kind": "slow", "max_duration_seconds": 3600}`).want(w.T, 201)
			w.do("POST", "/jobs", `{"kind": "bad", "max_attempts": 1}`).want(w.T, 201)
			w.do("POST", "/jobs", `{"kind": "log", "schedule": "2030-01-01T00:00:00Z"}`).want(w.T, 201)
		}
		time.Sleep(time.Second)
		if a := get("running2 2 2"); a.at("shards", 2, "owner") != "a" || a.at("shards", 0, "paused") != false {
			t.Errorf("%s", a.text)
		}
		for n := range 2 {
			if a := w.do("POST", "/api/v1/queues/main/pause", "").want(w.T, 200); a.body["duplicate"] != (n > 0) || a.body["state"] != "paused" || a.body["queue"] != "main" {
				t.Errorf("%s", a.text)
			}
		}
		id := w.do("POST", "/jobs", `{"kind": "log"}`).want(w.T, 201).text1("id")
		close(w.gate) // what runs goes on
		time.Sleep(time.Minute)
		if a := get("paused3 0 2"); a.text1("shards", 1, "paused_since") == "" {
			t.Errorf("%s", a.text)
		}
		a := w.do("GET", "/api/v1/queues", "").want(w.T, 200)
		if depth(a, "items", 0) != "paused3 0 2" || depth(a, "items", 1) != "running0 0 0" || a.at("items", 2) != nil {
			t.Errorf("%s", a.text)
		}
		w.do("POST", "/jobs/"+id+"/run", "").want(w.T, 200)
		for n := range 2 {
			if a := w.do("POST", "/api/v1/queues/main/resume", "").want(w.T, 200); a.body["duplicate"] != (n > 0) || a.body["state"] != "running" {
				t.Errorf("%s", a.text)
			}
		}
		time.Sleep(time.Second)
		get("running2 0 2")
		if a := w.do("GET", "/jobs/"+id, ""); a.body["state"] != "completed" {
			t.Errorf("%s", a.text)
		}
		w.do("GET", "/api/v1/queues/none", "").want(w.T, 404, "no-queue")
		w.do("POST", "/api/v1/queues/none/pause", "").want(w.T, 404, "no-queue")
		w.do("POST", "/api/v1/queues/main/pause?queue=main", "").want(w.T, 400, "invalid")
	})
}

// halfway is a scheduler that reaches the owners of some shards only.
type halfway struct{ api.Scheduler }

func (halfway) SetPaused(_ context.Context, queue string, _ bool) (bool, error) {
	return false, &scheduler.PartlyError{Queue: queue, Shards: []int{0, 2}, Cause: context.DeadlineExceeded}
}

// TestPausePartly: whoever asks is told which shards to ask for again.
func TestPausePartly(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		a := w.do("POST", "/api/v1/queues/main/pause", "").want(w.T, 503, "partly")
		if fmt.Sprint(a.at("shards")) != "[0 2]" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s %v", a.text, a.header)
		}
		w.stop()
	}, func(o *api.Options) { o.Scheduler = halfway{o.Scheduler} })
	inWorld(t, func(w *world) {
		w.stop()
		if a := w.do("POST", "/api/v1/queues/main/resume", "").want(w.T, 503, "partly"); fmt.Sprint(a.at("shards")) != "[0 1 2]" {
			t.Errorf("%s", a.text)
		}
	})
}
