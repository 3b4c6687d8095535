package engine

import (
	"errors"
	"fmt"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// rowsOfPlan says what a plan's batch does to rows, in its order.
func rowsOfPlan(p *plan) (out string) {
	kinds := map[store.OpKind]string{store.Put: "put", store.PutNew: "new", store.Delete: "delete"}
	rows := map[store.Kind]string{store.KindJob: "job", store.KindPending: "pending", store.KindRunning: "running"}
	for _, op := range p.batch.Ops {
		out += fmt.Sprintf("%s %s%s, ", kinds[op.Kind], rows[op.Row.Kind], map[bool]string{true: " " + op.Row.State}[op.Row.State != ""])
	}
	return out
}

// TestClaimAtOnce: a job that is due when it comes is claimed by the batch that inserts it, if there is a
// slot, nobody waits for one, and no page can bring it meanwhile.
func TestClaimAtOnce(t *testing.T) {
	t.Parallel()
	const apart, atOnce = "new job pending, put pending, ", "new job running, put running, "
	for name, c := range map[string]struct {
		free   int
		due    int64
		before func(r *machineRig)
		want   string
	}{
		"due":                                   {1, 0, nil, atOnce},
		"due since long":                        {1, 5000, nil, atOnce},
		"due later":                             {1, 20_000, nil, apart},
		"no slot":                               {0, 0, nil, apart},
		"as many as may":                        {9, 0, func(r *machineRig) { r.m.running = r.m.cfg.maxRunning }, apart},
		"no more numbers":                       {1, 0, func(r *machineRig) { r.m.seq = job.MaxSeq }, apart},
		"paused":                                {1, 0, func(r *machineRig) { r.m.head.Pause.On = true }, apart},
		"rows of earlier owners are still read": {1, 0, func(r *machineRig) { r.m.window.rescued = false }, apart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.m.ranBefore(nil, false, r.now)
			if c.before != nil {
				c.before(r)
			}
			r.enqueue(1, c.due)
			if got := rowsOfPlan(r.next(c.free)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestClaimAtOnceBehindOthers: a job that waits for a slot is claimed before one that comes.
func TestClaimAtOnceBehindOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.m.ranBefore(nil, false, r.now)
	r.enqueue(1, 0)
	r.tick(0)
	r.enqueue(2, 0)
	p := r.next(1)
	for _, i := range p.intents {
		if (i.kind == doClaim) != (i.e.job.Key == "1") {
			t.Errorf("%s", rowsOfPlan(p))
		}
	}
	if n := r.m.wanted(r.now); n != 0 {
		t.Errorf("%d slots are wanted, and all is planned", n)
	}
}

// TestClaimAtOnceThatDidNotHappen: the job is acknowledged and starts with the batch that was applied, and
// only then; what was refused or a duplicate gives its slot back.
func TestClaimAtOnceThatDidNotHappen(t *testing.T) {
	t.Parallel()
	rig := func() *machineRig {
		r := newRig(t)
		r.m.ranBefore(nil, false, r.now)
		r.enqueue(1, 0)
		r.enqueue(2, 0)
		return r
	}
	r := rig()
	if n := r.m.wanted(r.now); n != 2 {
		t.Errorf("%d slots are wanted, want 2", n)
	}
	r.m.settled(r.next(2))
	r.want("applied", "ack:1 start ack:2 start ")
	if e := r.m.jobs[r.job(1).ID]; e == nil || !e.running || !e.started || e.attempt != 1 || r.m.running != 2 {
		t.Errorf("%+v, %d are running", e, r.m.running)
	}

	r = rig()
	p := r.next(2)
	if !r.m.rejected(p, exists(r.job(1).ID)) {
		t.Error("no row of the plan exists")
	}
	r.want("one is a duplicate", "ack:1! slot slot ")
	r.tick(1)
	r.want("the other is enqueued", "ack:2 start ")

	r = rig()
	r.m.refused(r.next(2), errors.New("too large"))
	r.want("refused", "slot slot ")
	for _, want := range []string{"", "ack:1 ", "ack:2 "} { // an empty batch, and each alone
		r.m.settled(r.m.next(tickInput{now: r.now, free: 2, owner: "w", nonce: want, beat: true}))
		r.want("alone", want)
	}
}
