package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/scheduler/schedulertest"
	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
)

// Invoice is what jobs of kind SendInvoice are given.
type Invoice struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

const SendInvoice scheduler.Kind[Invoice] = "send-invoice"

// Jobs are enqueued with typed arguments, and run by the handler of their kind: at once,
// later, or not again, when a job with that key is there.
func Example() {
	schedulertest.Example(func(h *schedulertest.Harness) {
		schedulertest.Handle(h, SendInvoice, func(_ context.Context, t *scheduler.Task, in Invoice) error {
			fmt.Printf("%s, attempt %d: %s owes %d cents\n", time.Now().Format("15:04"), t.Run.Attempt, in.Customer, in.Cents)
			return nil
		})
		ctx, s := context.Background(), h.Scheduler()
		for range 2 {
			receipt, err := SendInvoice.Enqueue(ctx, s, Invoice{"acme", 1999}, scheduler.Key("invoice-17"))
			h.Advance(time.Second)
			fmt.Println("a duplicate:", receipt.Duplicate, err)
		}
		_, err := SendInvoice.Enqueue(ctx, s, Invoice{"globex", 500}, scheduler.Delay(8*time.Hour), scheduler.MaxDuration(5*time.Minute))
		fmt.Println(err)
		h.Advance(8 * time.Hour)
	})
	// Output:
	// 00:00, attempt 1: acme owes 1999 cents
	// a duplicate: false <nil>
	// a duplicate: true <nil>
	// <nil>
	// 08:00, attempt 1: globex owes 500 cents
}

