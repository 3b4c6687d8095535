package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestAFloodStarvesNothing: with more enqueues than can be taken and more due jobs than
// can run, jobs are taken, run and end, none of them at the others' cost; in the smallest
// batches too, whose third has no room for a change.
func TestAFloodStarvesNothing(t *testing.T) {
	t.Parallel()
	for _, most := range []int{24, minOps} {
		r := newRig(t, func(c *machineConfig) { c.maxOps = most })
		const batches = 120
		taken, begun, ended, asked := 0, 0, 0, 0
		flood := func() {
			for ; r.m.queue.len() < 200; asked++ {
				r.enqueue(asked, 0)
			}
		}
		for len(r.m.jobs) < batches {
			flood()
			r.tick(0)
		}
		r.m.take()
		for range batches {
			flood()
			r.tick(r.m.cfg.maxRunning - r.m.running)
			for _, e := range r.m.take() {
				switch {
				case e.kind == effAck:
					taken++
				case e.kind == effStart:
					begun++
					r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
				case e.kind == effDone && e.i.kind == doFinish:
					ended++
				}
			}
		}
		if least := batches * most / 24; taken < least || begun < least || ended < least {
			t.Errorf("in %d batches of %d %d jobs were taken, %d began, %d ended", batches, most, taken, begun, ended)
		}
	}
}

// TestEachKindHasItsShare: whichever kind of work goes first, it leaves the others their share of
// the same batch: two fifths to ends and claims, a tenth to enqueues, so that more begin and end than
// are taken.
func TestEachKindHasItsShare(t *testing.T) {
	t.Parallel()
	for first := range turns {
		r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxRunning = 60, 1000 })
		asked := 0
		flood := func() {
			for ; r.m.queue.len() < 200; asked++ {
				r.enqueue(asked, 0)
			}
		}
		for len(r.m.jobs) < 200 {
			flood()
			r.tick(100)
		}
		for r.m.waiting.due(r.now) < 60 {
			flood()
			r.tick(0)
		}
		flood()
		for _, e := range r.m.take() {
			if e.kind == effStart {
				r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
			}
		}
		if ends := r.m.queue.ends.len(); ends < 60 {
			t.Fatalf("%d runs ended, too few to fill a batch", ends)
		}
		r.m.turn = first
		kinds := map[intentKind]int{}
		p := r.tick(1000)
		for _, i := range p.intents {
			kinds[i.kind] += i.ops()
		}
		if got := len(p.batch.Ops); got > 60 {
			t.Errorf("turn %d: %d operations, at most 60", first, got)
		}
		for kind, tenths := range map[intentKind]int{doFinish: 4, doClaim: 4, doEnqueue: 1} {
			if kinds[kind] <= 60*tenths/10-opsOf {
				t.Errorf("turn %d: kind %d has %d operations of 60; all: %v", first, kind, kinds[kind], kinds)
			}
		}
	}
}

// TestWhatIsTooLargeHasItsTurn: a change that takes a batch of its own goes, whatever else
// waits: a large job is taken, begins and ends.
func TestWhatIsTooLargeHasItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxBytes = 24, 3000 })
	for n := range 200 {
		r.enqueue(n, 0)
	}
	for r.m.queue.len() > 0 {
		r.tick(0)
	}
	large := r.job(1000, func(j *job.Job) { j.Payload, j.Priority = make([]byte, 6000), 1 })
	more, taken, begun := 2000, false, false
	run := func() (ended bool) {
		for ; r.m.queue.rest.len() < 20; more++ {
			r.enqueue(more, 0)
		}
		r.tick(r.m.cfg.maxRunning - r.m.running)
		for _, e := range r.m.take() {
			own := e.i != nil && e.i.e != nil && e.i.e.job.ID == large.ID
			switch e.kind {
			case effAck:
				taken = taken || own
			case effStart:
				begun = begun || own
				r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
			case effDone:
				ended = ended || own && e.i.kind == doFinish
			}
		}
		return ended
	}
	run()
	r.m.enqueue(large, r.body(large), r.now, newWaiter(), nil)
	for range 60 {
		if run() {
			return
		}
	}
	t.Errorf("it never ended; taken %v, begun %v", taken, begun)
}

