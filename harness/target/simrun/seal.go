package simrun

import (
	"context"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

// network carries what a worker asks of the sink. It sends once: who is not answered does
// not know.
type network struct {
	sink.Sink
	session *sim.Session
	timeout time.Duration
}

func (n *network) call(ctx context.Context, name string, f func() (sink.Answer, error)) (sink.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	// Not the results: a late request writes them after the return.
	var a sink.Answer
	var err error
	if lost := n.session.Call(ctx, name, func() { a, err = f() }); lost != nil {
		return sink.Answer{}, lost
	}
	return a, err
}

func (n *network) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return n.call(ctx, "raise "+resource, func() (sink.Answer, error) {
		return n.Sink.Raise(context.Background(), resource, issuer, token)
	})
}

func (n *network) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return n.call(ctx, "accept "+e.Key, func() (sink.Answer, error) {
		return n.Sink.Accept(context.Background(), resource, issuer, token, e)
	})
}

func (n *network) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	var st sink.State
	_, err := n.call(ctx, "read "+resource, func() (_ sink.Answer, err error) {
		st, err = n.Sink.Read(context.Background(), resource, keys...)
		return sink.Answer{}, err
	})
	if err != nil {
		return sink.State{}, err
	}
	return st, nil
}

// ask records an operation of the run's own.
func (rec *recorder) ask(e history.Event, do func(end *history.Event)) {
	e.Proc, e.ID, e.Type = rec.life, rec.NewID(), history.Invoke
	rec.Record(e)
	end := history.Event{Proc: e.Proc, ID: e.ID, Type: history.OK, Op: e.Op, Key: e.Key, Issuer: e.Issuer, Token: e.Token}
	do(&end)
	rec.Record(end)
}

// seal takes a lock for good, and its resource.
func (r *run) seal(host *recorder, name string) {
	ctx, rows := r.t.Context(), r.store.Connect("seal/"+name, r.Seed)
	var from *store.Version
	read := func() {
		host.ask(history.Event{Op: history.OpRead, Key: name}, func(end *history.Event) {
			row, err := rows.Read(ctx, name, true)
			if err != nil {
				r.t.Error(err)
			}
			from, end.Row = row, workload.Version(row)
		})
	}
	read()
	to := store.Version{Fence: 1, Attempt: "5ea1ed00-0000-4000-8000-000000000000"}
	if from != nil {
		to.Fence = from.Fence + 1
	}
	host.ask(history.Event{Op: history.OpSeal, Key: name, From: workload.Version(from), To: workload.Version(&to)}, func(end *history.Event) {
		end.Sends = []int64{host.Now()}
		if res, err := rows.CAS(ctx, name, from, to, 0); err != nil || !res.Applied {
			r.t.Errorf("%s is not sealed: %+v, %v", name, res, err)
		}
	})
	read()
	r.sealResource(host, workload.Resource(name), name, to.Fence)
}

// sealResource raises a resource above all tokens, reads its value, and notes its ledger.
func (r *run) sealResource(host *recorder, resource, issuer string, token int64) {
	ctx := r.t.Context()
	host.ask(history.Event{Op: history.OpRaise, Key: resource, Issuer: issuer, Token: token}, func(end *history.Event) {
		a, err := r.sink.Raise(ctx, resource, issuer, token)
		if err != nil {
			r.t.Error(err)
		}
		end.Result, end.Seen, end.Seq = a.Result.String(), a.Seen, a.Seq
		if a.Result == sink.Stale { // a mistake has handed out tokens above the row's
			end.Type = history.Fail
		}
	})
	host.ask(history.Event{Op: history.OpGet, Key: resource}, func(end *history.Event) {
		st, err := r.sink.Read(ctx, resource)
		if err != nil {
			r.t.Error(err)
		}
		end.Value, end.Seen, end.Seq = &st.Value, st.Seen, st.Seq
	})
	ledger, err := r.sink.Ledger(ctx, resource)
	if err != nil {
		r.t.Error(err)
	}
	for _, e := range ledger {
		entry := history.LedgerEntry{Seq: e.Seq, Kind: e.Kind, Issuer: e.Issuer, Token: e.Token, EffectKey: e.Key}
		if e.Kind == sink.KindAccept {
			entry.Value = &e.Value
		}
		host.note(history.Event{Op: history.NoteLedger, Key: resource, Details: &history.Details{Ledger: &entry}})
	}
}
