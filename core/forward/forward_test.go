package forward_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// stub is an engine with one answer for everything.
type stub struct {
	rec engine.Receipt
	err error
	got []any
}

func (s *stub) Line(_ context.Context, j job.Job) func(context.Context) (engine.Receipt, error) {
	s.got = append(s.got, j)
	return func(context.Context) (engine.Receipt, error) { return s.rec, s.err }
}

func (s *stub) Command(_ context.Context, c engine.Command, queue string, id job.ID) (engine.Receipt, error) {
	s.got = append(s.got, string(c), queue, id)
	return s.rec, s.err
}

func (s *stub) SetPaused(_ context.Context, id store.ShardID, on bool) (bool, error) {
	s.got = append(s.got, "pause", id, on)
	return s.rec.Duplicate, s.err
}

func (s *stub) Glance(id store.ShardID) error {
	s.got = append(s.got, "glance", id)
	return s.err
}

func (s *stub) Want(id store.ShardID, addr string) error {
	s.got = append(s.got, "want", id, addr)
	return s.err
}

func (s *stub) Schedule(_ context.Context, c engine.ScheduleCommand) (engine.Receipt, error) {
	s.got = append(s.got, c)
	return s.rec, s.err
}

func aJob() job.Job {
	return job.Job{ID: job.KeyedID("q", "a", 1), Queue: "q", Kind: "k", Key: "a", Payload: []byte("<&>\x00")}.WithDefaults()
}

var aShard = store.ShardID{Queue: "q", Shard: 3}

// serve starts a server, and returns a client and the server's address.
func serve(t *testing.T, h http.Handler) (*forward.Client, string) {
	t.Helper()
	s := httptest.NewServer(h)
	c := forward.NewClient(nil)
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c, strings.TrimPrefix(s.URL, "http://")
}

func enqueueError(o store.Outcome, cause error) error {
	return &engine.EnqueueError{Job: aJob().ID, Outcome: o, Cause: cause}
}

func commandError(o store.Outcome, cause error) error {
	return &engine.CommandError{Command: "cancel", Job: aJob().ID, Outcome: o, Cause: cause}
}

// TestSecret: without it nothing reaches the engine, and nothing was done.
func TestSecret(t *testing.T) {
	t.Parallel()
	const secret = "a secret of some length"
	for name, c := range map[string]struct {
		shown string
		ok    bool
	}{
		"the secret":  {secret, true},
		"another":     {secret + "x", false},
		"a part":      {secret[:5], false},
		"none at all": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{rec: engine.Receipt{ID: aJob().ID}}
			client, addr := serve(t, forward.Guard(secret, forward.Handler(s)))
			client = client.WithSecret(c.shown)
			_, err := client.Enqueue(t.Context(), addr, aJob())
			cancelled := second(client.Command(t.Context(), addr, engine.CancelJob, "q", aJob().ID))
			for _, err := range []error{err, cancelled} {
				if c.ok && err != nil || !c.ok && (!errors.Is(err, forward.ErrSecret) || store.OutcomeOf(err) != store.Fail) {
					t.Errorf("%v", err)
				}
			}
			if (len(s.got) > 0) != c.ok {
				t.Errorf("the engine was asked %v", s.got)
			}
		})
	}
	s := &stub{rec: engine.Receipt{ID: aJob().ID}}
	client, addr := serve(t, forward.Guard("", forward.Handler(s)))
	if _, err := client.WithSecret("any").Enqueue(t.Context(), addr, aJob()); err != nil {
		t.Errorf("with a secret that nobody asks for: %v", err)
	}
}

