// Package engine owns shards of job queues, runs their jobs and fires their schedules:
// many jobs for one conditional batch.
//
// A process owns shards. It commits everything that happens to a shard's jobs
// (enqueue, claim, completion, retry, rescue, cancellation, redrive, haste, sweep) and
// schedules in ticks:
// one conditional batch on the shard's partition, of up to about a hundred operations,
// one in flight at a time. A run executes in its shard owner's process, and only ticks change rows.
//
// # The header
//
// A shard's header row carries a stamp (fence, tick, nonce). A tick's condition names
// the whole stamp that the owner last settled, and sets (fence, tick+1, a nonce that
// no other batch has). So of all batches ever made from a stamp at most one is
// applied, and at most once, however often and late its copies arrive: after it the
// stamp is another and never returns. A takeover is such a batch too, with fence+1.
// The header is never deleted.
//
// # Settling
//
// An answer is read by settle, the fence first, since a takeover moves the tick too:
//
//	applied                     it happened
//	rejected, another fence     the shard is lost
//	rejected, (f, t+1, mine)    an earlier copy had been applied
//	rejected, (f, t, as named)  a row that must not exist does; nothing happened, and no
//	                            copy that is on its way can be applied, as the row stays
//	                            while the stamp does; rebuild without the offending job
//	rejected, anything else     cannot be told apart: the shard is given up
//	failed, every copy for sure nothing happened
//	anything else               unknown: the identical batch is sent again, nothing else
//
// A rejection renews no trust. So the batch after one has only enqueues that are known to be
// new: duplicates, however many, do not cost an owner its shard (fill).
//
// A shard that is given up is never loaded again in place: a claim that was
// committed unknowingly carries the current fence, and no rescue would find it. It is
// taken over again, with fence+1. What rode in a batch that is not settled by then is
// reported unknown, never failed. A takeover is settled by its nonce alone: a faster
// contender has set the same fence and tick.
//
// # Trust, and why runs do not overlap
//
// The tick is the heartbeat: an owner ticks at least every third of the ttl. It
// trusts its shard until ttl minus a margin after the first send of the last batch
// that was applied; resends and late answers do not move that. A contender takes over
// after it has seen the stamp stand still for the header's ttl on its own clock,
// counted from the return of the first look that showed it; its batch names the stamp
// that it saw. The look was answered after the stamp was written, and the stamp was
// written after its batch was first sent; so while clock rates are wrong by at most
// the drift bound, the owner's trust ends before anyone else's begins. No wall clocks
// are compared, and a plain read is good enough for a look: a stale one only delays.
//
// A run's context ends with its shard's trust, and a run is begun only after a look
// at the clock. Beyond the drift bound, or after a pause between that look and the
// handler's first instruction, two runs of a job may be at work at once; then the
// fencing token alone protects: the run id, fence<<32 | seq, rises with every claim of
// the shard, and the sink refuses what carries a lower one than it has seen.
//
// # What is never lost
//
// A job's row in the shard, with the state, is inserted IF NOT EXISTS and changed by
// the same batch that moves its pending or running row, so a job is always in exactly
// one place. An enqueue is acknowledged when its tick is settled as applied, or its own
// row came back in a rejection: that alone makes it a duplicate, not the rejection. A
// run starts when the tick that claims it is settled. That may be the one that inserts the job: if
// it is due, there is a slot, and no other job waits for one, it never has a pending row, which
// saves a tick and three changes of rows. So its handler may be called before Enqueue returns.
// While an owner still reads the running rows of earlier ones, none is: a page could bring that
// job. After a takeover every running row with a run id below fence<<32 is rescued, even if its owner seems alive: run again, or,
// with the policy at_most_once, ended as abandoned. Attempts are read from the rows
// and count claims.
//
// A claim counts against a job's MaxAttempts only if its run failed by itself. A run that
// was cut short by a crash, a lost shard or a stop does not, as nobody knows whether the
// job is at fault, nor does one that its process could not carry out (job.NotHere). The
// rows count these too (Row.Place), and the next one after job.MaxInterruptions ends the
// job in the dead letter queue: it may be what kills its processes. A process of an older
// version forgets that count, and takes the number of claims for that of attempts.
//
// Submit enqueues by this process if it owns the shard, else by Options.Forward at the
// address in the header that the shard's contender last saw (core/forward), else, if nobody
// is known to own the shard or nobody answers at that address, into the inbox. A forward
// whose outcome is unknown is not followed by the inbox: its caller asks again, with the same id.
//
// Without a reachable owner a job goes into the shard's inbox, one conditional insert
// in another partition (type Inbox). The owner copies it in a tick and deletes it,
// by the nonce of that insert, when the tick is settled. If the deletion is lost the
// row is copied again, and its job row shows it to be a duplicate. Job rows outlive
// their jobs by the dedupe window, which must be longer than anything can stay on
// its way; a job row is swept only if the inbox, read completely after the window was
// over, did not hold the job. Jobs in the dead letter queue are not swept.
//
// What a job has left elsewhere, in a sink, may be retired before it is forgotten
// (Options.Retire): the rows are deleted when that is done, so that a crash between the two
// has it done again. With it the sink is told the lowest run of the shard that is at work
// or being claimed; no lower token is good for anything. A job that was claimed after that
// run is swept when the run is over: the sink keeps what may still be written to.
//
// # Scan order, marks
//
// The place of a pending row, at, is scan order only. The owner has all pending rows up
// to its read mark in memory, but those that are not due within the horizon.
// It raises the mark before it reads up to it, and inserts above it only: at = max(due,
// mark+1). So what it reads is not written meanwhile; a row that is due but lies above
// the mark is in its memory as it inserted it. The mark is in the header, as a later
// owner must look that far at once. A job that leaves memory while a page is on its way
// is remembered until the page has come, which may still show it.
//
// Low marks, one for each kind of row that comes and goes, are below every live row
// and every later insert. A tick stores them; a later tick deletes the range up to
// those that are stored, so that a scan from a low mark passes few tombstones. Deleted
// rows live for days, and Cassandra fails a scan that passes too many: so no mark may
// stand still while rows above it come and go. A sweep raises its mark with each page. If
// too many rows were deleted above a mark (pile), the rows that hold it are moved
// above all others: that of a run of hours, and that of a job that urgent ones keep from
// running. Nothing else in them changes, and nobody is told. What an earlier owner's clock
// has placed far below is then read into memory, due or not, and moved too, and
// reading goes on beyond MaxLoaded. The dead letter queue is not in memory: when so many
// have left it the first that is still there is read, and the range before it deleted. If
// as many lie behind that one, so is the range to the next, and so on.
//
// No batch touches a key twice: it carries at most one change for each job.
//
// # Clocks
//
// A job with a scheduled time runs when that has come by its owner's wall clock;
// nothing else goes by it. What is asked for at once is due at once, and a retry when
// its wait has passed by the owner's monotonic clock, whatever the wall clock does
// meanwhile: what was due stays due when it is set back. A pending row says for how
// long its job had to wait, beside when that is over by its writer's clock: after a
// takeover, what was due at once is due, and a retry waits no longer than that from
// then on. The header has the highest reading of any owner's wall clock; the scan
// reaches as much further ahead as that is ahead of this owner's, as rows lie where
// their writers' clocks put them. Rows that it brings and that are not due soon are
// left in the store and read again in time. A wall clock that is set back begins a new
// reckoning, as a takeover does.
//
// # Slots
//
// All shards of a process claim from one number of free slots. A shard that asks
// leaves one for each other shard that asked in vain, and the one that waited longest is
// served first: the shard whose run ends knows first that there is a slot, and a backlog
// would have them all. Shards whose batch is on its way are not waited for.
//
// # Under load
//
// An enqueue is refused before it costs anything if it would have to wait for longer than MaxWait:
// what waits already over the rate of acknowledgements, and the age of the batch that is on
// its way (admission). So what is taken is acknowledged soon, and who is refused is told at once, with
// the time after which to ask again (RetryAfter). The rate is measured while more waits
// than a batch can take. Each shard has its own rate, so a shard that is blocked refuses only its own
// callers. Below its capacity a shard hardly refuses anybody: a queue of a second's work is long.
//
// What is taken is served first: ends and claims may have four fifths of a batch; or while no job
// waits for a claim, ends three fifths, and enqueues, which are claimed at once, the rest. So under
// a flood a shard takes no more jobs than it runs. If it falls behind all the same, as handlers use
// the slots up, enqueues are refused while the job that is to be claimed next has been due
// for longer than MaxOverdue; those of a higher priority are taken, as they would not wait.
//
// # Cancel, redrive, hasten
//
// They are decided when a batch is planned, with no other one on its way, so that
// nothing can happen to the job between the look at it and the batch. A job that is not
// in memory is looked up first; what was read is void as soon as a batch that touches
// the job is settled, and is read again.
// A job that only the inbox holds was acknowledged, so it is not unknown: it is copied
// into the shard, whatever the inbox's turn, and the command then finds the copy. If
// the shard has no room for it the answer is ErrBusy.
//
// A pending job is cancelled in one tick. A running one is told to end, and when it has
// ended its tick cancels it, whatever it returned; but success wins: its effects were
// had. Nothing durable remembers a cancellation before that tick: if the shard is lost
// until then the job is rescued, and the canceller is told that it was not done, or,
// if its tick was on its way, that nobody knows.
//
// A redrive moves a job from the dead letter queue back to pending, due at once, in one
// tick. Its attempts are counted from 0 again, so it has all of its MaxAttempts; a
// (job, attempt) is thus unique between redrives, a run id always, as those come from
// the fence and go on to rise. Effects stay keyed by the job: what an earlier life of
// it did is not done again.
//
// To hasten a pending job is to make it due at once, in one tick; its attempts count on.
// From then on its rows have no scheduled time, so that a later owner, whatever its
// clock, does not wait for it again. For one that is due nothing is
// done, and nothing is written down: an owner whose clock is behind may wait for its time.
//
// # Pause
//
// A shard's pause is in its header: it is set and ended by a batch, as all else, and every
// later batch carries it on, that of a takeover too. So the batch that an owner claims by
// names a stamp under which it knew whether the shard is paused. Claims neither ride with
// the batch that pauses nor come after it; what was claimed before runs.
//
// While it lasts pending jobs are left in the store and not in memory, or a queue that is
// paused for a day would use up the room of all others. When it is over the read mark is
// raised and everything is read again from the low mark on, as after a takeover. The header
// says when the last pause began and for how long it was, so that what waited is not
// called late.
//
// # Schedules, sequences
//
// A schedule has two rows in the shard of its key, the definition and the state
// (core/schedule); its owner has them in memory. What they mean is decided there; here
// it is made so that each nominal time is decided once. The batch that writes a state,
// which says up to where nominal times are decided, inserts the jobs of those that it
// fires: it happens as a whole or not at all, and names the stamp that the state before
// it was read under. The ids of those jobs are made from schedule and nominal time, in
// the schedule's shard, and are inserted IF NOT EXISTS: a schedule that was removed and
// put again fires no time twice while its job is remembered. A time whose job exists
// is decided, and enqueues nothing.
//
// An occurrence is fired when its nominal time has come by the owner's wall clock, and
// its job is due at once, for whatever owner: what was due stays due. The end of an
// occurrence that its schedule waits for rides with the end of its job. So no end is
// planned before all schedules are read after a takeover, and a batch carries at most
// one change for each schedule. The same batch that ends a job inserts the one that
// follows it; one that goes on after a failed job leaves that in the dead letter queue
// without what follows it.
//
// Fires take at most a third of a batch. Before hundreds that are due at once, or a
// long list to make up for, ends and enqueues have room.
//
// Commands on schedules are decided when a batch is planned, like those on jobs. Each
// may be repeated: putting what is there, or a trigger with a name that was used, does
// nothing. Without a reachable owner they fail; there is no inbox for them.
//
// # Batches that the store refuses
//
// A batch is planned to stay below MaxBytes: what does not fit waits for the next one,
// in order, and a job that could not be in a batch alone, whatever becomes of it, is
// refused when it is enqueued.
//
// A refusal is about the batch only if the store takes others. After three copies in
// a row were refused, all with certainty, an empty batch is tried until one is
// applied or trust ends; then each change of the batch goes alone. One that is refused three
// times, each time after an empty batch was applied, is at fault. An enqueue
// fails with that reason. A job that was acknowledged before ends in the dead letter queue with it.
// A schedule whose jobs are refused stops, and Options.Late is told: it is tried again
// by the next owner, or when it is put again.
//
// What three nodes refuse for good (store.Refusals: no permission, no table) is not tried for
// ever. If it is the empty batch, callers are refused with what to do, at once and until a
// batch is applied; the ownership lasts as long as it is trusted. A shard that cannot be
// looked at or taken over for such a reason is tried once a minute, and Run ends if it is a
// queue that cannot be created. The log has it once.
//
// # How many there are
//
// An owner counts the pending rows and dead letters that its batches insert and delete.
// What there was before it, the store counts once, when somebody asks (Depths): while no
// batch is on its way, and again later if one that changes such rows was sent meanwhile.
//
// # Stopping
//
// Run's context ends: nothing is claimed or taken any more, runs may go on for
// DrainTimeout and are then interrupted, and when the last handler has returned and its
// result is settled, one last tick sets the owner to "", after which a takeover
// need not wait. A handler that does not return holds the hand-over up, ticks going
// on, until the process is killed: handlers must observe their contexts.
//
// # Moving
//
// An owner may hand a shard over and go on (HandOver). Nothing is claimed any more, runs end, and
// the tick after the last of them sets the owner to "". Enqueues ride in that tick too. Its header
// has the address of the next owner, if that has asked for the shard (Want): it takes it at once,
// and others wait for ttl/4 longer. What comes meanwhile is forwarded there, again and again for
// ttl/4. No run is interrupted for that: if one does not end within DrainTimeout the shard stays.
//
// # Parts
//
// machine is the decision part: events in, the next batch and its consequences out,
// without I/O, clock or randomness. owner is the runtime around it, one goroutine a
// shard; shard contends; Engine holds them together. Decisions of this package where
// its design left a choice:
//
//   - The body travels with the pending and running rows, and the job row, which
//     outlives them, holds the state only: a takeover loads by scans alone, and a day
//     of job rows costs no payload.
//   - Job rows to sweep are found by index rows (KindEnded) that the ending tick writes, not by a
//     scan over all job rows. Up to seven jobs that end by one tick share one, and are swept by one
//     batch: a row that outlived some of its jobs would sweep one that was enqueued again since.
//   - A rejection of the sole copy of a batch ends it as failed, as in core/lock; with
//     another copy out of sight it is unknown.
//   - Takeover loads after its batch is settled; to load between look and batch is
//     safe too, and would be faster by one round.
//   - Rows of schedules have fixed places, over which no mark can rise: where many were
//     removed between two that are left, the ids between these are deleted as a range.
//   - Deleted rows of inboxes stay until gc_grace_seconds are over: a range deletion there
//     could hit an insert of another process that was not seen yet. An inbox of which no row
//     can be read is read in 16 ranges of ids, or 256.
//   - The inbox is one partition a shard, read whole by each look. It is meant for
//     minutes without an owner, not as the way for all jobs: its deletions are tombstones.
//   - Rank, from heartbeats (core/member), delays a process that should not own a shard. A shard
//     that has an owner moves only if that one hands it over: core/scheduler says when.
//   - Claims that found no room go before all else the next time: enqueues that fill
//     every batch would keep all jobs from running.
//   - A queue is paused shard by shard, each by its owner: there is no state of a whole
//     queue that its shards would have to agree on.
//   - Cancel, Redrive and Hasten are asked of the owner, by its Engine or by core/forward, and
//     take the queue's name: a job id names its shard, not its queue.
//   - A schedule's rows are in one shard, and so are all of its jobs: the price of one
//     batch for both. A queue with one busy schedule has one busy shard.
//   - The state is a row of its own, as it is written with each occurrence, and the
//     definition may be large.
//   - A schedule that has nothing to fire any more stays until it is removed: to put
//     it again, as one does after an unknown outcome, must not fire it again.
//
// # More shards
//
// A queue's row has two numbers of shards. By the first one, which never changes, keys, schedules and
// followers have their ids; the other one only rises, and says which shards there are. An id says by
// itself in which shard its job is (job.ID), so it does not matter which process knows of a raise
// when: nothing has to be agreed on, and no row moves. A process reads the rows of all queues each
// third of the ttl, and before it refuses an id of a shard that it does not know; it then contends for
// new shards as for those that it had. The first number is asked of the store and never taken from
// the options: with another one a key would have two jobs.
//
// # Simulation
//
// Package enginetest runs whole clusters in synctest bubbles over store/sim: lost and late
// requests, crashes at every step of the Observer, pauses, cut links, clocks wrong
// within and beyond the bound. The store's own history is replayed batch by batch and
// judges what everybody reported. Each of its mutants is a scheduler with one mistake
// that a named rule must find; package mistake has those that real runs plant too.
package engine
