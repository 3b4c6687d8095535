// Package forward carries enqueues and commands to the process that owns a job's or a
// schedule's shard, by HTTP/1.1 and JSON. Handler is the owner's side, Client the other one;
// Client.Enqueue fits engine.Options.Forward.
//
//	POST /internal/v1/enqueues many: a line {"ms": …, "job": …} each, with the job as
//	                           job.Encode writes it, and what is left of the caller's time
//	POST /internal/v1/enqueue  one job, by a process of the version before
//	POST /internal/v1/cancel   {"queue": …, "id": …}
//	POST /internal/v1/redrive  {"queue": …, "id": …}
//	POST /internal/v1/hasten   {"queue": …, "id": …}
//	POST /internal/v1/schedule {"verb": …, "queue": …, "key": …}, an engine.ScheduleCommand
//	POST /internal/v1/pause    {"queue": …, "shard": 0, "paused": true}, or false to resume it
//	POST /internal/v1/want     {"queue": …, "shard": 0, "addr": …}: the process there should own it
//	POST /internal/v1/glance   {"queue": …, "shard": 0}: it was handed over to who is asked
//
// 200 with {"id": …} means that it is done and settled; the answer may have
// "duplicate": true, and of a schedule has its "schedule": key, of a shard
// its "shard": queue/number. A refusal is {"code": …, "message": …} with the status of its code:
//
//	400 invalid           the request or the job is; with field and reason
//	400 invalid-schedule  the schedule or its command is; with field and reason
//	401 secret            the request did not show the secret
//	404 no-job            the job is neither in its shard nor in the inbox
//	404 no-schedule       there is no such schedule
//	409 state             the job's state does not allow it; with state
//	409 overlap           an occurrence of the schedule has not ended
//	421 not-owner         this process does not own the shard (any more)
//	422 not-kept          the job cannot be redriven; with field and reason
//	422 broken-schedule   the schedule cannot be read; with reason
//	429 busy              too much waits already; with retry_ms
//	503 stalled           the owner waits for the store's answer; with retry_ms
//	500 unknown           it may have been done
//	503 failed            not done for another reason
//
// Many enqueues are answered with 200 and a line for each, in the order in which they are done:
// a receipt or a refusal, with the number of its line as "n".
//
// # Under load
//
// Enqueues for one process share requests: while four are on their way what comes waits for
// one of them, at most 50 ms. The owner gives an enqueue up when its caller's time is over, less
// 100 ms for the answer: what no tick had taken by then was certainly not done. A process that
// does not answer is left alone, for 0.1 s at first and up to 5 s, and who asks
// meanwhile is told at once: that it cannot be reached, if it does not answer a ping either (any
// answer to GET /internal/v1/ping will do), else that it has too much to do.
//
// # Outcomes
//
// What certainly did not happen is an allow-list: no connection was made, the context
// was over before, or one of the answers above but 500, with its own code and status.
// Everything else is unknown: a lost answer, one that was cut, any other server's or a
// proxy's page. The handler never hands on what is forwarded to it, so that wrong
// addresses cannot make a circle.
//
// # Who may ask
//
// With a secret (Guard, Client.WithSecret), every request has the header Authorization:
// Bearer SECRET, and one that has not is refused before anything of it is read. All
// processes need the same one; while it is changed, those that differ use the inbox.
// It keeps out who can reach the port but is none of them. It does not hide anything:
// it goes in the clear, as the jobs do, so that the network still must be the processes'
// own. Without a secret anybody who reaches the port may do all of this.
package forward