// A program with a scheduler inside needs the addresses of the database and its handlers.
func ExampleOpen() {
	ctx, handlers := context.Background(), scheduler.Handlers{}
	err := SendInvoice.Register(handlers, func(context.Context, *scheduler.Task, Invoice) error { return nil })
	if err != nil {
		log.Fatal(err)
	}

	s, err := scheduler.Open(ctx, scheduler.Config{
		Database: cassandra.Config{ContactPoints: []string{"10.0.0.1"}, Keyspace: "billing"},
		Options:  scheduler.Options{Handlers: handlers},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, err = SendInvoice.Enqueue(ctx, s, Invoice{Customer: "acme", Cents: 1999}, scheduler.Key("invoice-17"))
	fmt.Println(err)
}

// Who is refused, as there is too much to do, comes again after the time that it was told, and a
// random part of it, so that not all come back at once. A key makes it safe to ask again after
// anything.
func Example_retryAfter() {
	schedulertest.Example(func(h *schedulertest.Harness) {
		schedulertest.Handle(h, SendInvoice, func(context.Context, *scheduler.Task, Invoice) error { return nil })
		ctx, s := context.Background(), h.Scheduler()
		for {
			receipt, err := SendInvoice.Enqueue(ctx, s, Invoice{"acme", 1999}, scheduler.Key("invoice-17"))
			wait, busy := engine.RetryAfter(err)
			if !busy {
				fmt.Println("a duplicate:", receipt.Duplicate, err)
				return
			}
			time.Sleep(wait + rand.N(wait/2))
		}
	})
	// Output:
	// a duplicate: false <nil>
}

// A job whose attempts are used up waits in the dead letter queue, with the reason, until
// somebody redrives it. A payload that its handler cannot read is there at once.
func Example_deadLetterQueue() {
	schedulertest.Example(func(h *schedulertest.Harness) {
		down := true
		schedulertest.Handle(h, SendInvoice, func(_ context.Context, t *scheduler.Task, in Invoice) error {
			if down {
				fmt.Println(time.Now().Format("15:04:05"), "attempt", t.Run.Attempt, "fails")
				return errors.New("the mail server is down")
			}
			return nil
		})
		ctx, s := context.Background(), h.Scheduler()
		show := func(id job.ID) {
			j := h.Job(id)
			fmt.Printf("%s after %d attempts: %s\n", j.State, j.Attempts, j.Note)
		}
		receipt, _ := SendInvoice.Enqueue(ctx, s, Invoice{"acme", 1999}, scheduler.MaxAttempts(3),
			scheduler.Retry(job.RetryPolicy{Delays: []time.Duration{5 * time.Second, time.Minute}}))
		h.Advance(time.Hour)
		show(receipt.ID)

		down = false
		fmt.Println("redrive:", s.Redrive(ctx, schedulertest.DefaultQueue, receipt.ID))
		h.Advance(time.Minute)
		fmt.Println(h.Job(receipt.ID).State)

		bad, _ := s.Enqueue(ctx, job.Job{Kind: string(SendInvoice), Payload: []byte(`{"customer": "acme", "cents": "many"}`)})
		h.Advance(time.Second)
		show(bad.ID)
	})
	// Output:
	// 00:00:00 attempt 1 fails
	// 00:00:05 attempt 2 fails
	// 00:01:05 attempt 3 fails
	// dlq after 3 attempts: the mail server is down
	// redrive: <nil>
	// completed
	// dlq after 1 attempts: not to be tried again: the payload of a job of kind "send-invoice" is no scheduler_test.Invoice: json: cannot unmarshal string into Go struct field Invoice.cents of type int64
}

// A schedule fires at the times that a cron expression names in a time zone; each
// nominal time has one job. It can be fired by hand, too.
func Example_cron() {
	const Report scheduler.Kind[struct{}] = "report"
	schedulertest.Example(func(h *schedulertest.Harness) {
		schedulertest.Handle(h, Report, func(_ context.Context, t *scheduler.Task, _ struct{}) error {
			o := t.Run.Job.Occurrence
			fmt.Printf("%s %s %q\n", o.Schedule, time.UnixMilli(o.Nominal).UTC().Format(time.DateTime), o.Trigger)
			return nil
		})
		ctx, s := context.Background(), h.Scheduler()
		_, err := Report.Schedule(ctx, s, schedule.Definition{Key: "nightly",
			Timing: schedule.Timing{Kind: schedule.Cron, Cron: "30 2 * * mon-fri", Zone: "Asia/Ho_Chi_Minh"}}, struct{}{})
		fmt.Println("from", time.Now().Format(time.RFC850), err)
		h.Advance(3 * 24 * time.Hour)
		_, err = s.Schedule(ctx, engine.ScheduleCommand{Verb: engine.TriggerSchedule, Queue: schedulertest.DefaultQueue, Key: "nightly", Trigger: "ann-1"})
		fmt.Println("triggered", err)
		h.Advance(time.Second)
	})
	// Output:
	// from Saturday, 01-Jan-00 00:00:00 UTC <nil>
	// nightly 2000-01-02 19:30:00 ""
	// nightly 2000-01-03 19:30:00 ""
	// triggered <nil>
	// nightly 2000-01-04 00:00:00 "ann-1"
}

// A sequence: each job is enqueued by the very step that ends the one before it. It stops
// at a job that ends in the dead letter queue, and goes on when that is redriven.
func Example_sequence() {
	type Order struct{ Number int }
	const (
		Charge scheduler.Kind[Order] = "charge"
		Pack   scheduler.Kind[Order] = "pack"
		Ship   scheduler.Kind[Order] = "ship"
	)
	schedulertest.Example(func(h *schedulertest.Harness) {
		empty := true
		say := func(_ context.Context, t *scheduler.Task, o Order) error {
			fmt.Println(t.Run.Job.Kind, o.Number)
			return nil
		}
		schedulertest.Handle(h, Charge, say)
		schedulertest.Handle(h, Ship, say)
		var dead job.ID
		schedulertest.Handle(h, Pack, func(ctx context.Context, t *scheduler.Task, o Order) error {
			if dead = t.Run.Job.ID; empty {
				return job.Permanent(errors.New("nothing in stock"))
			}
			return say(ctx, t, o)
		})
		ctx, s := context.Background(), h.Scheduler()
		order := Order{Number: 7}
		_, err := Charge.Enqueue(ctx, s, order, scheduler.Then(Pack, order), scheduler.Then(Ship, order, scheduler.MaxAttempts(10)))
		h.Advance(time.Hour)
		fmt.Println(err)
		fmt.Println(h.Job(dead).State, h.Job(dead).Note)
		empty = false
		_ = s.Redrive(ctx, schedulertest.DefaultQueue, dead)
		h.Advance(time.Hour)
	})
	// Output:
	// charge 7
	// <nil>
	// dlq not to be tried again: nothing in stock
	// pack 7
	// ship 7
}

// A run may be cut off at any point and the job run again; an effect that goes through the
// task is accepted once all the same.
func Example_fencedEffect() {
	schedulertest.Example(func(h *schedulertest.Harness) {
		schedulertest.Handle(h, SendInvoice, func(ctx context.Context, t *scheduler.Task, in Invoice) error {
			fmt.Println("attempt", t.Run.Attempt)
			// The key names the step, the intent what is done: never values that a second run could compute again.
			if err := t.Do(ctx, sink.Effect{Key: "charge", Intent: fmt.Sprint("charge ", in.Cents), Value: in.Cents}); err != nil {
				return err
			}
			if t.Run.Attempt == 1 {
				return h.Crash() // as kill -9 would: nobody knows that it was done
			}
			return nil
		})
		receipt, err := SendInvoice.Enqueue(context.Background(), h.Scheduler(), Invoice{"acme", 1999})
		h.Advance(5 * time.Minute)
		fmt.Println(err)
		fmt.Println(h.Job(receipt.ID).State)
		entries, _ := h.Sink.Ledger(context.Background(), "job/"+schedulertest.DefaultQueue+"/"+string(receipt.ID))
		for _, e := range entries {
			fmt.Println(e.Kind, e.Key, e.Value)
		}
	})
	// Output:
	// attempt 1
	// attempt 2
	// <nil>
	// completed
	// accept charge 1999
	// raise  0
}