// TestMostIsAnUpperBound: what an intent is reckoned at is never less than what its
// operations take, in whatever form it ends.
func TestMostIsAnUpperBound(t *testing.T) {
	t.Parallel()
	long := errors.New(strings.Repeat("語", 400))
	for name, c := range map[string]struct {
		err     error
		condemn bool
		max     int
	}{
		"success": {nil, false, 5}, "retry": {long, false, 5}, "dlq": {long, false, 1},
		"cancelled": {job.Cancel(long), false, 5}, "condemned": {long, true, 5}, "condemned success": {nil, true, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := r.job(1, func(j *job.Job) {
				j.MaxAttempts, j.Payload, j.Request = c.max, make([]byte, 1000), make([]byte, job.MaxRequest)
			})
			r.m.enqueue(j, r.body(j), r.now, nil, nil)
			measure := func(p *plan) {
				t.Helper()
				i := p.intents[0]
				if got := p.batch.Bytes(); got > i.most() || got != p.bytes || i.most() > frame(j.ID, mostNote)+len(r.body(j))+job.MaxRequest {
					t.Errorf("%s: %d bytes, counted %d, reckoned at %d", stepOf(i), got, p.bytes, i.most())
				}
			}
			measure(r.tick(1))
			measure(r.tick(1))
			r.m.finished(j.ID, r.m.jobs[j.ID].run, c.err, r.now, 0)
			if c.condemn {
				r.m.queue.ends.next[0].condemned = "the store refuses its row: " + store.NoteOf(long)
			}
			measure(r.tick(1))
		})
	}
}

func TestMostOfCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range []intentKind{doCancel, doRedrive, doHasten} {
		r := newRig(t)
		j := r.job(1, at(r.now.wall+5000), func(j *job.Job) { j.Payload = make([]byte, 1000) })
		i := r.command(kind, j.ID)
		r.next(0)
		_, l := r.answers()
		state, row := r.rowsOf(j, commands[kind].finds, r.now.wall+5000)
		r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
		if got := r.tick(0).batch.Bytes(); got > i.most() {
			t.Errorf("%s: %d bytes, reckoned at %d", stepOf(i), got, i.most())
		}
	}
}

// TestBatchesStayBelowTheirLimit: nobody waits for ever, large or small, enqueue or
// claim.
func TestBatchesStayBelowTheirLimit(t *testing.T) {
	t.Parallel()
	const limit = 8 << 10
	r := newRig(t, func(c *machineConfig) { c.maxBytes, c.maxOps, c.maxRunning = limit, 100, 100 })
	sizes := []int{10, 4000, 20, 3000, 3000, 30, 20000, 40}
	for n, size := range sizes {
		j := r.job(n, func(j *job.Job) { j.Payload = make([]byte, size) })
		r.m.enqueue(j, r.body(j), r.now, nil, nil)
	}
	started, alone := 0, 0
	for n := 0; n < 40 && started < len(sizes); n++ {
		// More comes than a batch holds.
		for k := range 3 {
			extra := r.job(1000+10*n+k, func(j *job.Job) { j.Payload, j.Priority = make([]byte, 2000), -1 })
			extra.Due = time.UnixMilli(r.now.wall + 1<<40)
			r.m.enqueue(extra, r.body(extra), r.now, nil, nil)
		}
		p := r.tick(100)
		if got := p.batch.Bytes(); got > limit {
			alone++
			if len(p.intents) != 1 || len(p.trims) > 0 {
				t.Errorf("a batch of %d bytes has %d changes", got, len(p.intents))
			}
		}
		for _, e := range r.m.take() {
			if e.kind == effStart {
				started++
			}
		}
	}
	if started != len(sizes) || alone != 2 {
		t.Errorf("%d of %d jobs were started, %d batches were too large", started, len(sizes), alone)
	}
}

