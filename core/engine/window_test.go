package engine

import (
	"errors"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

func pendingOf(r *machineRig, n int, place, due int64) store.Row {
	j := r.job(n, at(due))
	return store.Row{Key: store.Key{Kind: store.KindPending, At: place, ID: string(j.ID)}, Due: due, Body: r.body(j)}
}

// TestAPageShowsWhatIsGone: a page that was on its way while a job was claimed and
// ended must not bring it back.
func TestAPageShowsWhatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, ok := r.m.page(r.now); !ok {
		t.Fatal("no page is wanted")
	}
	r.enqueue(1, 0)
	r.tick(1)
	r.tick(1)
	var run job.Run
	for _, e := range r.m.take() {
		if e.kind == effStart {
			run = e.run
		}
	}
	r.m.finished(run.Job.ID, run.ID, nil, r.now, 0)
	r.tick(0)
	r.m.loaded([]store.Row{pendingOf(r, 1, 10_001, 0), pendingOf(r, 2, 9_500, 9_500)}, false, r.now)
	p := r.tick(5)
	if len(p.intents) != 1 || p.intents[0].job() != r.job(2).ID {
		t.Errorf("claimed %v", p.intents)
	}
}

// TestPagesFillMemoryOnce: a job that a page brought makes room for one other when it is claimed,
// and not again when its run ends. Or memory would fill beyond its bound.
func TestPagesFillMemoryOnce(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{"completed": nil, "failed": errors.New("x")} {
		r := newRig(t, func(c *machineConfig) { c.maxLoaded, c.page = 2, 2 })
		for n := 0; n < 6; n += 2 {
			if _, ok := r.m.page(r.now); !ok {
				t.Fatalf("%s: no page is wanted though there is room", name)
			}
			r.m.loaded([]store.Row{pendingOf(r, n, int64(5000+n), 0), pendingOf(r, n+1, int64(5001+n), 0)}, false, r.now)
			if rg, ok := r.m.page(r.now); ok {
				t.Errorf("%s: after %d jobs the page %+v is wanted though memory is full", name, n, rg)
			}
			if p := r.tick(2); p.slots != 2 {
				t.Fatalf("%s: %d claims", name, p.slots)
			}
			for _, id := range []job.ID{r.job(n).ID, r.job(n + 1).ID} {
				r.m.finished(id, r.m.jobs[id].run, result, r.now, 0)
			}
			r.tick(0)
		}
	}
}

// TestWhatIsKept: a job that is due up to the read mark is in memory at once, as its row lies
// above what is read. One that is due later is read in time.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	for later, kept := range map[int64]bool{0: true, 1: false} {
		r := newRig(t)
		r.page(0, nil)
		r.enqueue(1, r.m.window.read+later)
		if r.tick(0); (r.m.jobs[r.job(1).ID] != nil) != kept {
			t.Errorf("due %d ms above the read mark: in memory %v", later, !kept)
		}
	}
}

// page passes the time and takes the page that is wanted then, if there is one.
func (r *machineRig) page(ms int64, rows []store.Row) (store.Range, bool) {
	r.pass(ms)
	rg, ok := r.m.page(r.now)
	if ok {
		r.m.loaded(rows, false, r.now)
	}
	return rg, ok
}

// TestReadHalfAHorizonAhead: rows that were left in the store, or lie above the read mark, are
// read when there is half of the horizon left until they are due, and not before.
func TestReadHalfAHorizonAhead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(*machineRig) store.Row{
		"its next attempt": func(r *machineRig) store.Row { return waitingRow(r, 1, 0, 5000, 0) },
		"its own time":     func(r *machineRig) store.Row { return waitingRow(r, 1, 0, 0, r.now.wall+5000) },
	} {
		r := newRig(t) // a horizon of 1000 ms
		low := row(r)
		low.At = r.m.window.read
		r.page(0, []store.Row{low})
		r.page(4499, nil)
		if rg, ok := r.page(0, nil); ok {
			t.Errorf("%s: %+v is read 501 ms before it is due", name, rg)
		}
		if rg, ok := r.page(1, nil); !ok || rg.AfterAt != low.At-1 {
			t.Errorf("%s: %+v is read 500 ms before it is due: %v", name, rg, ok)
		}
	}
	r := newRig(t)
	first, _ := r.page(0, nil)
	if rg, ok := r.page(499, nil); ok {
		t.Errorf("%+v is read 501 ms before what lies above the mark is due", rg)
	}
	if rg, ok := r.page(1, nil); !ok || rg.AfterAt != first.UpTo || rg.UpTo != first.UpTo+500 {
		t.Errorf("%+v is read 500 ms before what lies above the mark is due: %v", rg, ok)
	}
}

