package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

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
				if got := p.batch.Bytes(); got > i.most() || got != p.bytes || i.most() > frame(j.ID, mostNote+mostWhy)+len(r.body(j))+job.MaxRequest {
					t.Errorf("%s: %d bytes, counted %d, reckoned at %d", stepOf(i), got, p.bytes, i.most())
				}
			}
			measure(r.tick(1))
			measure(r.tick(1))
			r.m.finished(j.ID, r.m.jobs[j.ID].run, c.err, r.now, 0)
			if c.condemn {
				r.m.queue.ends.next[0].condemned = "the store refuses its row: " + note(long)
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
			if i := (&intent{kind: doFinish, e: &entry{job: j, body: body}, note: strings.Repeat("x", mostNote+mostWhy)}); err == nil && i.most() > limit {
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