func TestEncodeRefusesWhatCannotFit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, limit := range []int{minBytes, 64 << 10, store.MaxBytes} {
		fits := func(payload int) error {
			j := r.job(1, func(j *job.Job) { j.Payload = make([]byte, payload) })
			body, err := encode(j, 1, limit)
			var invalid *job.InvalidError
			if err != nil && (!errors.As(err, &invalid) || invalid.Field != "payload") {
				t.Fatalf("%d bytes: %v", payload, err)
			}
			if i := (&intent{kind: doFinish, e: &entry{job: j, body: body}, note: strings.Repeat("x", mostNote)}); err == nil && i.most() > limit {
				t.Errorf("%d bytes may become %d, the limit is %d", payload, i.most(), limit)
			}
			return err
		}
		least, most := 0, limit
		for most-least > 1 {
			if mid := (least + most) / 2; fits(mid) == nil {
				least = mid
			} else {
				most = mid
			}
		}
		if least < limit/4 || fits(least) != nil || fits(least+4) == nil {
			t.Errorf("with a limit of %d the largest payload has %d bytes", limit, least)
		}
	}
}

// TestAPlanLooksAtWhatItTakes: behind a long line a plan and the leaving of a caller cost no
// more than without one. Both are counted, not timed: a plan leaves what it has no room for
// untouched, and those who go are taken out many at a time.
func TestAPlanLooksAtWhatItTakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 5000
	for i := range n {
		row := store.InboxRow{ID: string(r.job(i).ID)}
		r.m.enqueue(r.job(i), nil, r.now, nil, &row)
	}
	last := &r.m.queue.rest.next[n-1]
	p := r.tick(0)
	if l := r.m.queue.rest; len(l.next) != n-len(p.intents) || &l.next[len(l.next)-1] != last || len(l.stalled) > 0 {
		t.Errorf("a plan of %d moved %d that wait", len(p.intents), l.len())
	}
	var callers []*intent
	for i := range n {
		w := newWaiter()
		j := r.job(n + i)
		r.m.enqueue(j, nil, r.now, w, nil)
		callers = append(callers, r.m.queue.rest.next[len(r.m.queue.rest.next)-1])
	}
	swept, before := 0, r.m.queue.rest.len()
	for _, i := range callers {
		if !i.wait.goes() {
			t.Fatal("a caller cannot go whose job nobody has taken")
		}
		r.m.left(i)
		if now := r.m.queue.rest.len(); now != before {
			swept, before = swept+1, now
		}
	}
	if swept > 2 || r.m.queue.rest.len() >= 2*n {
		t.Errorf("%d callers were taken out in %d goes, %d are left", n, swept, r.m.queue.rest.len())
	}
	for r.m.queue.rest.len() > 0 {
		for _, i := range r.tick(0).intents {
			if i.wait != nil {
				t.Fatal("a job was enqueued whose caller had gone")
			}
		}
	}
}

