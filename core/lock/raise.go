package lock

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// RaiseFence raises the fence of a lock by so much and frees it, for rows that were restored
// from an old copy of the database: tokens above theirs were given out since, and must not
// be given out again. A lock without a row, as it is younger than the copy, gets one. Nobody
// should use the lock meanwhile; a holder loses it.
//
// It returns the new fence: the next grant's token is one higher. With an error it may be
// called again: a fence that is raised twice is only higher.
func RaiseFence(ctx context.Context, s store.Locks, resource string, by int64) (fence int64, err error) {
	if by < 1 {
		return 0, fmt.Errorf("lock: raise the fence of %q by %d: fences only rise", resource, by)
	}
	from, err := s.Read(ctx, resource, true)
	if err != nil {
		return 0, err
	}
	to := store.Version{Fence: by, Attempt: uuid.NewString(), TTL: DefaultTTL}
	if from != nil {
		// The next grant's token must be one that sinks take.
		if from.Fence > math.MaxInt64-2-by {
			return 0, fmt.Errorf("lock: raise the fence of %q by %d: it is %d, and tokens end at 2^63-2", resource, by, from.Fence)
		}
		to.Fence, to.TTL = from.Fence+by, from.TTL
	}
	res, err := s.CAS(ctx, resource, from, to, 0)
	if err != nil {
		return 0, err
	}
	if !res.Applied {
		return 0, fmt.Errorf("lock: raise the fence of %q: it was changed at the same time, to %s: stop its users first", resource, res.Row)
	}
	return to.Fence, nil
}
