package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fencepost/core/job"
	"fencepost/core/store"
)

// machineRig drives a machine by hand: no store, no time but what it is given.
type machineRig struct {
	t   *testing.T
	m   *machine
	now moment
	n   int
}

func newRig(t *testing.T, change ...func(*machineConfig)) *machineRig {
	t.Helper()
	cfg := machineConfig{maxOps: 12, maxBytes: 1 << 20, maxRunning: 10, trimEvery: 1000, horizon: 1000, maxLoaded: 100, page: 200, dedupe: 5000, first: 1}
	for _, c := range change {
		c(&cfg)
	}
	r := &machineRig{t: t, now: moment{wall: 10_000, mono: 70_000}}
	head := store.Header{Stamp: store.Stamp{Fence: 3, Tick: 5, Nonce: "n0"}, Read: 9000, LowPending: 4000, LowRunning: 1 << 32}
	r.m = newMachine(cfg, head, r.now)
	r.m.schedulesRead(nil, false) // there are none
	return r
}

func (r *machineRig) job(n int, change ...func(*job.Job)) job.Job {
	j := job.Job{ID: job.KeyedID("q", fmt.Sprint(n), 1), Queue: "q", Kind: "k", Key: fmt.Sprint(n)}.WithDefaults()
	for _, c := range change {
		c(&j)
	}
	return j
}

func (r *machineRig) body(j job.Job) []byte {
	b, err := j.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// pass lets time go by.
func (r *machineRig) pass(ms int64) {
	r.now.wall += ms
	r.now.mono += ms
}

// at gives a job a time of its own, 0 for none.
func at(due int64) func(*job.Job) {
	return func(j *job.Job) {
		if due > 0 {
			j.Due = time.UnixMilli(due)
		}
	}
}

func (r *machineRig) enqueue(n int, due int64) *waiter {
	w := newWaiter()
	j := r.job(n, at(due))
	r.m.enqueue(j, r.body(j), r.now, w, nil)
	return w
}

func (r *machineRig) next(free int) *plan {
	r.n++
	return r.m.next(tickInput{now: r.now, free: free, owner: "w", nonce: fmt.Sprint("n", r.n)})
}

// tick plans a batch and settles it as applied.
func (r *machineRig) tick(free int) *plan {
	r.t.Helper()
	p := r.next(free)
	if p == nil {
		r.t.Fatal("nothing to do")
	}
	r.m.settled(p)
	return p
}

// effects returns the kinds and jobs of what a batch led to.
func (r *machineRig) effects() string {
	names := map[effectKind]string{effAck: "ack", effStart: "start", effSlot: "slot", effCopied: "copied", effDone: "done"}
	out := ""
	for _, e := range r.m.take() {
		if e.kind == effDone {
			continue
		}
		out += names[e.kind]
		if e.kind == effAck || e.kind == effCopied {
			out += ":" + e.i.e.job.Key
		}
		if e.duplicate {
			out += "!"
		}
		if e.err != nil {
			out += "?"
		}
		out += " "
	}
	return out
}

func (r *machineRig) want(what, want string) {
	r.t.Helper()
	if got := r.effects(); got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func exists(ids ...job.ID) (keys []store.Key) {
	for _, id := range ids {
		keys = append(keys, jobKey(id))
	}
	return keys
}

func TestOnlyTheOwnRowIsADuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	r.enqueue(2, 0)
	r.enqueue(3, 0)
	p := r.next(0)
	if !r.m.rejected(p, exists(r.job(2).ID)) {
		t.Fatal("the rejection was not understood")
	}
	r.want("after the rejection", "ack:2! ")
	q := r.tick(0)
	r.want("after the rebuilt batch", "ack:1 ack:3 ")
	if q.batch.From != p.batch.From || q.batch.To.Nonce == p.batch.To.Nonce {
		t.Errorf("rebuilt from %s to %s after %s", q.batch.From, q.batch.To.Stamp, p.batch.To.Stamp)
	}
	r.enqueue(1, 0)
	if p := r.next(0); p != nil {
		t.Errorf("a job in memory was sent again: %v", p.batch.Ops)
	}
	r.want("the duplicate in memory", "ack:1! ")
}

func TestARejectionThatNamesNoJobOfTheBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	p := r.next(0)
	for _, keys := range [][]store.Key{nil, exists(r.job(2).ID), {{Kind: store.KindPending, At: 1, ID: string(r.job(1).ID)}}} {
		if r.m.rejected(p, keys) {
			t.Errorf("a rejection with %v was understood", keys)
		}
	}
	r.want("nobody is told", "")
}

func TestNoKeyTwiceAndOneChangeAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	r.enqueue(1, 0)
	for n := 2; n < 9; n++ {
		r.enqueue(n, 0)
	}
	for range 20 {
		p := r.next(2)
		if p == nil {
			break
		}
		if len(p.batch.Ops) > r.m.cfg.maxOps {
			t.Errorf("%d operations", len(p.batch.Ops))
		}
		keys := map[store.Key]bool{}
		for _, op := range p.batch.Ops {
			if keys[op.Row.Key] {
				t.Errorf("key %s twice in one batch", op.Row.Key)
			}
			keys[op.Row.Key] = true
		}
		r.m.settled(p)
		for _, e := range r.m.take() {
			if e.kind == effStart {
				r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
			}
		}
	}
	if !r.m.idle() || len(r.m.jobs) != 0 {
		t.Errorf("%d jobs are left, idle %v", len(r.m.jobs), r.m.idle())
	}
}

func TestOneByOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := 1; n <= 4; n++ {
		r.enqueue(n, 0)
	}
	why := errors.New("too large")
	bad := r.job(3).ID
	batches, told := 0, ""
	for ; batches < 30; batches++ {
		p := r.m.next(tickInput{now: r.now, owner: "w", nonce: fmt.Sprint(batches), beat: r.m.probe})
		if p == nil {
			break
		}
		if p.jobs[bad] {
			r.m.refused(p, why)
		} else {
			r.m.settled(p)
		}
		told += r.effects()
	}
	if told != "ack:1 ack:2 ack:3? ack:4 " && told != "ack:1 ack:2 ack:4 ack:3? " {
		t.Errorf("told %q after %d batches", told, batches)
	}
	if len(r.m.jobs) != 3 {
		t.Errorf("%d jobs are in memory", len(r.m.jobs))
	}
}

// TestAClaimThatAlwaysLosesItsSlot before it is tried alone, as other shards want slots
// too, is found all the same, and what is claimed after it is not lost.
func TestAClaimThatAlwaysLosesItsSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	r.pass(1)
	r.enqueue(2, 0)
	r.tick(0)
	bad, good := r.job(1).ID, r.job(2).ID
	for n := range 40 {
		free := 1
		if len(r.m.singles) > 0 {
			free = 0
		}
		p := r.m.next(tickInput{now: r.now, free: free, owner: "w", nonce: fmt.Sprint("x", n), beat: true})
		if p.jobs[bad] && !strings.Contains(what(p), "dlq") {
			r.m.refused(p, errors.New("too large"))
		} else {
			r.m.settled(p)
		}
	}
	if r.m.jobs[bad] != nil || r.m.jobs[good] == nil || !r.m.jobs[good].running {
		t.Errorf("in memory: %v", r.m.jobs)
	}
}

// TestAChangeThatIsRefusedInEveryForm: its row stays, the low mark below it, and the
// shard can still be handed over.
func TestAChangeThatIsRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.m.ranBefore(nil, false, r.now)
	r.enqueue(1, 0)
	r.tick(1)
	id := r.job(1).ID
	run := r.m.jobs[id].run
	r.m.finished(id, run, errors.New("x"), r.now, 0)
	for n := range 40 {
		p := r.m.next(tickInput{now: r.now, owner: "w", nonce: fmt.Sprint("x", n), beat: true})
		if p.jobs[id] {
			r.m.refused(p, errors.New("too large"))
		} else {
			r.m.settled(p)
		}
	}
	if !r.m.idle() || r.m.head.LowRunning >= int64(run) {
		t.Errorf("idle %v, low mark %d, the row is at %d", r.m.idle(), r.m.head.LowRunning, run)
	}
}

// TestARefusingStoreCondemnsNobody: while the store refuses everything, only empty
// batches are tried.
func TestARefusingStoreCondemnsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	for n := range 10 {
		p := r.m.next(tickInput{now: r.now, owner: "w", nonce: fmt.Sprint(n), beat: true})
		if n > 0 && len(p.batch.Ops) > 0 {
			t.Errorf("batch %d holds %v", n, p.batch.Ops)
		}
		r.m.refused(p, errors.New("unavailable"))
	}
	r.want("nobody is told", "")
	r.m.settled(r.m.next(tickInput{now: r.now, owner: "w", nonce: "x"}))
	r.m.settled(r.m.next(tickInput{now: r.now, owner: "w", nonce: "y"}))
	r.want("when it takes batches again", "ack:1 ")
}

