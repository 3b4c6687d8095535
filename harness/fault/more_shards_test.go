package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// queues are rows of one queue in memory.
type queues struct {
	QueueSize
	jobs []int // in the new shards; fewer than 0: it has no owner
	err  error
}

func (q *queues) Sizes(context.Context) ([]QueueSize, error) { return []QueueSize{q.QueueSize}, q.err }

func (q *queues) Raise(_ context.Context, _ string, shards int) error {
	q.Shards = shards
	return q.err
}

func (q *queues) Jobs(_ context.Context, _ string, shard int) (n int, owned bool, err error) {
	n = q.jobs[shard-2]
	return max(n, 0), n >= 0, q.err
}

// TestMoreShards: the proof is what the rows of the queues and the owners of the new shards say.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inert  Family
		jobs   []int
		later  func(*queues)
		proven bool
		text   string
	}{
		"all work":                  {jobs: []int{3, 4}, proven: true, text: "queue q has 4 shards, and had 2; 2 of its new ones have owners, and 2 have jobs, 7 so far"},
		"one has no job yet":        {jobs: []int{0, 4}, proven: true, text: "2 of its new ones have owners, and 1 have jobs"},
		"none has a job":            {jobs: []int{0, 0}, text: "2 of its new ones have owners, and 0 have jobs"},
		"one has no owner":          {jobs: []int{3, -1}, text: "1 of its new ones have owners"},
		"nobody raised anything":    {inert: FamilyQueues, text: "queue q has 2 shards, and had 2; 0 of its new ones have owners"},
		"the first number is gone":  {jobs: []int{3, 4}, later: func(q *queues) { q.First = 3 }, text: "queue q has 4 shards, and had 2"},
		"they cannot be read again": {later: func(q *queues) { q.err = errors.New("no quorum") }, text: "the queues cannot be read: no quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queues{QueueSize: QueueSize{"q", 2, 2}, jobs: c.jobs}
			a, err := moreShards{2}.Inject(t.Context(), (&Env{Inert: c.inert, Queues: q}).Ready().For(MoreShards, nil), []string{QueuesTarget})
			if err != nil {
				t.Fatal(err)
			}
			if c.later != nil {
				c.later(q)
			}
			if ev := a.Probe(t.Context()); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("%+v, want proven %v and %q", ev, c.proven, c.text)
			}
			if err := a.Heal(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMoreShardsNeedsQueues: what cannot be raised, or was before, is an error.
func TestMoreShardsNeedsQueues(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]QueueRows{
		"not in queues of shards": nil,
		"6 shards already":        &queues{QueueSize: QueueSize{"q", 2, 6}},
		"no quorum":               &queues{QueueSize: QueueSize{"q", 2, 2}, err: errors.New("no quorum")},
	} {
		_, err := moreShards{3}.Inject(t.Context(), (&Env{Queues: q}).Ready().For(MoreShards, nil), []string{QueuesTarget})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
