package measure

import (
	"slices"
	"strings"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// noEnd is the outcome of what was under way when its process died.
const noEnd history.Type = ""

// scene is a client at a point. It finds what was under way there by proc, key and time: the
// client stood still.
type scene struct {
	h   *history.History
	ops []history.Operation
	wait

	lease string // the lock or shard that it was about, set by end
	own   int64  // when that operation ended, if it did
}

// requests are the operations in which points stand before the answer is known to the client.
// Where each job has a lock of its own, claims are acquires and ends of runs updates.
var requests = map[control.Point][]history.Op{
	control.AcquireSent: {history.OpAcquire}, control.AcquireAnswered: {history.OpAcquire},
	control.RenewSent: {history.OpRenew}, control.RenewAnswered: {history.OpRenew},
	control.ReleaseSent: {history.OpRelease}, control.ReleaseAnswered: {history.OpRelease},
	control.EffectSent: {history.OpEffect}, control.EffectAnswered: {history.OpEffect}, control.PaymentSent: {history.OpEffect},

	control.TakeSent: {history.OpTake}, control.TakeAnswered: {history.OpTake},
	control.BatchPlanned: {history.OpTick, history.OpHandOver},
	control.ClaimSent:    {history.OpTick, history.OpAcquire, history.OpUpdate}, control.ClaimAnswered: {history.OpTick, history.OpAcquire, history.OpUpdate},
	control.CompleteSent: batches, control.RetrySent: batches, control.DLQSent: batches, control.FinishAnswered: batches,
	control.EnqueueSent: batches, control.FireSent: batches, control.FollowSent: batches,
	control.HandOverSent: {history.OpHandOver}, control.HandOverAnswered: {history.OpHandOver},
}

// settled are the operations after which points stand, when they are known to be ok.
var settled = map[control.Point][]history.Op{
	control.TakeSettled: {history.OpTake}, control.CompleteSettled: batches,
	control.FireSettled: batches, control.FollowSettled: batches,
}

// batches are the operations that change jobs. The last one of an owner may do so too.
var batches = []history.Op{history.OpTick, history.OpHandOver, history.OpUpdate}

// end is the outcome of the operation that was under way, false if the history has none.
func (s *scene) end() (history.Type, bool) {
	p := control.Point(s.point)
	if kinds, ok := requests[p]; ok {
		return s.outcome(s.last(func(o *history.Operation) bool {
			return o.Invoke.Proc == s.proc && slices.Contains(kinds, o.Invoke.Op) && (o.End.TS == 0 || o.End.TS >= s.at) &&
				(o.Invoke.Key == s.key || o.Invoke.Issuer == s.key)
		}))
	}
	if kinds, ok := settled[p]; ok {
		return s.outcome(s.before(kinds...))
	}
	switch p {
	case control.EnqueueSettled:
		return s.outcome(s.asked())
	case control.Holding, control.EffectDone, control.OrderPaid:
		return s.held()
	case control.ClaimSettled, control.RunBegin:
		return s.claimed()
	case control.RunStart:
		return s.run(s.note(history.NoteStart, func(e *history.Event) bool { return e.Issuer == s.key }))
	case control.RunEnd:
		return s.run(s.note(history.NoteFinish, func(e *history.Event) bool { return e.Issuer == s.key }))
	}
	return noEnd, false
}

// last is the newest operation, by invocation, that had begun and is wanted.
func (s *scene) last(wanted func(*history.Operation) bool) *history.Operation {
	for i := len(s.ops) - 1; i >= 0; i-- {
		if o := &s.ops[i]; o.Invoke.TS <= s.at && wanted(o) {
			return o
		}
	}
	return nil
}

// before is the newest operation of these kinds on the key that the client had finished well.
func (s *scene) before(kinds ...history.Op) *history.Operation {
	return s.last(func(o *history.Operation) bool {
		return o.Invoke.Proc == s.proc && o.Invoke.Key == s.key && slices.Contains(kinds, o.Invoke.Op) && o.Outcome == history.OK && o.End.TS <= s.at
	})
}

// asked is the client's call for the first job that the last batch enqueued.
func (s *scene) asked() *history.Operation {
	b := s.before(batches...)
	if b == nil {
		return nil
	}
	s.lease = s.key
	for _, c := range b.Invoke.Changes() {
		if c.Do == history.DoEnqueue {
			return s.last(func(o *history.Operation) bool { return o.Invoke.Op == history.OpEnqueue && o.Invoke.Key == c.Job })
		}
	}
	return nil
}

// outcome is how an operation ended.
func (s *scene) outcome(o *history.Operation) (history.Type, bool) {
	if o == nil {
		return noEnd, false
	}
	if s.lease == "" {
		s.lease = o.Invoke.Key
		if o.Invoke.Issuer != "" {
			s.lease = o.Invoke.Issuer
		}
	}
	s.own = o.End.TS
	return o.End.Type, true
}

// note is the newest note of the client's process that is wanted.
func (s *scene) note(op history.Op, wanted func(*history.Event) bool) *history.Event {
	for i := len(s.h.Events) - 1; i >= 0; i-- {
		e := &s.h.Events[i]
		if e.TS <= s.at && e.Type == history.Note && e.Op == op && history.Life(e.Proc) == history.Life(s.proc) && wanted(e) {
			return e
		}
	}
	return nil
}

// held is what became of the critical section, or of the run, that the client is in.
func (s *scene) held() (history.Type, bool) {
	start := s.note(history.NoteStart, func(e *history.Event) bool {
		return (e.Key == s.key || e.Issuer == s.key) && (e.Proc == s.proc || e.Issuer != "")
	})
	if start == nil || start.Issuer != "" {
		return s.run(start)
	}
	s.lease = s.key
	for i := range s.ops {
		if o := &s.ops[i]; o.Invoke.Proc == s.proc && o.Invoke.Op == history.OpEffect && o.Invoke.Issuer == s.key && o.Invoke.Token == start.Token {
			return s.outcome(o)
		}
	}
	for i := range s.h.Events {
		e := &s.h.Events[i]
		if e.Op == history.NoteFinish && e.Proc == s.proc && e.Key == s.key && e.Token == start.Token {
			return history.Fail, true // it did not write
		}
	}
	return noEnd, true
}

// claimed is what became of the first run that was claimed and had not started.
func (s *scene) claimed() (history.Type, bool) {
	o := s.before(batches...)
	if o == nil {
		return noEnd, false
	}
	for _, c := range o.Invoke.Changes() {
		started := func(e *history.Event) bool { return e.Issuer == s.key && e.Token == c.Run }
		if c.Do == history.DoClaim && s.note(history.NoteStart, started) == nil {
			return s.run(&history.Event{Issuer: s.key, Token: c.Run})
		}
	}
	return noEnd, false
}

// endings are the changes by which the owner of a shard, or of a job's lock, ends a run.
var endings = []string{history.DoComplete, history.DoRetry, history.DoDLQ, history.DoCancel, history.DoAbandon}

// run is what became of a run: ok if a batch of its own process completed it, and fail if one ended it
// otherwise, or none did and the process had lost the shard. What another owner did is not its end.
func (s *scene) run(r *history.Event) (history.Type, bool) {
	if r == nil {
		return noEnd, false
	}
	s.lease = r.Issuer
	for i := range s.ops {
		o := &s.ops[i]
		if o.Invoke.Key != r.Issuer || history.Life(o.Invoke.Proc) != history.Life(s.proc) || !slices.Contains(batches, o.Invoke.Op) {
			continue
		}
		for _, c := range o.Invoke.Changes() {
			if c.Run != r.Token || !slices.Contains(endings, c.Do) {
				continue
			}
			end, found := s.outcome(o)
			if end == history.OK && c.Do != history.DoComplete {
				end = history.Fail
			}
			return end, found
		}
	}
	if s.lost() {
		return history.Fail, true
	}
	return noEnd, true
}

// lost says whether the process lost the lease afterwards, before it had another.
func (s *scene) lost() bool {
	for i := range s.h.Events {
		e := &s.h.Events[i]
		if e.TS <= s.at || e.Key != s.lease || history.Life(e.Proc) != history.Life(s.proc) {
			continue
		}
		if !strings.HasPrefix(s.lease, "shard/") && e.Proc != s.proc {
			continue // another client of the process
		}
		switch {
		case e.Type == history.Note && e.Op == history.NoteLeaseLost:
			return true
		case e.Type == history.OK && (e.Op == history.OpAcquire || e.Op == history.OpTake) && e.TS != s.own:
			return false
		}
	}
	return false
}