// TestACallerOfABatchCannotGo: until that is settled, or rejected.
func TestACallerOfABatchCannotGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enqueue(1, 0)
	p := r.next(0)
	if w.goes() {
		t.Error("it went, and a batch has its job")
	}
	r.m.undo(p, p.parted())
	if !w.goes() {
		t.Error("it cannot go, and nothing was done")
	}
	if p := r.next(0); p != nil {
		t.Errorf("planned for nobody: %+v", p.batch.Ops)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	from, to := store.Stamp{Fence: 3, Tick: 7, Nonce: "old"}, store.Stamp{Fence: 3, Tick: 8, Nonce: "mine"}
	row := []store.Key{{Kind: store.KindJob, ID: "j"}}
	shown := func(fence, tick int64, nonce string, exists ...store.Key) store.CommitResult {
		return store.CommitResult{Stamp: &store.Stamp{Fence: fence, Tick: tick, Nonce: nonce}, Exists: exists}
	}
	unknown := errors.New("timeout")
	definite := &store.Error{Outcome: store.Fail, Cause: errors.New("refused")}
	for name, c := range map[string]struct {
		res    store.CommitResult
		err    error
		unsure int
		rows   bool
		want   verdict
	}{
		"applied":                               {store.CommitResult{Applied: true}, nil, 0, true, applied},
		"applied by a resend":                   {store.CommitResult{Applied: true}, nil, 2, false, applied},
		"an earlier copy was applied":           {shown(3, 8, "mine"), nil, 1, false, applied},
		"a row exists":                          {shown(3, 7, "old", row...), nil, 0, true, rejected},
		"a row exists, after an unknown":        {shown(3, 7, "old", row...), nil, 1, true, rejected},
		"as it was, without a row":              {shown(3, 7, "old"), nil, 0, true, lost},
		"as it was, with a row never asked for": {shown(3, 7, "old", row...), nil, 0, false, lost},
		"another batch of mine":                 {shown(3, 8, "other"), nil, 1, false, lost},
		"a takeover with my tick":               {shown(4, 8, "theirs"), nil, 1, true, lost},
		"a takeover with my tick and nonce":     {shown(4, 8, "mine"), nil, 1, true, lost},
		"an older tick":                         {shown(3, 6, "older"), nil, 0, false, lost},
		"a later tick of my fence":              {shown(3, 9, "mine"), nil, 1, false, lost},
		"the nonce of a deleted header":         {store.CommitResult{}, nil, 0, false, lost},
		"a row exists under another stamp":      {shown(4, 8, "theirs", row...), nil, 0, true, lost},
		"no answer":                             {store.CommitResult{}, unknown, 0, true, again},
		"no answer, again":                      {store.CommitResult{}, unknown, 3, true, again},
		"refused":                               {store.CommitResult{}, definite, 0, true, refused},
		"refused after an unknown":              {store.CommitResult{}, definite, 1, true, again},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := settle(answer{from: from, to: to, res: c.res, err: c.err, unsure: c.unsure, rows: c.rows}); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
}

func TestSettleTakeover(t *testing.T) {
	t.Parallel()
	from, to := store.Stamp{Fence: 3, Tick: 7, Nonce: "old"}, store.Stamp{Fence: 4, Tick: 8, Nonce: "mine"}
	for name, c := range map[string]struct {
		res    store.CommitResult
		err    error
		unsure int
		want   verdict
	}{
		"applied":                   {store.CommitResult{Applied: true}, nil, 0, applied},
		"an earlier copy was":       {store.CommitResult{Stamp: &to}, nil, 1, applied},
		"a faster contender":        {store.CommitResult{Stamp: &store.Stamp{Fence: 4, Tick: 8, Nonce: "theirs"}}, nil, 1, lost},
		"the owner went on":         {store.CommitResult{Stamp: &store.Stamp{Fence: 3, Tick: 8, Nonce: "theirs"}}, nil, 0, lost},
		"as it was":                 {store.CommitResult{Stamp: &from}, nil, 0, lost},
		"no header":                 {store.CommitResult{}, nil, 0, lost},
		"no answer":                 {store.CommitResult{}, errors.New("timeout"), 0, again},
		"refused":                   {store.CommitResult{}, &store.Error{Outcome: store.Fail}, 0, refused},
		"refused after one unknown": {store.CommitResult{}, &store.Error{Outcome: store.Fail}, 1, again},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := settleTakeover(answer{from: from, to: to, res: c.res, err: c.err, unsure: c.unsure}); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
}

// TestRejectionsOutcome: that nothing happened is certain only if no other copy was sent whose
// answer is not known.
func TestRejectionsOutcome(t *testing.T) {
	t.Parallel()
	for unsure, want := range []store.Outcome{store.Fail, store.Unknown, store.Unknown} {
		if got := rejection(answer{unsure: unsure}); got != want {
			t.Errorf("with %d copies of unknown outcome: %s, want %s", unsure, got, want)
		}
	}
}

// TestLeft: a batch that is given up has not happened only if each of its copies certainly has not.
func TestLeft(t *testing.T) {
	t.Parallel()
	no, lost := &store.Error{Outcome: store.Fail}, errors.New("no answer")
	for name, c := range map[string]struct {
		f    flight
		want store.Outcome
	}{
		"nothing was sent":            {flight{}, store.Fail},
		"a copy is on its way":        {flight{pending: true}, store.Unknown},
		"one after a refusal":         {flight{pending: true, answer: answer{err: no}}, store.Unknown},
		"refused":                     {flight{answer: answer{err: no}}, store.Fail},
		"not answered":                {flight{answer: answer{err: lost}}, store.Unknown},
		"refused, the one before not": {flight{answer: answer{err: no, unsure: 1}}, store.Unknown},
		"taken by another owner":      {flight{answer: answer{res: store.CommitResult{Stamp: &store.Stamp{}}}}, store.Fail},
	} {
		if got := c.f.left(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
