// Package scheduler is a complete scheduler process without its HTTP API: an
// engine that owns shards (core/engine), the pool that runs its jobs (core/worker),
// and the fenced sink of their effects (core/sink). A daemon, a process under test or a
// program of yours has it inside.
//
// # In a program of yours
//
// A Kind names a kind of job and the type of its arguments. The code that enqueues such
// jobs and the code that runs them share it:
//
//	const SendInvoice scheduler.Kind[Invoice] = "send-invoice"
//
// The program registers a handler for each kind that it runs, and opens a scheduler, which
// works until it is closed:
//
//	handlers := scheduler.Handlers{}
//	err := SendInvoice.Register(handlers, sendInvoice)
//	s, err := scheduler.Open(ctx, scheduler.Config{
//		Database: cassandra.Config{ContactPoints: []string{"10.0.0.1"}, Keyspace: "billing"},
//		Options:  scheduler.Options{Handlers: handlers},
//	})
//	defer s.Close()
//	_, err = SendInvoice.Enqueue(ctx, s, Invoice{Customer: "acme", Cents: 1999}, scheduler.Key("invoice-17"))
//
// Open prepares the keyspace and wires the parts: the engine on its store, the sink of the
// keyspace, the history of runs, the other processes with whom shards are shared, the listener
// where they hand jobs on, and the secret that they share. schedulerd is wired by it too.
// New is for other parts, as in tests: Run then starts it.
// examples/embedded is such a program, whole. Every process of a queue registers all of the
// queue's kinds, as any of them may own any of its shards; a process that only enqueues
// asks one of these (core/service/api), or is one.
//
// # Who owns how many shards
//
// Shards without an owner are taken by whose share they are. A process that owns more than its
// share, and two more than another, hands shards over one by one, so that within 4 ttl of the last
// that came or left all have as many, or one more: of each queue, and of all. No run is interrupted
// for that: a shard whose runs take longer than DrainTimeout stays (see balance).
//
// # What a handler does
//
// It returns nil, and the job is completed; or an error, and the job is tried again, as
// its retry policy says, until it ends in the dead letter queue. An error made by
// job.Permanent sends it there at once, one made by job.Cancel cancels it. Its
// context ends when the right to run is lost, when the job's max duration is over, or
// when the process stops: then it returns soon.
//
// A job runs at least once, and in rare cases two of its runs execute at once. What
// must not happen twice goes through the task: Task.Do gets an effect accepted at most
// once over all runs, by a sink that refuses a run that was overtaken. A handler that
// writes elsewhere shows the job's id, the same in every run, or Task.Token, which rises.
//
// # Tests
//
// Package schedulertest runs a real scheduler over a store in memory, on a clock that
// the test advances, and crashes it where the test wants.
package scheduler