// TestMarks: inserts lie above the read mark, the low mark below every live row, and
// a range is deleted only up to a mark that is stored.
func TestMarks(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.trimEvery = 1 })
	rg, ok := r.m.page(r.now)
	if !ok || rg.AfterAt != 4000 || rg.UpTo != 11_000 {
		t.Fatalf("the first page is %+v, %v", rg, ok)
	}
	r.enqueue(1, 0)
	p := r.tick(0)
	if at := p.batch.Ops[1].Row.At; at <= rg.UpTo || p.batch.To.Read != rg.UpTo || p.batch.To.LowPending != 4000 {
		t.Errorf("inserted at %d, marks %+v", at, p.batch.To)
	}
	r.m.loaded([]store.Row{pendingOf(r, 2, 4500, 4500), pendingOf(r, 3, 10_900, 10_900)}, false, r.now)
	r.m.ranBefore(nil, false, r.now)
	p = r.tick(9) // claims 1 and 2
	if p.slots != 2 || p.batch.To.LowPending != 4499 || len(p.trims) != 0 {
		t.Errorf("%d claims, marks %+v, trims %v", p.slots, p.batch.To, p.trims)
	}
	r.m.finished(r.job(2).ID, r.m.jobs[r.job(2).ID].run, nil, r.now, 0)
	p = r.tick(9)
	if p.batch.To.LowPending != 10_899 || len(p.trims) != 0 {
		t.Errorf("marks %+v, trims %v of a range in which nothing was deleted", p.batch.To, p.trims)
	}
	r.enqueue(4, 0)
	if p = r.tick(0); len(p.trims) != 1 || p.trims[0].Row.At != 10_899 {
		t.Errorf("marks %+v, trims %v", p.batch.To, p.trims)
	}
}

// TestARangeThatIsBeingReadIsNotWritten: the read mark rises before the page is asked for.
func TestARangeThatIsBeingReadIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, due := range []int64{11_400, 11_800} {
		r := newRig(t)
		r.m.page(r.now)
		r.m.loaded(nil, false, r.now)
		r.enqueue(1, due) // above the mark, not in memory
		p := r.next(0)
		r.pass(800)
		rg, ok := r.m.page(r.now)
		if !ok || rg.UpTo != 11_800 {
			t.Fatalf("the next page is %+v, %v", rg, ok)
		}
		r.m.loaded(nil, false, r.now) // read before the batch was applied
		r.m.settled(p)
		if r.m.jobs[r.job(1).ID] == nil {
			t.Errorf("a job whose row at %d fell into the range is not in memory", due)
		}
		r.enqueue(2, 11_500)
		if at := r.next(0).batch.Ops[1].Row.At; at <= rg.UpTo {
			t.Errorf("inserted at %d behind the read mark %d", at, rg.UpTo)
		}
	}
}

func TestUnreadableRowGoesToTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.m.page(r.now)
	row := pendingOf(r, 1, 5000, 5000)
	row.Body = []byte("{")
	r.m.loaded([]store.Row{row}, false, r.now)
	p := r.tick(0)
	var dlq *store.Row
	for _, op := range p.batch.Ops {
		if op.Row.Kind == store.KindDLQ {
			dlq = &op.Row
		}
	}
	if dlq == nil || string(dlq.Body) != "{" || dlq.Note == "" || p.slots != 0 {
		t.Errorf("batch %+v", p.batch.Ops)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if rg, ok := r.m.sweepRange(4000); ok {
		t.Fatalf("swept %+v before the window is over", rg)
	}
	rg, ok := r.m.sweepRange(9000)
	if !ok || rg.UpTo != 4000 {
		t.Fatalf("sweep %+v, %v", rg, ok)
	}
	a, b := r.job(1).ID, r.job(2).ID
	rows := []store.Row{{Key: store.Key{Kind: store.KindEnded, At: 3000, ID: string(a)}}, {Key: store.Key{Kind: store.KindEnded, At: 3500, ID: string(b)}}}
	r.m.sweep(rows, false, 1)
	p := r.tick(0)
	if len(p.intents) != 1 || p.intents[0].job() != a {
		t.Errorf("swept %v; %s may not go", p.intents, b)
	}
	if r.m.sweeps.upTo != 3499 {
		t.Errorf("the mark is %d, below a row that was kept", r.m.sweeps.upTo)
	}
	if rg, ok := r.m.sweepRange(9000); ok {
		t.Errorf("%+v is swept again by the look that showed what must stay", rg)
	}
	if rg, ok := r.m.sweepRange(9001); !ok || rg.UpTo != 4001 {
		t.Errorf("after the next look: %+v, %v", rg, ok)
	}
	r.m.sweep(rows[1:], false, 1)
	r.tick(0)
	if r.m.sweeps.upTo != 4001 {
		t.Errorf("the mark is %d", r.m.sweeps.upTo)
	}
}

