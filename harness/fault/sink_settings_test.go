package fault

import (
	"context"
	"testing"
	"time"

	"fencepost/harness/target/sinks"
)

// office is an administrator's, of a server that does what it is told, but for what is said here.
type office struct {
	cancelled int           // statements, while the table is crowded and the limit is set
	held      time.Duration // the table, at the longest
	pinned    string        // the level at which workers decide whatever the default is; "": the default
	deaf      bool          // new sessions get a setting, open ones do not
	stays     bool          // what is set is not taken back
	idle      bool          // nobody decides
	crowds    bool          // the table stays crowded

	settings        map[string]string
	crowded         bool
	watched, closed bool
}

func (o *office) value(setting string) string {
	if v := o.settings[setting]; v != "" {
		return v
	}
	return map[string]string{"statement_timeout": "0", "default_transaction_isolation": "read committed"}[setting]
}

func (o *office) Set(setting, value string) error {
	if o.settings == nil {
		o.settings = map[string]string{}
	}
	if value != "" || !o.stays {
		o.settings[setting] = value
	}
	return nil
}

func (o *office) Shown(_ context.Context, setting string) (open, fresh string, err error) {
	fresh = o.value(setting)
	if open = fresh; o.deaf {
		open = (&office{}).value(setting)
	}
	return open, fresh, nil
}

func (o *office) Crowd(time.Duration) error { o.crowded = true; return nil }
func (o *office) Clear() error              { o.crowded = o.crowds; return nil }

func (o *office) Crowded(context.Context) (bool, time.Duration, error) { return o.crowded, o.held, nil }

func (o *office) Cancelled() (int, error) {
	if o.crowded && o.value("statement_timeout") != "0" {
		return o.cancelled, nil
	}
	return 0, nil
}

func (o *office) Watch(context.Context) error { o.watched = true; return nil }

func (o *office) Decisions() (map[sinks.Isolation]int, error) {
	if o.idle || !o.watched {
		return nil, nil
	}
	of := sinks.Isolation{Default: o.value("default_transaction_isolation"), Level: o.pinned}
	if o.deaf {
		of.Default = "read committed"
	}
	if of.Level == "" {
		of.Level = of.Default
	}
	return map[sinks.Isolation]int{of: 4}, nil
}

func (o *office) Close() { o.closed = true }

// A setting counts as changed only if sessions show it and the sessions of others run into it, and
// as healed only if both are over.
func TestSettingsOfTheSinkMustProveThemselves(t *testing.T) {
	t.Parallel()
	limit := Spec{Fault: "sink-statement-timeout"}
	level := Spec{Fault: "sink-isolation", Isolation: "serializable"}
	const (
		noLimit   = "statement_timeout is 0 in a session that was open before, 0 in a new one"
		committed = "default_transaction_isolation is read committed in a session that was open before, read committed in a new one"
	)
	for name, c := range map[string]struct {
		spec   Spec
		office office
		inert  bool
		proofs
	}{
		"limited":                     {limit, office{cancelled: 3, held: tableHeld}, false, proofs{true, "it ended 3 statements of others, by its log", true, noLimit}},
		"nothing is ended":            {limit, office{held: tableHeld}, false, proofs{false, "it ended 0 statements", true, noLimit}},
		"their own limit may be it":   {limit, office{cancelled: 3, held: ownLimits}, false, proofs{false, "the table was held for 1s at the longest", true, noLimit}},
		"open sessions have no limit": {limit, office{cancelled: 3, deaf: true}, false, proofs{false, "statement_timeout is 0 in a session that was open before, 200ms in a new one", true, noLimit}},
		"the limit stays":             {limit, office{cancelled: 3, stays: true}, false, proofs{true, "", false, "statement_timeout is 200ms in"}},
		"the table stays crowded":     {limit, office{cancelled: 3, crowds: true}, false, proofs{true, "", false, "the table is free again: false"}},
		"no limit was set":            {limit, office{cancelled: 3}, true, proofs{false, noLimit, true, noLimit}},

		"another level":           {level, office{}, false, proofs{true, "others made 4 decisions with that default, 0 with another; 4 at serializable", true, committed}},
		"workers name their own":  {level, office{pinned: "read committed"}, false, proofs{true, "others made 4 decisions with that default, 0 with another; 4 at read committed", true, committed}},
		"nobody decides":          {level, office{idle: true}, false, proofs{false, "others made 0 decisions", false, "others made 0 decisions"}},
		"open sessions as before": {level, office{deaf: true}, false, proofs{false, "others made 0 decisions with that default, 4 with another", true, committed}},
		"the level stays":         {level, office{stays: true}, false, proofs{true, "", false, "default_transaction_isolation is serializable in"}},
		"no level was set":        {level, office{}, true, proofs{false, committed, true, committed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &c.office
			env := (&Env{Admin: func(context.Context) (sinks.Admin, error) { return o, nil }}).Ready()
			if c.inert {
				env.Inert = FamilyRows
			}
			c.spec.Targets = []string{SinkTarget}
			mustProve(t, env, c.spec, 0, c.proofs)
			if !o.closed {
				t.Error("the administrator's sessions are left open")
			}
		})
	}
	for name, c := range map[string]struct {
		spec Spec
		env  *Env
	}{
		"no database": {limit, &Env{}},
		"as it is": {level, &Env{Admin: func(context.Context) (sinks.Admin, error) {
			return &office{settings: map[string]string{"default_transaction_isolation": "serializable"}}, nil
		}}},
		"crowded already": {limit, &Env{Admin: func(context.Context) (sinks.Admin, error) { return &office{crowded: true}, nil }}},
	} {
		c.spec.Targets = []string{SinkTarget}
		f, err := New(c.spec)
		must(t, err)
		if _, err := f.Inject(t.Context(), c.env.Ready(), nil); err == nil {
			t.Errorf("%s: it was put in force", name)
		}
	}
	for _, isolation := range []string{"", "read committed", "chaos"} {
		if _, err := New(Spec{Fault: "sink-isolation", Isolation: isolation, Targets: []string{SinkTarget}}); err == nil {
			t.Errorf("isolation %q is none to change to", isolation)
		}
	}
}
