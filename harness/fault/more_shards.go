package fault

import (
	"context"
	"errors"
	"fmt"

	"fencepost/harness/record/history"
)

// QueuesTarget is the target of faults of the queues, all of them.
const QueuesTarget = "queues"

// MoreShards is the fault that gives queues more shards.
const MoreShards = "more-shards"

// Bounds of its times.
const leastRaise, mostRaise = 2, 10

func init() {
	register(Kind{
		Name: MoreShards, On: Queues, Family: FamilyQueues,
		About: "all queues get so many times as many shards as they had at first, as by an operator, and keep them",
		Proof: "By their rows in the store the queues have their first number of shards before, and the greater one meanwhile, with the first still known. " +
			"Each new shard has an owner, and a quarter of them or more have jobs, before the fault is over.",
		Params: []string{"times"},
		Needs:  Needs{Jobs: true},
		Takes:  history.TakesNothing,
		New: func(s Spec) (Fault, error) {
			f := moreShards{int(s.Times)}
			if float64(f.times) != s.Times || f.times < leastRaise || f.times > mostRaise {
				return nil, fmt.Errorf("%g times is not a whole number of %d to %d", s.Times, leastRaise, mostRaise)
			}
			return f, nil
		},
	})
}

// QueueRows are the queues of a run, as the store has them.
type QueueRows interface {
	// Sizes is how many shards each queue has, always in the same order.
	Sizes(ctx context.Context) ([]QueueSize, error)
	Raise(ctx context.Context, queue string, shards int) error
	// Jobs is how many jobs there are in a shard that somebody owns.
	Jobs(ctx context.Context, queue string, shard int) (n int, owned bool, err error)
}

// QueueSize is how many shards a queue had at first, and has now.
type QueueSize struct {
	Queue         string
	First, Shards int
}

var errNoQueues = errors.New("this run's jobs are not in queues of shards, so nobody can give them more")

type moreShards struct{ times int }

func (f moreShards) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Queues == nil {
		return nil, errNoQueues
	}
	before, err := env.Queues.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range before {
		if q.Shards != q.First {
			return nil, fmt.Errorf("queue %s has %d shards already, in place of its first %d", q.Queue, q.Shards, q.First)
		}
		if err := env.do(func() error { return env.Queues.Raise(ctx, q.Queue, q.First*f.times) }); err != nil {
			return nil, fmt.Errorf("give queue %s %d shards: %w", q.Queue, q.First*f.times, err)
		}
	}
	return &activeShards{env.Queues, before, f.times}, nil
}

type activeShards struct {
	rows   QueueRows
	before []QueueSize
	times  int
}

// Probe reads what others see and do: the rows of the queues, and those of the new shards, which their
// owners alone write.
func (a *activeShards) Probe(ctx context.Context) Evidence {
	now, err := a.rows.Sizes(ctx)
	if err != nil {
		return Evidence{Text: "the queues cannot be read: " + firstLine(err)}
	}
	ev := Evidence{Proven: len(now) == len(a.before)}
	for n, q := range now {
		first := a.before[n].First
		ev.also(q.First == first && q.Shards == first*a.times, "queue %s has %d shards, and had %d", q.Queue, q.Shards, first)
		owned, used, jobs := 0, 0, 0
		for shard := first; shard < q.Shards; shard++ {
			n, owns, err := a.rows.Jobs(ctx, q.Queue, shard)
			switch {
			case err != nil:
				return Evidence{Text: "a new shard cannot be read: " + firstLine(err)}
			case owns:
				owned++
			}
			if jobs += n; n > 0 {
				used++
			}
		}
		ev.also(owned > 0 && owned == q.Shards-first && 4*used >= owned, "%d of its new ones have owners, and %d have jobs, %d so far", owned, used, jobs)
	}
	return ev
}

// Heal does nothing: a queue keeps its shards.
func (*activeShards) Heal(context.Context) error { return nil }
