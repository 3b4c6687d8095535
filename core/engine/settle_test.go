package engine

import (
	"errors"
	"testing"

	"fencepost/core/store"
)

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
