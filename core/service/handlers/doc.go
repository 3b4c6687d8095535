// Package handlers has the kinds of jobs that a scheduler runs without a program of
// one's own: http, which makes a request, and log, for trying out.
//
// # http
//
// The payload is {"url": …, "method": …, "headers": {…}, "body": …}, all of it optional if
// the scheduler has a target: a body goes there by POST, as JSON. A run makes one request, with
//
//	Idempotency-Key   the job's id: the same in every attempt, and for every redrive
//	Fencing-Token     the run's id, which rises with each run of the job, in whatever process
//	Fencing-Resource  what the tokens are compared for: the job
//	Job-Kind, Job-Queue, Job-Attempt
//	Schedule-Key, Schedule-Time   the nominal time, of a job that a schedule fired
//
// 2xx is success; anything else, and no answer at all, fails the attempt, and the job is
// tried again as its policy says. So a request may come more than once, and a late one
// after a newer one: a receiver that must not do things twice remembers the
// Idempotency-Key, and refuses a Fencing-Token below the highest that it has seen for
// the resource. Redirects are not followed.
//
// A job whose host its process may not ask waits for a process that may (job.NotHere). A
// payload of which no request can be made goes to the dead letter queue.
//
// Any caller who may enqueue could make the scheduler send requests to anything that it
// can reach. So a job may name allowed hosts only; none is allowed by default.
package handlers
