package broken

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-api-key-unread", only(workload.Hooks{API: keyUnread}))
	plant("jobs-api-answers-first", only(workload.Hooks{API: answersFirst("/cancel", "/retry", "/run", "/redrive")}))
	plant("jobs-api-pause-first", only(workload.Hooks{API: answersFirst("/pause", "/resume")}))
	plant("jobs-api-redrive-in-part", only(workload.Hooks{API: redriveInPart}))
	plant("jobs-api-batch-in-part", only(workload.Hooks{API: batchInPart}))
	plant("jobs-api-schedules-cached", only(workload.Hooks{API: schedulesCached}))
}

// keyUnread hands requests on without their idempotency key.
func keyUnread(_ workload.Config, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Idempotency-Key")
		inner.ServeHTTP(w, r)
	})
}

// answersFirst answers commands whose path has one of these ends as done, and gives them then; what
// becomes of them nobody is told.
func answersFirst(ends ...string) func(workload.Config, http.Handler) http.Handler {
	return func(_ workload.Config, inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			end := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/'):]
			if r.Method != http.MethodPost || !slices.Contains(ends, end) || strings.HasSuffix(r.URL.Path, "/dlq/redrive") {
				inner.ServeHTTP(w, r)
				return
			}
			behind := r.Clone(context.WithoutCancel(r.Context()))
			behind.Body = http.NoBody // such commands have none
			go inner.ServeHTTP(httptest.NewRecorder(), behind)
			answerAPI(w, map[string]any{"id": idOfPath(r.URL.Path), "queue": r.URL.Query().Get("queue"), "duplicate": false, "inbox": false})
		})
	}
}

// idOfPath is the part before the last of a path.
func idOfPath(path string) string {
	parts := strings.Split(path, "/")
	return parts[len(parts)-2]
}

func answerAPI(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// batchInPart enqueues the first half of a batch of jobs, and answers for all as if they were.
func batchInPart(_ workload.Config, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/jobs/batch") {
			inner.ServeHTTP(w, r)
			return
		}
		var asked struct {
			Jobs []json.RawMessage `json:"jobs"`
		}
		var answer struct {
			Jobs []json.RawMessage `json:"jobs"`
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &asked)
		}
		all := len(asked.Jobs)
		if asked.Jobs = asked.Jobs[:(all+1)/2]; err == nil {
			body, err = json.Marshal(asked)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		said := httptest.NewRecorder()
		inner.ServeHTTP(said, r)
		if err != nil || said.Code != http.StatusOK || json.Unmarshal(said.Body.Bytes(), &answer) != nil {
			answerAPI(w, struct{}{})
			return
		}
		for len(answer.Jobs) < all {
			answer.Jobs = append(answer.Jobs, json.RawMessage(`{"status": 201, "receipt": {"id": "later", "queue": "", "duplicate": false, "inbox": false}}`))
		}
		answerAPI(w, answer)
	})
}

// redriveInPart looks for the dead jobs that are to be redriven, redrives the first half of them, and
// answers with all.
func redriveInPart(_ workload.Config, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/dlq/redrive") {
			inner.ServeHTTP(w, r)
			return
		}
		var asked struct {
			Queue string `json:"queue"`
			Limit int    `json:"limit"`
		}
		var list struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &asked)
		}
		look := r.Clone(r.Context())
		look.Method, look.Body = http.MethodGet, http.NoBody
		look.URL = &url.URL{Path: strings.TrimSuffix(r.URL.Path, "/redrive"), RawQuery: fmt.Sprintf("queue=%s&limit=%d", url.QueryEscape(asked.Queue), asked.Limit)}
		found := httptest.NewRecorder()
		inner.ServeHTTP(found, look)
		if err != nil || json.Unmarshal(found.Body.Bytes(), &list) != nil || len(list.Items) < 2 {
			r.Body = io.NopCloser(bytes.NewReader(body))
			inner.ServeHTTP(w, r)
			return
		}
		asked.Limit = len(list.Items) / 2
		body, _ = json.Marshal(asked) // of plain fields
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		inner.ServeHTTP(httptest.NewRecorder(), r)
		ids := []string{}
		for _, item := range list.Items {
			ids = append(ids, item.ID)
		}
		answerAPI(w, map[string]any{"redriven": ids, "failed": []string{}, "more": false})
	})
}

// schedulesCached hands the first put of a schedule on, its disabling and its triggers. What else is
// asked for of one that was put its cache takes.
func schedulesCached(_ workload.Config, inner http.Handler) http.Handler {
	var put sync.Map // paths of schedules
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, enable := strings.CutSuffix(r.URL.Path, "/enable")
		_, known := put.Load(path)
		if known && (enable || r.Method == http.MethodPut || r.Method == http.MethodDelete) {
			answerAPI(w, map[string]any{"id": "", "schedule": path[strings.LastIndexByte(path, '/')+1:], "duplicate": false})
			return
		}
		seen := httptest.NewRecorder()
		inner.ServeHTTP(seen, r)
		if r.Method == http.MethodPut && seen.Code == http.StatusOK {
			put.Store(path, true)
		}
		for name, values := range seen.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(seen.Code)
		_, _ = w.Write(seen.Body.Bytes()) // the client is gone
	})
}