// TestSweepsStayBelowTheLimit: what is forgotten is shared out among batches by its size, too.
func TestSweepsStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxBytes = 100, 3000 })
	if _, ok := r.m.sweepRange(9000); !ok {
		t.Fatal("nothing is swept")
	}
	var rows []store.Row
	for n := range 40 {
		rows = append(rows, store.Row{Key: store.Key{Kind: store.KindEnded, At: int64(n), ID: string(r.job(n).ID)}})
	}
	r.m.sweep(rows, false, len(rows))
	swept := 0
	for p := r.next(0); p != nil; p = r.next(0) {
		if got := p.batch.Bytes(); got > 3000 {
			t.Errorf("a batch of %d sweeps has %d bytes, at most 3000", len(p.intents), got)
		}
		swept += len(p.intents)
		r.m.settled(p)
	}
	if swept != len(rows) {
		t.Errorf("%d of %d rows are swept", swept, len(rows))
	}
}

// TestLowestRun: a run counts from the plan that claims it to the batch that ends it.
func TestLowestRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	is := func(what string, seq uint32) {
		t.Helper()
		if got, want := r.m.lowestRun(), job.NewRunID(3, seq); got != want {
			t.Errorf("%s: the lowest run is %s, want %s", what, got, want)
		}
	}
	j := r.job(9, func(j *job.Job) { j.Rescue = job.AtMostOnce })
	r.m.rescue(store.Row{Key: store.Key{Kind: store.KindRunning, At: 2<<32 + 7, ID: string(j.ID)}, Run: 2<<32 + 7, Body: r.body(j)}, r.now)
	is("one of an earlier owner", 1)
	r.enqueue(1, 0)
	r.tick(0)
	is("before the first claim", 1)
	p := r.next(1)
	is("while it is claimed", 1)
	r.m.settled(p)
	beat := tickInput{now: r.now, owner: "w", nonce: "beat", beat: true}
	r.m.settled(r.m.next(beat))
	is("while it runs", 1)
	r.m.finished(r.job(1).ID, job.NewRunID(3, 1), nil, r.now, 0)
	p = r.next(0)
	is("while it ends", 1)
	r.m.settled(p)
	is("after it", 2)
}

