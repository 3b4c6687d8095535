package lock

import (
	"fencepost/core/store"
)

// settle reads the answer "not applied" to the last copy of a compare-and-set
// of from to to: row is what was there instead, earlier says how many earlier
// copies ended without certainty and may have been applied.
//
// Without such a copy the answer is plain: fail. With one, the row may have been
// changed by that copy and then by others, and "the row is not what I set" proves
// nothing. What remains certain rests on three facts: an attempt id is used by
// one operation only; a fence f+1 is granted by one compare-and-set only, and
// only that grant's own holder changes the row until f+2; a version, once left,
// never returns.
func settle(kind OpKind, from *store.Version, to store.Version, row *store.Version, earlier int) store.Outcome {
	if earlier == 0 {
		return store.Fail
	}
	if row == nil {
		return store.Unknown // rows are never deleted: this store has lost one
	}
	switch kind {
	case Acquire:
		return settleAcquire(from, to, row)
	case Renew:
		// The attempt alone would not do: the row carries it before the
		// renewal too.
		if *row == to {
			return store.OK
		}
	case Release:
		if row.Attempt == to.Attempt {
			return store.OK
		}
	}
	return store.Unknown
}

func settleAcquire(from *store.Version, to store.Version, row *store.Version) store.Outcome {
	base := int64(0)
	if from != nil {
		base = from.Fence
	}
	switch {
	case row.Attempt == to.Attempt:
		return store.OK
	case store.Same(row, from):
		return store.Unknown // rejected though the row is what was named: nothing may be concluded
	case row.Fence == base && base > 0:
		return store.Fail // the beat moved on: the named version is gone for good
	case row.Fence == base+1:
		return store.Fail // another attempt made the grant of this fence
	}
	return store.Unknown // two grants on: the first may have been this one
}
