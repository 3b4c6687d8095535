// Package worker runs claimed jobs with handlers.
//
// A Pool is the engine's executor: a fixed number of slots for all shards of a
// process. A run begins with a look at the clock, immediately before its handler is
// called, and is not begun when its shard is no longer trusted. Its context ends at
// the first of: the end of the shard's trust (with the engine's *LostError as cause),
// the job's own MaxDuration (ErrTooLong), and the end of the drain when the process
// stops (job.ErrInterrupted). A handler that continues after that does no harm that the
// sink cannot refuse. But its slot stays taken until it returns, and its result is
// reported only then.
//
// # Effects
//
// A Task carries the run id as fencing token. Its effects go to a sink resource
// per job, whose issuer is the job's shard, with a key per step. Open
// raises the token and waits for that before it reads what earlier runs did; after
// it no earlier run of the job can have an effect any more. (Before the first claim of
// a job there was none; then Open has nothing to do.) An effect whose outcome
// is unknown must be settled, by the same effect again, before anything else is done
// under the token: the Task refuses the rest until then. Effects on state that
// several jobs share need a lease of core/lock on that state, and its token.
package worker