// TestEnqueueErrors: every error of the owner arrives as what it was.
func TestEnqueueErrors(t *testing.T) {
	t.Parallel()
	other := errors.New("something else")
	lost := &engine.LostError{Cause: engine.ErrExpired}
	for name, c := range map[string]struct {
		err     error
		outcome store.Outcome
		is      error
	}{
		"done":              {nil, store.OK, nil},
		"not the owner":     {enqueueError(store.Fail, engine.ErrNotOwner), store.Fail, engine.ErrNotOwner},
		"stopping":          {enqueueError(store.Fail, engine.ErrStopping), store.Fail, engine.ErrNotOwner},
		"lost":              {enqueueError(store.Fail, lost), store.Fail, engine.ErrNotOwner},
		"lost in the tick":  {enqueueError(store.Unknown, lost), store.Unknown, nil},
		"busy":              {enqueueError(store.Fail, engine.ErrBusy), store.Fail, engine.ErrBusy},
		"stalled":           {enqueueError(store.Fail, engine.ErrStalled), store.Fail, engine.ErrStalled},
		"refused":           {enqueueError(store.Fail, other), store.Fail, nil},
		"nobody waited":     {enqueueError(store.Unknown, context.Canceled), store.Unknown, nil},
		"unknown kind":      {other, store.Unknown, nil},
		"busy, not certain": {enqueueError(store.Unknown, engine.ErrBusy), store.Unknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{err: c.err, rec: engine.Receipt{ID: aJob().ID, Duplicate: name == "done"}}
			client, addr := serve(t, forward.Handler(s))
			rec, err := client.Enqueue(t.Context(), addr, aJob())
			if store.OutcomeOf(err) != c.outcome || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v arrived as %v, outcome %s", c.err, err, store.OutcomeOf(err))
			}
			if c.err == nil && rec != s.rec || c.err != nil && !errors.As(err, new(*engine.EnqueueError)) {
				t.Errorf("%+v, %T", rec, err)
			}
			if len(s.got) != 1 || !reflect.DeepEqual(s.got[0], aJob()) {
				t.Errorf("the job arrived as %+v", s.got)
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		outcome store.Outcome
		like    func(error) bool
	}{
		"done":           {nil, store.OK, func(err error) bool { return err == nil }},
		"not the owner":  {commandError(store.Fail, engine.ErrNotOwner), store.Fail, func(err error) bool { return errors.Is(err, engine.ErrNotOwner) }},
		"no such job":    {commandError(store.Fail, engine.ErrUnknownJob), store.Fail, func(err error) bool { return errors.Is(err, engine.ErrUnknownJob) }},
		"completed":      {commandError(store.Fail, &engine.StateError{Job: aJob().ID, State: job.Completed}), store.Fail, func(err error) bool { return stateOf(err) == job.Completed }},
		"not kept":       {commandError(store.Fail, &job.InvalidError{Field: "body", Reason: "gone"}), store.Fail, func(err error) bool { return fieldOf(err) == "body" }},
		"invalid":        {&job.InvalidError{Field: "id", Reason: "odd"}, store.Fail, func(err error) bool { return fieldOf(err) == "id" }},
		"unknown":        {commandError(store.Unknown, context.Canceled), store.Unknown, func(err error) bool { return stateOf(err) == "" }},
		"not done, else": {commandError(store.Fail, errors.New("x")), store.Fail, func(err error) bool { return strings.Contains(err.Error(), "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{err: c.err}
			client, addr := serve(t, forward.Handler(s))
			for _, err := range []error{
				second(client.Command(t.Context(), addr, engine.CancelJob, "q", aJob().ID)),
				second(client.Command(t.Context(), addr, engine.RedriveJob, "q", aJob().ID)),
				second(client.Command(t.Context(), addr, engine.HastenJob, "q", aJob().ID)),
				second(client.SetPaused(t.Context(), addr, aShard, true)),
			} {
				if store.OutcomeOf(err) != c.outcome || !c.like(err) {
					t.Errorf("%v arrived as %v, outcome %s", c.err, err, store.OutcomeOf(err))
				}
			}
			want := []any{"cancel", "q", aJob().ID, "redrive", "q", aJob().ID, "hasten", "q", aJob().ID, "pause", aShard, true}
			if !reflect.DeepEqual(s.got, want) {
				t.Errorf("asked for %v", s.got)
			}
		})
	}
}

func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	failed := func(o store.Outcome, cause error) error {
		return &engine.CommandError{Command: "put", Schedule: "s", Outcome: o, Cause: cause}
	}
	d := schedule.Definition{Queue: "q", Key: "s", Timing: schedule.Timing{Kind: schedule.Cron, Cron: "@daily", Zone: "Asia/Ho_Chi_Minh"}, Job: job.Job{Kind: "k"}}
	for name, c := range map[string]struct {
		err  error
		like func(error) bool
	}{
		"done":          {nil, func(err error) bool { return err == nil }},
		"not the owner": {failed(store.Fail, engine.ErrNotOwner), func(err error) bool { return errors.Is(err, engine.ErrNotOwner) }},
		"none":          {failed(store.Fail, engine.ErrUnknownSchedule), func(err error) bool { return errors.Is(err, engine.ErrUnknownSchedule) }},
		"overlap":       {failed(store.Fail, schedule.ErrOverlap), func(err error) bool { return errors.Is(err, schedule.ErrOverlap) }},
		"broken": {failed(store.Fail, &engine.BrokenError{Schedule: "s", Cause: errors.New("x")}), func(err error) bool {
			var broken *engine.BrokenError
			return errors.As(err, &broken) && broken.Schedule == "s" && strings.Contains(err.Error(), "x")
		}},
		"invalid": {&schedule.InvalidError{Field: "cron", Reason: "is odd"}, func(err error) bool {
			var invalid *schedule.InvalidError
			return errors.As(err, &invalid) && invalid.Field == "cron"
		}},
		"invalid job":  {&job.InvalidError{Field: "kind", Reason: "is empty"}, func(err error) bool { return fieldOf(err) == "kind" }},
		"unknown":      {failed(store.Unknown, context.Canceled), func(err error) bool { return store.OutcomeOf(err) == store.Unknown }},
		"unknown kind": {errors.New("something else"), func(err error) bool { return store.OutcomeOf(err) == store.Unknown }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{err: c.err, rec: engine.Receipt{ID: job.ScheduleID("q", "s", 1), Duplicate: name == "done"}}
			client, addr := serve(t, forward.Handler(s))
			cmd := engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d}
			rec, err := client.Schedule(t.Context(), addr, cmd)
			if !c.like(err) || c.err == nil && rec != s.rec {
				t.Errorf("%v arrived as %v, %+v", c.err, err, rec)
			}
			if len(s.got) != 1 || !reflect.DeepEqual(s.got[0], cmd) {
				t.Errorf("the command arrived as %+v", s.got)
			}
		})
	}
}