func TestRescue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*job.Job)
		fence   int64
		attempt int
		spared  int64
		want    job.State
	}{
		"at least once":                {func(*job.Job) {}, 2, 1, 0, job.Pending},
		"with a time of its own":       {at(10_300), 2, 1, 0, job.Pending},
		"at most once":                 {func(j *job.Job) { j.Rescue = job.AtMostOnce }, 2, 1, 0, job.Abandoned},
		"the last attempt":             {func(j *job.Job) { j.MaxAttempts = 2 }, 2, 2, 0, job.Pending},
		"one of many that were cut":    {func(*job.Job) {}, 2, 30, job.MaxInterruptions - 1, job.Pending},
		"one too many":                 {func(*job.Job) {}, 2, 30, job.MaxInterruptions, job.DLQ},
		"at most once, the last":       {func(j *job.Job) { j.Rescue, j.MaxAttempts = job.AtMostOnce, 1 }, 2, 1, 0, job.Abandoned},
		"of this ownership":            {func(*job.Job) {}, 3, 1, 0, ""},
		"of this ownership, at most 1": {func(j *job.Job) { j.Rescue = job.AtMostOnce }, 3, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := r.job(1, c.change)
			run := job.NewRunID(c.fence, 9)
			row := store.Row{Key: store.Key{Kind: store.KindRunning, At: int64(run), ID: string(j.ID)}, Attempt: c.attempt, Place: c.spared, Run: int64(run), Due: r.now.wall + 300, Body: r.body(j)}
			r.m.ranBefore([]store.Row{row}, false, r.now)
			if c.want == "" {
				if p := r.next(1); p != nil {
					t.Errorf("rescued: %v", p.batch.Ops)
				}
				return
			}
			p := r.tick(1)
			var got job.State
			for _, op := range p.batch.Ops {
				if op.Row.Key == jobKey(j.ID) {
					got = job.State(op.Row.State)
				}
			}
			if got != c.want {
				t.Errorf("rescued to %q, want %q", got, c.want)
			}
			if c.want == job.Pending {
				// The clock of whoever claimed it was ahead, which counts for nothing.
				if early := j.Due; !early.IsZero() {
					if p := r.next(1); p != nil {
						t.Errorf("claimed before its time: %+v", p.intents)
					}
					r.pass(300)
				}
				q := r.tick(1)
				if len(q.intents) != 1 || q.intents[0].attempt != c.attempt+1 || q.intents[0].run <= run {
					t.Errorf("claimed again as %+v", q.intents)
				}
			}
		})
	}
}

func TestRetriesAndEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		max  int
		want job.State
	}{
		"success":               {nil, 5, job.Completed},
		"failure":               {errors.New("x"), 5, job.Pending},
		"last failure":          {errors.New("x"), 1, job.DLQ},
		"cancelled":             {job.Cancel(errors.New("x")), 5, job.Cancelled},
		"interrupted":           {fmt.Errorf("%w: x", job.ErrInterrupted), 5, job.Pending},
		"success on the last":   {nil, 1, job.Completed},
		"interrupted, the last": {job.ErrInterrupted, 1, job.Pending},
		"not here, the last":    {job.NotHere(errors.New("x")), 1, job.Pending},
		"permanent":             {fmt.Errorf("y: %w", job.Permanent(errors.New("x"))), 5, job.DLQ},
		"permanent, cancelled":  {job.Cancel(job.Permanent(errors.New("x"))), 5, job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := r.job(1, func(j *job.Job) { j.MaxAttempts = c.max; j.Retry = job.Exponential(time.Second, 2, time.Hour) })
			r.m.enqueue(j, r.body(j), r.now, nil, nil)
			r.tick(1)
			r.tick(1)
			run := r.m.jobs[j.ID].run
			r.m.finished(j.ID, run+1, nil, r.now, 0) // another run's result
			r.m.finished(j.ID, run, c.err, r.now, 0.5)
			p := r.tick(0)
			if len(p.intents) != 1 || p.intents[0].to != c.want {
				t.Errorf("%+v, want %s", p.intents, c.want)
			}
			if name == "failure" && p.intents[0].then.due != r.now.wall+1000 {
				t.Errorf("due at %d", p.intents[0].then.due)
			}
			if left := r.m.running; left != 0 {
				t.Errorf("%d are running", left)
			}
		})
	}
}

// A note that is cut must stay text: the database refuses a tick with anything else.
func TestNoteIsShortText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"short", strings.Repeat("a", 499) + "é", strings.Repeat("語", 400), "broken \xff byte", strings.Repeat("\xff", 600)} {
		got := store.NoteOf(errors.New(s))
		if len(got) > 500 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid %t", len(got), utf8.ValidString(got))
		}
		if len(s) <= 400 && utf8.ValidString(s) && got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// TestTheFirstRun: a run is the first one of its job if none was claimed before, not even before a
// redrive.
func TestTheFirstRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.horizon = 1_000_000 }) // its retry stays in memory
	id := r.job(1).ID
	run := func(first bool, attempt int, ends error) {
		t.Helper()
		r.tick(1)
		for _, e := range r.m.take() {
			if e.kind == effStart {
				if e.run.First != first || e.run.Attempt != attempt {
					t.Errorf("run %s: first %v, attempt %d, want %v, %d", e.run.ID, e.run.First, e.run.Attempt, first, attempt)
				}
				r.m.finished(id, e.run.ID, ends, r.now, 0)
			}
		}
		r.tick(0)
		r.m.take()
		r.pass(100_000)
	}
	r.enqueue(1, 0)
	r.tick(0)
	run(true, 1, errors.New("once more"))
	run(false, 2, job.Permanent(errors.New("no")))
	r.command(doRedrive, id)
	r.next(0)
	_, l := r.answers()
	state, row := r.rowsOf(r.job(1), job.DLQ, r.now.wall)
	row.Attempt, row.Run = 2, int64(job.NewRunID(3, 2))
	r.m.found(id, l, &lookup{state: state, row: row}, false)
	r.tick(0)
	r.m.take()
	run(false, 1, nil)
}
