package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-tick-blind", shardsHook(tickBlind))
	plant("jobs-unknown-means-no", shardsHook(unknownMeansNo))
	plant("jobs-plain-header", only(workload.Hooks{Shards: plainHeader}))
	plant("jobs-early-hand-over", shardsHook(earlyHandOver))
}

// tickBlind has a tick's condition name the fence and not the tick. A copy that was
// not answered stays on its way for ttl/2, as in a coordinator that hangs, and then
// does again what was done long ago.
func tickBlind(cfg workload.Config, inner store.Shards) store.Shards {
	return shards{Shards: inner, commit: func(r commitRequest) (store.CommitResult, error) {
		if r.takeover() {
			return r.send()
		}
		res, err := sendBlindly(r)
		if store.OutcomeOf(err) == store.Unknown && r.copyNo == 0 {
			time.AfterFunc(cfg.TTL/2, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cfg.TTL/6)
				defer cancel()
				r.ctx = ctx
				_, _ = sendBlindly(r)
			})
		}
		return res, err
	}}
}

// sendBlindly does the batch from whatever stamp its fence has come to.
func sendBlindly(r commitRequest) (store.CommitResult, error) {
	named := r.batch.From
	for {
		res, err := r.send()
		s := res.Stamp
		if err != nil || res.Applied || s == nil || s.Fence != named.Fence || *s == r.batch.To.Stamp {
			return res, err
		}
		if *s == r.batch.From { // a row kept it from happening: the stamp was fine
			res.Stamp = &named
			return res, nil
		}
		r.batch.From = *s
	}
}

// unknownMeansNo takes a batch without an answer for one that did not happen, so
// that another one is built from the same stamp.
func unknownMeansNo(_ workload.Config, inner store.Shards) store.Shards {
	var mu sync.Mutex
	given := map[string]bool{} // batches taken for lost, by nonce
	return shards{Shards: inner, commit: func(r commitRequest) (store.CommitResult, error) {
		no := &store.Error{Op: "commit " + r.shard.String(), Outcome: store.Fail, Cause: errors.New("no answer")}
		mu.Lock()
		lost := given[r.batch.To.Nonce]
		mu.Unlock()
		if lost {
			return store.CommitResult{}, no
		}
		res, err := r.send()
		if store.OutcomeOf(err) != store.Unknown {
			return res, err
		}
		mu.Lock()
		given[r.batch.To.Nonce] = true
		mu.Unlock()
		return store.CommitResult{}, no
	}}
}

// plainHeader writes ticks without a condition. What an owner has begun to send
// leaves its process whatever it has come to know meanwhile.
func plainHeader(cfg workload.Config, db *cassandra.DB, inner store.Shards) store.Shards {
	return plainTicks(cfg, inner, plainWriter(db))
}

func plainTicks(cfg workload.Config, inner store.Shards, write writeFunc) store.Shards {
	return shards{Shards: inner, commit: func(r commitRequest) (store.CommitResult, error) {
		if r.takeover() || hasNew(r.batch) {
			return r.send()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cfg.TTL/6)
		defer cancel()
		err := write(ctx, r.shard, &r.batch.To, r.batch.Ops)
		return store.CommitResult{Applied: err == nil}, err
	}}
}

// hasNew: the batch enqueues, and must find out whether its jobs are there.
func hasNew(b store.Batch) bool {
	for _, op := range b.Ops {
		if op.Kind == store.PutNew {
			return true
		}
	}
	return false
}

// handOverAfter is how many runs a process claims before it hands a shard over.
const handOverAfter = 20

// earlyHandOver has each process hand one of its shards over, once, as if it were to
// stop: with the tick that claims a run, instead of one after the run's end. Then it
// ticks no more, and its runs go on.
func earlyHandOver(_ workload.Config, inner store.Shards) store.Shards {
	l := &leaver{}
	return shards{Shards: inner, commit: l.do}
}

type leaver struct {
	mu      sync.Mutex
	claimed int
	left    reign
	by      string // the nonce of the batch that left it; "": not yet
}

func (l *leaver) do(r commitRequest) (store.CommitResult, error) {
	leaves, gone := l.look(r)
	switch {
	case gone:
		<-r.ctx.Done()
		return store.CommitResult{}, &store.Error{Op: "tick", Outcome: store.Unknown, Cause: context.Cause(r.ctx)}
	case !leaves:
		return r.send()
	}
	r.batch.To.Owner, r.batch.To.Addr = "", ""
	res, err := r.send()
	if err == nil && !res.Applied && (res.Stamp == nil || *res.Stamp != r.batch.To.Stamp) {
		l.mu.Lock()
		l.by = "" // it did not happen
		l.mu.Unlock()
	}
	return res, err
}

// look says whether the batch is the one that leaves its shard, or comes after it.
func (l *leaver) look(r commitRequest) (leaves, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := reign{r.shard, r.batch.From.Fence}
	switch {
	case r.takeover():
	case l.by != "":
		leaves = l.by == r.batch.To.Nonce
		gone = !leaves && l.left == at
	case r.claims() > 0:
		if l.claimed += r.claims(); l.claimed >= handOverAfter {
			leaves, l.left, l.by = true, at, r.batch.To.Nonce
		}
	}
	return leaves, gone
}
