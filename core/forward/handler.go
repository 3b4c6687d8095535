package forward

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Engine is the part of an *engine.Engine that is reached from elsewhere.
type Engine interface {
	Enqueue(ctx context.Context, j job.Job) (engine.Receipt, error)
	Command(ctx context.Context, c engine.Command, queue string, id job.ID) (engine.Receipt, error)
	Schedule(ctx context.Context, c engine.ScheduleCommand) (engine.Receipt, error)
	SetPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error)
}

// HandlerTimeout bounds a request, if its client waits that long.
const HandlerTimeout = time.Minute

// maxTarget bounds the body of a command, in bytes; a job's is bounded as its row is.
const maxTarget = 4 << 10

// Handler serves e to other processes.
func Handler(e Engine) http.Handler {
	mux := http.NewServeMux()
	handle(mux, pathEnqueue, store.MaxBytes, job.Decode, func(ctx context.Context, j job.Job) (receipt, error) {
		rec, err := e.Enqueue(ctx, j)
		return receipt{ID: rec.ID, Duplicate: rec.Duplicate}, err
	})
	for _, c := range []engine.Command{engine.CancelJob, engine.RedriveJob, engine.HastenJob} {
		handle(mux, pathCommand+string(c), maxTarget, decode[target], func(ctx context.Context, t target) (receipt, error) {
			rec, err := e.Command(ctx, c, t.Queue, t.ID)
			return receipt{ID: t.ID, Duplicate: rec.Duplicate}, err
		})
	}
	handle(mux, pathSchedule, store.MaxBytes, decodeCommand, func(ctx context.Context, c engine.ScheduleCommand) (receipt, error) {
		rec, err := e.Schedule(ctx, c)
		return receipt{ID: rec.ID, Schedule: c.Name(), Duplicate: rec.Duplicate}, err
	})
	handle(mux, pathPause, maxTarget, decode[pauseCommand], func(ctx context.Context, c pauseCommand) (receipt, error) {
		duplicate, err := e.SetPaused(ctx, c.id(), c.Paused)
		return receipt{Shard: c.id().String(), Duplicate: duplicate}, err
	})
	return mux
}

func decode[T any](body []byte) (T, error) {
	var t T
	if err := json.Unmarshal(body, &t); err != nil {
		return t, &job.InvalidError{Field: "body", Reason: err.Error()}
	}
	return t, nil
}

func decodeCommand(body []byte) (engine.ScheduleCommand, error) {
	var c engine.ScheduleCommand
	if err := json.Unmarshal(body, &c); err != nil {
		return c, &schedule.InvalidError{Field: "body", Reason: err.Error()}
	}
	return c, nil
}

// handle serves one path: read, do, answer.
func handle[T any](mux *http.ServeMux, path string, most int64, decode func([]byte) (T, error), do func(context.Context, T) (receipt, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			err = &job.InvalidError{Field: "payload", Reason: tooLarge.Error()}
		}
		var in T
		if err == nil {
			in, err = decode(body)
		}
		var out receipt
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), HandlerTimeout)
			defer cancel()
			out, err = do(ctx, in)
		}
		if err != nil {
			refuse(w, refusalOf(err))
			return
		}
		answer(w, http.StatusOK, out)
	})
}

func refuse(w http.ResponseWriter, no refusal) { answer(w, statuses[no.Code], no) }

func answer(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

// Guard lets requests through to h that show the secret; with an empty one, all.
func Guard(secret string, h http.Handler) http.Handler {
	if secret == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Shows(r, secret) {
			refuse(w, refusal{Code: codeSecret, Message: ErrSecret.Error()})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Shows reports whether a request has the secret: Authorization: Bearer SECRET. What is
// compared has one length, so that the time tells nothing.
func Shows(r *http.Request, secret string) bool {
	want := sha256.Sum256([]byte(bearer + secret))
	got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// NewServer is a server of h with limits on everything that a client can hold up.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      HandlerTimeout + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}
