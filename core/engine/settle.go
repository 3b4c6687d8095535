package engine

import "fencepost/core/store"

// verdict is what the owner of a shard concludes from the answer to a batch.
type verdict int

const (
	// applied: the batch happened, by this copy or an earlier one.
	applied verdict = iota + 1
	// rejected: a row that must not exist exists; nothing happened and no
	// copy that is still on its way can be applied before the tick moves.
	rejected
	// refused: no copy ever happened or will.
	refused
	// again: send the identical batch and nothing else.
	again
	// lost: the shard is another's, or the answer cannot be told apart.
	lost
)

// answer is what came back for the last copy of a batch.
type answer struct {
	from, to store.Stamp
	res      store.CommitResult
	err      error
	// unsure counts the earlier copies that ended without certainty.
	unsure int
	// rows: the batch has PutNew operations.
	rows bool
}

// failed reads an error: "did not happen" is a property of the batch only if it is
// one of every copy.
func (a answer) failed() verdict {
	if store.OutcomeOf(a.err) == store.Fail && a.unsure == 0 {
		return refused
	}
	return again
}

// settle reads an answer, the fence first: a takeover moves the tick too.
func settle(a answer) verdict {
	if a.err != nil {
		return a.failed()
	}
	if a.res.Applied {
		return applied
	}
	switch s := a.res.Stamp; {
	case s == nil || s.Fence != a.from.Fence:
		return lost
	case *s == a.to:
		return applied
	case *s == a.from && a.rows && len(a.res.Exists) > 0:
		return rejected
	}
	return lost
}

// settleTakeover reads the answer to a takeover. The shard is mine only if the
// header carries the nonce of this very try: a contender who was faster has set
// the same fence and tick.
func settleTakeover(a answer) verdict {
	if a.err != nil {
		return a.failed()
	}
	if a.res.Applied || a.res.Stamp != nil && *a.res.Stamp == a.to {
		return applied
	}
	return lost
}
