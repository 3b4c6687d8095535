package forward

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
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
	Line(ctx context.Context, j job.Job) (await func(context.Context) (engine.Receipt, error))
	Command(ctx context.Context, c engine.Command, queue string, id job.ID) (engine.Receipt, error)
	Schedule(ctx context.Context, c engine.ScheduleCommand) (engine.Receipt, error)
	SetPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error)
	Glance(id store.ShardID) error
	Want(id store.ShardID, addr string) error
}

// HandlerTimeout bounds a request, if its client waits that long.
const HandlerTimeout = time.Minute

// maxTarget bounds the body of a command, in bytes; a job's is bounded as its row is.
const maxTarget = 4 << 10

// Handler serves e to other processes.
func Handler(e Engine) http.Handler {
	mux := http.NewServeMux()
	handle(mux, pathEnqueue, store.MaxBytes, job.Decode, func(ctx context.Context, j job.Job) (receipt, error) {
		rec, err := e.Line(ctx, j)(ctx)
		return receipt{ID: rec.ID, Duplicate: rec.Duplicate}, err
	})
	mux.HandleFunc("POST "+pathEnqueues, func(w http.ResponseWriter, r *http.Request) { enqueues(e, w, r) })
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
	handle(mux, pathGlance, maxTarget, decode[shardTarget], func(_ context.Context, t shardTarget) (receipt, error) {
		return receipt{Shard: t.id().String()}, e.Glance(t.id())
	})
	handle(mux, pathWant, maxTarget, decode[want], func(_ context.Context, w want) (receipt, error) {
		return receipt{Shard: w.id().String()}, e.Want(w.id(), w.Addr)
	})
	return mux
}

// enqueues serves many enqueues. Each is answered when it is done, whatever becomes of the others.
func enqueues(e Engine, w http.ResponseWriter, r *http.Request) {
	var in []enqueueRequest
	lines := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*maxBatchBytes))
	for {
		var one enqueueRequest
		err := lines.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(in) == maxBatch {
			err = fmt.Errorf("more than %d enqueues in one request", maxBatch)
		}
		if err != nil {
			refuse(w, refusalOf(&job.InvalidError{Field: "body", Reason: err.Error()}))
			return
		}
		in = append(in, one)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	answers := make(chan enqueueAnswer, len(in))
	for n, one := range in {
		await := one.line(r.Context(), e)
		go func() { answers <- one.answer(r.Context(), n, await) }()
	}
	flush, _ := w.(http.Flusher)
	for range in {
		_ = json.NewEncoder(w).Encode(<-answers)
		if flush != nil && len(answers) == 0 {
			flush.Flush()
		}
	}
}

// line has the job wait for a tick.
func (in enqueueRequest) line(ctx context.Context, e Engine) (await func(context.Context) (engine.Receipt, error)) {
	j, err := job.Decode(in.Job)
	if err != nil {
		return func(context.Context) (engine.Receipt, error) { return engine.Receipt{}, err }
	}
	return e.Line(ctx, j)
}

// answer waits for what became of it, while its caller has time.
func (in enqueueRequest) answer(ctx context.Context, n int, await func(context.Context) (engine.Receipt, error)) enqueueAnswer {
	limit := HandlerTimeout
	if in.Millis > 0 {
		limit = min(limit, time.Duration(in.Millis)*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rec, err := await(ctx)
	if err != nil {
		return enqueueAnswer{N: n, refusal: refusalOf(err)}
	}
	return enqueueAnswer{N: n, receipt: receipt{ID: rec.ID, Duplicate: rec.Duplicate}}
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
