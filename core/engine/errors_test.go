package engine

import (
	"errors"
	"strings"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestErrorsSayWhatIsKnown: who reads an error learns whether the change certainly was not made,
// and why.
func TestErrorsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	cause := errors.New("the reason")
	for _, c := range []struct {
		err  error
		says string
	}{
		{&EnqueueError{Job: "j", Outcome: store.Fail, Cause: cause}, "job j was not enqueued: the reason"},
		{&EnqueueError{Job: "j", Outcome: store.Unknown, Cause: cause}, "job j may or may not have been enqueued: enqueue it again with the same id: the reason"},
		{&CommandError{Command: "cancel", Job: "j", Outcome: store.Fail, Cause: cause}, "cancel of job j was not done: the reason"},
		{&CommandError{Command: "put", Schedule: "s", Outcome: store.Unknown, Cause: cause}, "put of schedule s may or may not have been done: the reason"},
		{&CommandError{Command: "pause", Shard: "q/0", Outcome: store.Fail, Cause: cause}, "pause of shard q/0 was not done: the reason"},
		{&StateError{Job: "j", State: job.Running}, "job j is running"},
	} {
		if got := c.err.Error(); !strings.HasSuffix(got, c.says) {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
}