// TestPauseLeavesWhatWaits: memory is empty while a shard is paused, the marks stay below
// what was left, a page that was on its way is void, and afterwards all is read again.
func TestPauseLeavesWhatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pause := func(on bool) *plan {
		r.m.push(&intent{kind: doPause, pause: on, wait: newWaiter()})
		return r.tick(5)
	}
	r.m.page(r.now)
	r.m.loaded(nil, false, r.now)
	r.enqueue(1, 0)
	r.enqueue(2, r.now.wall+500)
	first := r.tick(0)
	r.m.window.loading = true // a page is on its way
	low := r.m.head.LowPending
	r.m.turn = claimsFirst
	if p := pause(true); len(p.intents) != 1 || p.changes()[0].Kind != StepPause || !p.batch.To.Pause.On || p.batch.To.Pause.Since != r.now.wall {
		t.Errorf("%+v, %+v", p.batch, p.changes())
	}
	if len(r.m.jobs)+r.m.bytes+len(r.m.waiting.dated.list) != 0 {
		t.Errorf("in memory: %v", r.m.jobs)
	}
	r.enqueue(3, 0)
	later := r.tick(5)
	r.m.loaded([]store.Row{{Key: store.Key{Kind: store.KindPending, At: 1 << 40, ID: "x"}}}, false, r.now)
	if _, ok := r.m.page(r.now); ok || len(r.m.jobs) != 0 || r.m.wanted(r.now) != 0 {
		t.Errorf("paused, and it reads on, or has %v", r.m.jobs)
	}
	if got := r.m.head.LowPending; got < low || got >= first.batch.Ops[1].Row.At {
		t.Errorf("the low mark is %d", got)
	}
	r.pass(2000)
	if p := pause(false); p.changes()[0].Kind != StepResume || p.batch.To.Pause != (store.Pause{Since: r.now.wall - 2000, Lasted: 2000}) {
		t.Errorf("%+v, %+v", p.batch.To, p.changes())
	}
	rng, ok := r.m.page(r.now)
	var left []store.Row
	for _, p := range []*plan{first, later} {
		for _, op := range p.batch.Ops {
			if op.Kind == store.Put && op.Row.Kind == store.KindPending {
				if !ok || op.Row.At <= rng.AfterAt || op.Row.At > rng.UpTo {
					t.Errorf("%s is not in %+v", op.Row.Key, rng)
				}
				left = append(left, op.Row)
			}
		}
	}
	r.m.loaded(left, false, r.now)
	if n := r.m.waiting.due(r.now); n != 3 {
		t.Errorf("%d jobs are due", n)
	}
	for due, want := range map[int64]int64{r.now.wall - 5000: 2000, r.now.wall - 500: 500, r.now.wall + 1: 0} {
		if got := held(r.m.head.Pause, due); got != want {
			t.Errorf("of the time since %d %d ms were paused, want %d", due, got, want)
		}
	}
}

// TestPauseThatDoesNotHappen: it is planned again, or refused.
func TestPauseThatDoesNotHappen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := newWaiter()
	r.m.push(&intent{kind: doPause, pause: true, wait: w})
	r.m.push(&intent{kind: doPause, pause: false, wait: newWaiter()})
	p := r.next(0)
	r.m.undo(p, p.parted())
	if p = r.tick(0); len(p.intents) != 1 || !r.m.head.Pause.On {
		t.Errorf("%+v", p.batch.To)
	}
	if r.tick(0); r.m.head.Pause.On {
		t.Error("it was not resumed")
	}
	i := &intent{kind: doPause, pause: true, wait: w}
	r.m.take()
	r.m.condemn(i, ErrBusy)
	if e := r.m.take(); len(e) != 1 || e[0].err == nil || i.failed(store.Fail, e[0].err).Error() == "" {
		t.Errorf("%+v", e)
	}
}

// TestEndsLieAboveWhatIsSwept: whatever the wall clock shows, a job that ends is put above the
// range that is being swept, and above the one that is read for dead letters.
func TestEndsLieAboveWhatIsSwept(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(*machine) *int64{
		"nothing":                   nil,
		"the mark of what is gone":  func(m *machine) *int64 { return &m.head.LowEnded },
		"the range that is swept":   func(m *machine) *int64 { return &m.sweeps.target },
		"the range of dead letters": func(m *machine) *int64 { return &m.dead.upTo },
	} {
		r := newRig(t)
		want := r.now.wall
		if mark != nil {
			*mark(r.m) = r.now.wall
			want++
		}
		r.enqueue(1, 0)
		r.tick(1)
		r.tick(1)
		id := r.job(1).ID
		r.m.finished(id, r.m.jobs[id].run, job.Permanent(ErrBusy), r.now, 0)
		ops := r.tick(0).batch.Ops
		for _, op := range ops {
			if op.Row.Kind == store.KindDLQ && op.Row.At != want || op.Row.Kind == store.KindJob && op.Row.Place != want {
				t.Errorf("%s at %d: put at %+v", name, r.now.wall, op.Row)
			}
		}
	}
}

// TestPileUp: how many deleted rows make a pile, by the jobs in memory.
func TestPileUp(t *testing.T) {
	t.Parallel()
	for jobs, want := range map[int]int{0: 10, 5: 10, 6: 12, 499: 998, 500: 1000, 501: 1000} {
		r := newRig(t, func(c *machineConfig) { c.trimEvery = 2 })
		for n := range jobs {
			r.m.jobs[r.job(n).ID] = &entry{}
		}
		if got := r.m.pileUp(); got != want {
			t.Errorf("with %d jobs it is %d, want %d", jobs, got, want)
		}
	}
}
