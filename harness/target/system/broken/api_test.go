package broken

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/target/workload"
)

// behindAPI notes the requests that an API is asked; of lists of dead jobs it has two.
func behindAPI(asked chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of a recorder
		asked <- strings.TrimSpace(r.Method + " " + r.URL.Path + " " + r.Header.Get("Idempotency-Key") + string(body))
		if strings.HasSuffix(r.URL.Path, "/dlq") {
			_, _ = io.WriteString(w, `{"items":[{"id":"0-a"},{"id":"0-b"}]}`)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/batch") {
			_, _ = io.WriteString(w, `{"jobs":[{"status":201},{"status":201}]}`)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// TestMistakesOfTheAPI: each hands on what it has no mistake in, and answers the rest without what it
// should ask.
func TestMistakesOfTheAPI(t *testing.T) {
	t.Parallel()
	type step struct {
		request string
		want    []string // that the API is asked
	}
	for name, steps := range map[string][]step{
		"jobs-api-key-unread": {{"POST /jobs k", []string{"POST /jobs"}}, {"GET /api/v1/queues", []string{"GET /api/v1/queues"}}},
		"jobs-api-answers-first": {
			{"POST /api/v1/jobs/0-a/cancel", []string{"POST /api/v1/jobs/0-a/cancel"}},
			{"POST /api/v1/dlq/0-a/redrive", []string{"POST /api/v1/dlq/0-a/redrive"}},
			{"POST /jobs", []string{"POST /jobs"}},
			{"POST /api/v1/queues/q/pause", []string{"POST /api/v1/queues/q/pause"}},
		},
		"jobs-api-pause-first": {
			{"POST /api/v1/queues/q/pause", []string{"POST /api/v1/queues/q/pause"}},
			{"POST /api/v1/queues/q/resume", []string{"POST /api/v1/queues/q/resume"}},
			{"POST /jobs/0-a/run", []string{"POST /jobs/0-a/run"}},
		},
		"jobs-api-redrive-in-part": {
			{"POST /api/v1/dlq/0-a/redrive", []string{"POST /api/v1/dlq/0-a/redrive"}},
			{"POST /api/v1/dlq/redrive", []string{"GET /api/v1/dlq", `POST /api/v1/dlq/redrive {"queue":"q","limit":1}`}},
		},
		"jobs-api-batch-in-part": {
			{"POST /jobs/batch", []string{`POST /jobs/batch {"jobs":[{"kind":"a"},{"kind":"b"}]}`}},
			{"POST /api/v1/jobs/batch", []string{`POST /api/v1/jobs/batch {"jobs":[{"kind":"a"},{"kind":"b"}]}`}},
			{"POST /jobs", []string{"POST /jobs"}},
		},
		"jobs-api-schedules-cached": {
			{"POST /api/v1/schedules/s/enable", []string{"POST /api/v1/schedules/s/enable"}},
			{"PUT /api/v1/schedules/s", []string{"PUT /api/v1/schedules/s"}},
			{"PUT /api/v1/schedules/s", nil},
			{"POST /api/v1/schedules/s/enable", nil},
			{"DELETE /api/v1/schedules/s", nil},
			{"DELETE /api/v1/schedules/other", []string{"DELETE /api/v1/schedules/other"}},
			{"POST /api/v1/schedules/s/disable", []string{"POST /api/v1/schedules/s/disable"}},
			{"POST /api/v1/schedules/s/trigger k", []string{"POST /api/v1/schedules/s/trigger k"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 10)
			h := variants[name]().API(workload.Config{}, behindAPI(asked))
			for _, s := range steps {
				words := strings.Fields(s.request)
				body := ""
				if strings.HasSuffix(words[1], "/dlq/redrive") {
					body = `{"queue":"q","limit":8}`
				}
				if strings.HasSuffix(words[1], "/batch") {
					body = `{"jobs":[{"kind":"a"},{"kind":"b"},{"kind":"c"}]}`
				}
				r := httptest.NewRequestWithContext(t.Context(), words[0], words[1], strings.NewReader(body))
				if len(words) > 2 {
					r.Header.Set("Idempotency-Key", words[2])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				var got []string
				for range s.want {
					got = append(got, <-asked)
				}
				if !slices.Equal(got, s.want) || w.Code != http.StatusOK || len(asked) > 0 {
					t.Errorf("%s: %d, asked %q, and %d more", s.request, w.Code, got, len(asked))
				}
				var all struct {
					Redriven []string `json:"redriven"`
					Jobs     []struct {
						Status int `json:"status"`
					} `json:"jobs"`
				}
				if strings.HasSuffix(words[1], "/batch") && (json.Unmarshal(w.Body.Bytes(), &all) != nil || len(all.Jobs) != 3 || all.Jobs[2].Status != 201) {
					t.Errorf("%s: answered %s", s.request, w.Body)
				}
				if len(s.want) == 2 && (json.Unmarshal(w.Body.Bytes(), &all) != nil || len(all.Redriven) != 2) {
					t.Errorf("%s: answered %s", s.request, w.Body)
				}
			}
		})
	}
}
