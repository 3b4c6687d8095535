package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// workers are those of a process. The scheduler never runs more jobs at once than there are.
type workers struct {
	queue  Queue
	opened chan struct{} // closed when queue is set
	idle   chan *worker
}

func (w *workers) run(ctx context.Context, j Job) error {
	<-w.opened
	one := <-w.idle
	defer func() { w.idle <- one }()
	return one.run(ctx, w.queue, j)
}

// worker runs one job after the other.
type worker struct {
	*actor
	fenced bool
}

var (
	errNoAnswer = errors.New("the sink did not answer: the effect may have happened")
	errLate     = errors.New("the run's context ended before its effect")
)

// run is one run of a job: the scheduler's grant, the effect, and the next job. An error of the record
// or of the harness ends the process, as nothing that happens after it would be recorded.
func (w *worker) run(ctx context.Context, q Queue, j Job) error {
	g := w.begin(j)
	became, err := w.effect(ctx, j, g)
	if became == done {
		err = put(ctx, q, Job{Lock: j.Lock, N: j.N + 1})
	}
	w.end(j, g)
	return err
}

// grant is what a run of a job is in the history.
type grant struct {
	version version
	token   int64
}

// begin records that the scheduler has handed out the job. When it asked for it only its library knows.
func (w *worker) begin(j Job) grant {
	g := grant{version{Fence: stamp(), Attempt: uuid.NewString(), Holder: w.proc, TTL: millis("TTL_MS").Milliseconds()}, j.Token}
	if g.token == 0 {
		g.token = stamp()
	}
	call, err := w.record.invoke(w.proc, "lock", j.Lock, nil)
	fail(err)
	taken, err := w.record.invoke(w.proc, "acquire", j.Lock, event{"from": absent(), "to": g.version})
	fail(err)
	fail(w.record.end(taken, "ok", event{"sends": []int64{now()}}))
	fail(w.record.end(call, "ok", event{"token": g.token}))
	return g
}

// effect is the user's job. An error is for the scheduler, which shall run the job again.
func (w *worker) effect(ctx context.Context, j Job, g grant) (outcome, error) {
	resource := "res-" + j.Lock
	if w.fenced {
		switch known, err := w.sink.raise(resource, j.Lock, g.token); {
		case err != nil:
			fail(err)
		case known == refused:
			return refused, nil // a later run has begun
		case known == unanswered:
			return unanswered, errNoAnswer
		}
	}
	value, known, err := w.sink.get(resource)
	fail(err)
	if !known {
		return unanswered, errNoAnswer
	}
	fail(w.record.note(event{"op": "start", "proc": w.proc, "key": j.Lock, "token": g.token, "decided_at": now()}))
	defer func() { fail(w.record.note(event{"op": "finish", "proc": w.proc, "key": j.Lock, "token": g.token})) }()
	stay, err := point("holding", w.proc, j.Lock)
	fail(err)
	if stay == 0 {
		stay = w.about(millis("HOLD_MS"))
	}
	_ = pause(ctx, stay) // what follows looks
	decided := now()
	if ctx.Err() != nil {
		return refused, errLate
	}
	became, err := w.sink.effect(resource, j.Lock, g.token, j.ID(), value+1, decided, func() error {
		_, err := point("effect-sent", w.proc, j.Lock)
		return err
	})
	fail(err)
	if became == unanswered {
		return became, errNoAnswer
	}
	return became, nil
}

// put puts a job until that is known to be done: what follows from an effect must not be lost with an
// answer, and the run must not be repeated for it.
func put(ctx context.Context, q Queue, j Job) error {
	for {
		once, cancel := context.WithTimeout(ctx, putTimeout)
		err := q.Put(once, j)
		cancel()
		if err == nil {
			return nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("put %s: %w", j.ID(), err)
		}
	}
}

// end records that the worker has nothing more to do with the job. When its acknowledgement takes effect
// only the scheduler's library knows.
func (w *worker) end(j Job, g grant) {
	head, err := w.record.invoke(w.proc, "release", j.Lock, event{"from": g.version, "to": absent()})
	fail(err)
	fail(w.record.end(head, "ok", event{"sends": []int64{now()}}))
}
