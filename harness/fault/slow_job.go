package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "slow-job", On: Worker, Family: FamilySlowJob,
		About: "a client stays in its critical section for the trigger's hold",
		Proof: "The lock's row, which the harness reads itself, has the client as its holder under one token from the hit " +
			"until the hold is over, or until the lease has run out. For a job: its row has one run. For a user's own program: the sink's ledger of the lock gets no entry",
		Needs: Needs{Hold: true},
		Takes: history.TakesNothing,
		New:   plain(slowJob{}),
	})
}

// slowJob is done by the trigger, which holds the client that hit.
type slowJob struct{}

func (slowJob) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.workers(targets); err != nil {
		return nil, err
	}
	if env.hit == nil || env.hit.Hold == 0 {
		return nil, errors.New("no client is held")
	}
	a := &activeSlowJob{env: env, hit: *env.hit, done: make(chan struct{})}
	if env.Stay == nil {
		close(a.done)
		a.cancel = func() {}
		return a, nil
	}
	first, err := env.Stay(ctx, a.hit.Key)
	if err != nil {
		return nil, fmt.Errorf("read who has %s: %w", a.hit.Key, err)
	}
	a.first = first
	watching, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go a.watch(watching)
	return a, nil
}

// Claim is what the rows say of who has a lock or a job.
type Claim struct {
	// By has it, "" nobody. Token is that of the grant: another one is another grant.
	By    string
	Token int64
	// Written is when the claim was made or renewed last, by the node's clock, and TTL for
	// how long it is good from then on; 0: for ever.
	Written time.Time
	TTL     time.Duration
	// Anonymous: the rows do not name a client, and By is something else.
	Anonymous bool
}

func (c Claim) same(o Claim) bool { return c.By == o.By && c.Token == o.Token }

// stayEvery is how often it is read who has what.
const stayEvery = 100 * time.Millisecond

// activeSlowJob watches the claim of the client that was told to stay.
type activeSlowJob struct {
	env    *Env
	hit    Hit
	first  Claim
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	since   time.Time // of the hold
	last    time.Time // when the claim was seen last as it was first
	renewed int
	latest  Claim  // the same claim, as it was seen last
	next    *Claim // another one
	err     error  // of the last look
}

func (a *activeSlowJob) watch(ctx context.Context) {
	defer close(a.done)
	tick := time.NewTicker(stayEvery)
	defer tick.Stop()
	a.mu.Lock()
	a.since, a.last, a.latest = time.Now(), time.Now(), a.first
	a.mu.Unlock()
	for {
		before := time.Now()
		now, err := a.env.Stay(ctx, a.hit.Key)
		if a.saw(now, err, before) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// saw notes a look that began at an instant; over: somebody else has it.
func (a *activeSlowJob) saw(now Claim, err error, began time.Time) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.err = err; {
	case err != nil: // another fault may keep the nodes from answering
	case now.same(a.first):
		a.last = began
		if now.Written.After(a.latest.Written) {
			a.renewed++
		}
		a.latest = now
	default:
		a.next = &now
	}
	return a.next != nil
}

// Probe: the client had it when it was hit, and had it, by the rows, until its hold was
// over, or until its claim had run out.
func (a *activeSlowJob) Probe(ctx context.Context) Evidence {
	a.cancel()
	<-a.done
	who, what := a.hit.Proc, a.hit.Key
	switch {
	case a.env.Stay == nil:
		return Evidence{Text: fmt.Sprintf("nobody but %s itself can tell that it stayed in %s", who, what)}
	case a.first.By == "" || !a.first.Anonymous && a.first.By != who:
		return Evidence{Text: fmt.Sprintf("%s was hit inside %s, which the rows say %s had", who, what, cmp.Or(a.first.By, "nobody"))}
	}
	kept := a.last.Sub(a.since)
	text := fmt.Sprintf("%s had %s under token %d when it was hit, and by the rows for %.1f s of the %.1f s for which it was to stay, with %d renewals",
		who, what, a.first.Token, kept.Seconds(), a.hit.Hold.Seconds(), a.renewed)
	switch next := a.next; {
	case kept >= a.hit.Hold-2*stayEvery:
		return Evidence{Proven: true, Text: text}
	case next == nil:
		return Evidence{Text: fmt.Sprintf("%s; then the rows could not be read (%s)", text, firstLine(a.err))}
	case a.first.Anonymous && a.first.TTL > 0 && kept >= a.first.TTL:
		return Evidence{Proven: true, Text: text + "; by then its lease had run out"}
	case a.latest.TTL > 0 && next.By != "" && next.Written.Sub(a.latest.Written) >= a.latest.TTL-a.latest.TTL/50:
		return Evidence{Proven: true, Text: fmt.Sprintf("%s; it never gave it back: %s took it over %.1f s after the last renewal, when the lease had run out", text, next.By, next.Written.Sub(a.latest.Written).Seconds())}
	}
	return Evidence{Text: fmt.Sprintf("%s; then %s had it: it did not stay", text, cmp.Or(a.next.By, "nobody"))}
}

func (a *activeSlowJob) Heal(context.Context) error {
	a.cancel()
	<-a.done
	return nil
}