func stateOf(err error) job.State {
	var se *engine.StateError
	if errors.As(err, &se) {
		return se.State
	}
	return ""
}

func fieldOf(err error) string {
	var invalid *job.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field
	}
	return ""
}

// TestAnswersThatMeanNothing: what the handler did not write is an unknown outcome.
func TestAnswersThatMeanNothing(t *testing.T) {
	t.Parallel()
	say := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"lost": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"code":"not-owner"`))
		},
		"another server's page":      say(404, "404 page not found"),
		"a proxy's refusal":          say(503, "<html>"),
		"another status":             say(200+221, `{"code":"busy"}`),
		"no code":                    say(429, `{}`),
		"an unheard-of code":         say(418, `{"code":"teapot"}`),
		"done, without the job":      say(200, `{}`),
		"done, of another job":       say(200, `{"id":"0-x"}`),
		"done, but not in this form": say(200, `fine`),
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/internal/v1/other", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, addr := serve(t, h)
			if _, err := client.Enqueue(t.Context(), addr, aJob()); err == nil || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("Enqueue: %v, outcome %s", err, store.OutcomeOf(err))
			}
			if err := second(client.Command(t.Context(), addr, engine.CancelJob, "q", aJob().ID)); err == nil || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("Cancel: %v, outcome %s", err, store.OutcomeOf(err))
			}
		})
	}
}

// TestNothingWasSent: then it is certain that nothing was done.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	s := &stub{}
	client, addr := serve(t, forward.Handler(s))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, err := range map[string]error{
		"refused connection": second(client.Enqueue(t.Context(), strings.TrimPrefix(gone.URL, "http://"), aJob())),
		"no address":         second(client.Enqueue(t.Context(), "%", aJob())),
		"over before":        second(client.Enqueue(over, addr, aJob())),
		"command":            second(client.Command(over, addr, engine.RedriveJob, "q", aJob().ID)),
	} {
		if err == nil || store.OutcomeOf(err) != store.Fail {
			t.Errorf("%s: %v, outcome %s", name, err, store.OutcomeOf(err))
		}
	}
	if len(s.got) != 0 {
		t.Errorf("asked for %v", s.got)
	}
}

func second[T any](_ T, err error) error { return err }

// TestTheClientStopsWaiting: then the outcome is unknown, and the owner's call ends.
func TestTheClientStopsWaiting(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan error, 1)
	client, addr := serve(t, forward.Handler(&slow{asked: asked, ended: ended}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := client.Enqueue(ctx, addr, aJob()); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("Enqueue: %v, outcome %s", err, store.OutcomeOf(err))
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the owner's call ended by %v", err)
	}
}

// slow is an engine that does not come to an end.
type slow struct {
	stub
	asked chan struct{}
	ended chan error
}

func (s *slow) Line(context.Context, job.Job) func(context.Context) (engine.Receipt, error) {
	close(s.asked)
	return func(ctx context.Context) (engine.Receipt, error) {
		<-ctx.Done()
		s.ended <- ctx.Err()
		return engine.Receipt{}, enqueueError(store.Unknown, ctx.Err())
	}
}

// TestHandlerRefuses what is no request of a Client.
func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"half a request":      {"POST", "/internal/v1/enqueues", "{", 400},
		"too many":            {"POST", "/internal/v1/enqueues", strings.Repeat("{}", 101), 400},
		"too much":            {"POST", "/internal/v1/enqueues", `{"job":"` + strings.Repeat("A", 2*store.MaxBytes) + `"}`, 400},
		"half a job":          {"POST", "/internal/v1/enqueue", "{", 400},
		"too large a job":     {"POST", "/internal/v1/enqueue", `{"payload":"` + strings.Repeat("A", store.MaxBytes) + `"}`, 400},
		"half a command":      {"POST", "/internal/v1/cancel", "{", 400},
		"too large a command": {"POST", "/internal/v1/redrive", `{"queue":"` + strings.Repeat("A", 5000) + `"}`, 400},
		"another method":      {"GET", "/internal/v1/enqueue", "", 405},
		"another version":     {"POST", "/internal/v2/enqueue", "{}", 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{}
			rec := httptest.NewRecorder()
			forward.Handler(s).ServeHTTP(rec, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			if rec.Code != c.status || len(s.got) != 0 {
				t.Errorf("status %d, want %d; asked for %v", rec.Code, c.status, s.got)
			}
		})
	}
}

func TestServerHasLimits(t *testing.T) {
	t.Parallel()
	s := forward.NewServer(http.NotFoundHandler())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.WriteTimeout <= forward.HandlerTimeout {
		t.Errorf("%+v", s)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMoves: who wants a shard tells its owner, and is told when it may take it.
func TestMoves(t *testing.T) {
	t.Parallel()
	s := &stub{}
	c, addr := serve(t, forward.Handler(s))
	for _, ask := range []struct {
		do  func() error
		got []any
	}{
		{func() error { return c.Want(t.Context(), addr, aShard, "here:1") }, []any{"want", aShard, "here:1"}},
		{func() error { return c.Glance(t.Context(), addr, aShard) }, []any{"glance", aShard}},
	} {
		s.got, s.err = nil, nil
		if err := ask.do(); err != nil || !slices.Equal(s.got, ask.got) {
			t.Errorf("%v; it was asked for %v, want %v", err, s.got, ask.got)
		}
		s.err = commandError(store.Fail, engine.ErrNotOwner)
		if err := ask.do(); !errors.Is(err, engine.ErrNotOwner) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("of one that does not have it: %v", err)
		}
	}
}
