// Command embedded is a program with a job scheduler inside. It enqueues a job for each line
// that it reads, runs jobs, and reports every minute. Put your kinds in place of its two:
//
//	CASSANDRA_CONTACT_POINT=10.0.0.1 go run ./examples/embedded <<< ann@example.com
package main

import (
	"bufio"
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
)

// Signup is somebody who is to be welcomed.
type Signup struct{ Address string }

// The kinds of jobs, which every process of the queue runs.
const (
	Welcome scheduler.Kind[Signup]   = "welcome"
	Report  scheduler.Kind[struct{}] = "report"
)

// handlers are what is done for each kind.
func handlers() (scheduler.Handlers, error) {
	h := scheduler.Handlers{}
	report := func(_ context.Context, t *scheduler.Task, _ struct{}) error { log.Println(t.Run.Job.Key); return nil }
	return h, errors.Join(Welcome.Register(h, welcome), Report.Register(h, report))
}

// welcome may be run twice, if this process dies in the middle; the credit is given once.
func welcome(ctx context.Context, t *scheduler.Task, s Signup) error {
	log.Printf("welcome, %s (job %s, attempt %d)", s.Address, t.Run.Job.ID, t.Run.Attempt)
	return t.Do(ctx, sink.Effect{Key: "credit", Intent: "credit " + s.Address, Value: 1000})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	kinds, err := handlers()
	if err != nil {
		return err
	}
	s, err := scheduler.Open(ctx, scheduler.Config{
		Database: cassandra.Config{ContactPoints: []string{os.Getenv("CASSANDRA_CONTACT_POINT")}, Keyspace: "embedded"},
		Options:  scheduler.Options{Handlers: kinds},
	})
	if err != nil {
		return err
	}
	go enqueue(ctx, s)
	_ = s.Wait() // until a signal comes; then its jobs may end, and others take its shards
	return s.Close()
}

func enqueue(ctx context.Context, s *scheduler.Scheduler) {
	every := schedule.Definition{Key: "report", Timing: schedule.Timing{Kind: schedule.FixedRate, Every: time.Minute}}
	_, err := Report.Schedule(ctx, s, every, struct{}{})
	log.Println("the report is scheduled", err)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		address := lines.Text()
		receipt, err := Welcome.Enqueue(ctx, s, Signup{address}, scheduler.Key(address), scheduler.MaxDuration(10*time.Second))
		log.Println(receipt.ID, "there before:", receipt.Duplicate, err)
	}
}
