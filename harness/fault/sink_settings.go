package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks"
	"fencepost/internal/choice"
)

// A statement may take statementLimit, and waits for the table for tableHeld: longer than that,
// and much shorter than any limit that workers set for themselves may be, ownLimits.
const (
	statementLimit = 200 * time.Millisecond
	tableHeld      = 2 * statementLimit
	ownLimits      = time.Second
)

func init() {
	register(Kind{
		Name: "sink-statement-timeout", On: SinkService, Family: FamilyRows,
		About: fmt.Sprintf("the sink's database ends statements of all sessions after %s (statement_timeout), and its administrator takes the sink's table "+
			"again and again for %s, so that statements wait", statementLimit, tableHeld),
		Proof: "A session of the harness's that was open before and a new one show the limit, and another before and after. " +
			"By the server's log it ended statements of others for it (SQLSTATE 57014), and the table was never held for as long as a limit of their own; " +
			"nobody has it, or waits for it, before and after.",
		Needs: Needs{Rows: true},
		Takes: history.TakesSink,
		New:   plain(sinkStatementTimeout{}),
	}, Kind{
		Name: "sink-isolation", On: SinkService, Family: FamilyRows,
		About: "transactions in the sink's database that name no isolation level have another (default_transaction_isolation), in open sessions too",
		Proof: "A session of the harness's that was open before and a new one show the level, and another before and after. " +
			"The workers' sessions, made to by a trigger on the ledger, say in the server's log that they decided with that default, " +
			"and when it is over that they decide with the one from before.",
		Params: []string{"isolation"},
		Needs:  Needs{Rows: true},
		Takes:  history.TakesNothing,
		New: func(s Spec) (Fault, error) {
			if levels := []string{"repeatable read", "serializable"}; s.Isolation != levels[0] && s.Isolation != levels[1] {
				return nil, choice.Unknown("isolation", s.Isolation, levels...)
			}
			return sinkIsolation{s.Isolation}, nil
		},
	})
}

// setting is one of the server's, which a fault changes for all sessions.
type setting struct {
	env                 *Env
	admin               sinks.Admin
	name, value, before string
	since               time.Time
}

// change opens the administrator's sessions, prepares, and sets it and does what else the fault
// does with it.
func (s *setting) change(ctx context.Context, prepare, also func() error) error {
	if s.env.Admin == nil {
		return errors.New("this run's sink is no database, so nobody can change its settings")
	}
	var err error
	if s.admin, err = s.env.Admin(ctx); err != nil {
		return err
	}
	s.since = time.Now()
	var fresh string
	s.before, fresh, err = s.admin.Shown(ctx, s.name)
	if err == nil && (s.before != fresh || s.before == s.value) {
		err = fmt.Errorf("before the fault: %s is %s in an open session, and %s in a new one", s.name, s.before, fresh)
	}
	if err == nil {
		err = prepare()
	}
	if err == nil {
		err = s.env.do(func() error {
			if err := s.admin.Set(s.name, s.value); err != nil {
				return err
			}
			_, err := s.shown(ctx, s.value)
			return errors.Join(err, also())
		})
	}
	if err != nil {
		s.admin.Close()
	}
	return err
}

// shown looks until open and new sessions show the value: they are told one after the other.
func (s *setting) shown(ctx context.Context, value string) (ev Evidence, err error) {
	err = until(ctx, func() (bool, error) {
		open, fresh, err := s.admin.Shown(ctx, s.name)
		ev = Evidence{Proven: open == value && fresh == value,
			Text: fmt.Sprintf("%s is %s in a session that was open before, %s in a new one", s.name, open, fresh)}
		return ev.Proven, err
	})
	return ev, err
}

func (s *setting) reset() error { return s.admin.Set(s.name, "") }

func unseen(err error) Evidence { return Evidence{Text: "the server does not say: " + firstLine(err)} }

type sinkStatementTimeout struct{}

func (sinkStatementTimeout) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	a := &activeStatementTimeout{setting{env: env, name: "statement_timeout", value: fmt.Sprintf("%dms", statementLimit.Milliseconds())}}
	err := a.change(ctx, func() error {
		now, _, err := a.admin.Crowded(ctx)
		if err == nil && now {
			err = errors.New("before the fault: the table is locked already")
		}
		if err == nil {
			_, err = a.admin.Cancelled() // what is older
		}
		return err
	}, func() error { return a.admin.Crowd(tableHeld) })
	if err != nil {
		return nil, err
	}
	return a, nil
}

type activeStatementTimeout struct{ setting }

func (a *activeStatementTimeout) Probe(ctx context.Context) Evidence {
	n := 0
	err := until(ctx, func() (bool, error) {
		more, err := a.admin.Cancelled()
		n += more
		return n > 0, err
	})
	var ev Evidence
	if err == nil {
		ev, err = a.shown(ctx, a.value)
	}
	_, longest, err2 := a.admin.Crowded(ctx)
	if err := errors.Join(err, err2); err != nil {
		return unseen(err)
	}
	ev.also(n > 0, "in %.1f s it ended %d statements of others, by its log", time.Since(a.since).Seconds(), n)
	ev.also(longest < ownLimits, "the table was held for %s at the longest", longest.Round(time.Millisecond))
	return ev
}

func (a *activeStatementTimeout) Heal(context.Context) error {
	return a.env.do(func() error { return errors.Join(a.admin.Clear(), a.reset()) })
}

func (a *activeStatementTimeout) After(ctx context.Context) Evidence {
	defer a.admin.Close()
	ev, err := a.shown(ctx, a.before)
	now, _, err2 := a.admin.Crowded(ctx)
	if err := errors.Join(err, err2); err != nil {
		return unseen(err)
	}
	ev.also(!now, "the table is free again: %t", !now)
	return ev
}

type sinkIsolation struct{ level string }

func (f sinkIsolation) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	a := &activeIsolation{setting{env: env, name: "default_transaction_isolation", value: f.level}}
	err := a.change(ctx, func() error { return a.admin.Watch(ctx) }, func() error {
		_, err := a.admin.Decisions() // what is older
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

type activeIsolation struct{ setting }

// decided looks until others have made decisions with this default since the last look; if
// alone, and none with another.
func (a *activeIsolation) decided(ctx context.Context, ev *Evidence, value string, alone bool) error {
	var with, without int
	levels := map[string]int{}
	err := until(ctx, func() (bool, error) {
		with, without = 0, 0
		clear(levels)
		decisions, err := a.admin.Decisions()
		for of, n := range decisions {
			if of.Default != value {
				without += n
				continue
			}
			with += n
			levels[of.Level] += n
		}
		return with > 0 && (!alone || without == 0), err
	})
	ev.also(with > 0 && (!alone || without == 0), "by the server's log others made %d decisions with that default, %d with another", with, without)
	for _, level := range slices.Sorted(maps.Keys(levels)) {
		ev.also(true, "%d at %s", levels[level], level)
	}
	return err
}

func (a *activeIsolation) Probe(ctx context.Context) Evidence {
	ev, err := a.shown(ctx, a.value)
	if err == nil {
		err = a.decided(ctx, &ev, a.value, false)
	}
	if err != nil {
		return unseen(err)
	}
	return ev
}

func (a *activeIsolation) Heal(context.Context) error { return a.env.do(a.reset) }

func (a *activeIsolation) After(ctx context.Context) Evidence {
	defer a.admin.Close()
	ev, err := a.shown(ctx, a.before)
	if err == nil {
		err = a.decided(ctx, &ev, a.before, true)
	}
	if err != nil {
		return unseen(err)
	}
	return ev
}
