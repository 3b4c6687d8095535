package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks"
)

func init() {
	register(Kind{
		Name: "sink-row-locks", On: SinkService, Family: FamilyRows,
		About: "a rival session in the sink's database locks the rows of all resources, and at heal commits them as they were",
		Proof: "Another session of the harness's, which takes part in nothing, finds the rows free before and after, and locked meanwhile " +
			"(FOR UPDATE NOWAIT); by the server's own table of locks at least one session of others waits for the rival.",
		Needs: Needs{Rows: true},
		Takes: history.TakesSink,
		New:   plain(sinkRowLocks{}),
	})
}

// sinkRowLocks holds the rows that the sink decides by.
type sinkRowLocks struct{}

var errNoRows = errors.New("this run's sink is no database, so nobody else can lock its rows")

func (sinkRowLocks) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Rival == nil {
		return nil, errNoRows
	}
	r, err := env.Rival(ctx)
	if err != nil {
		return nil, err
	}
	a := &activeRowLocks{env: env, rival: r, since: time.Now()}
	held, err := free(ctx, r)
	if err == nil && held {
		err = errors.New("before the fault: the rows are locked already")
	}
	if err == nil {
		err = env.do(func() (err error) {
			a.rows, err = r.Hold(ctx)
			return err
		})
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return a, nil
}

// rowsPatience is for how long rows that workers use may look locked by them, and for how long a
// worker may take to come to one.
var rowsPatience = 3 * time.Second

// free looks until the rows are free: workers lock them too, for the time of a transaction.
func free(ctx context.Context, r sinks.Rival) (held bool, err error) {
	err = until(ctx, func() (bool, error) {
		held, err = r.Held(ctx)
		return !held, err
	})
	return held, err
}

// until looks again and again until it is so or rowsPatience is over.
func until(ctx context.Context, so func() (bool, error)) error {
	for end := time.Now().Add(rowsPatience); ; {
		ok, err := so()
		if ok || err != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type activeRowLocks struct {
	env   *Env
	rival sinks.Rival
	rows  int
	since time.Time
}

// Probe asks the other session, and the server.
func (a *activeRowLocks) Probe(ctx context.Context) Evidence {
	waiting := 0
	err := until(ctx, func() (_ bool, err error) {
		waiting, err = a.rival.Waiting(ctx)
		return waiting > 0, err
	})
	if err != nil {
		return Evidence{Text: "the server does not say who waits: " + firstLine(err)}
	}
	held, err := a.rival.Held(ctx)
	if err != nil {
		return Evidence{Text: "the rows cannot be looked at: " + firstLine(err)}
	}
	ev := Evidence{Proven: held, Text: fmt.Sprintf("after %.1f s another session finds the rows of the sink locked: %t", time.Since(a.since).Seconds(), held)}
	ev.also(a.rows > 0, "the rival holds %d", a.rows)
	ev.also(waiting > 0, "by the server %d sessions of others wait for it", waiting)
	return ev
}

func (a *activeRowLocks) Heal(ctx context.Context) error {
	return a.env.do(func() error { return a.rival.Free(ctx) })
}

func (a *activeRowLocks) After(ctx context.Context) Evidence {
	defer a.rival.Close()
	held, err := free(ctx, a.rival)
	if err != nil {
		return Evidence{Text: "the rows cannot be looked at: " + firstLine(err)}
	}
	return Evidence{Proven: !held, Text: fmt.Sprintf("the rows are free again: %t", !held)}
}
