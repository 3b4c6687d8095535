package cassandra

import (
	"errors"
	"testing"
	"time"

	"fencepost/core/store"
)

// TestAgreementIsCompared: what is found near by or, if nothing is, everywhere.
func TestAgreementIsCompared(t *testing.T) {
	t.Parallel()
	const one, two = LocalSerial + " in dc1", LocalSerial + " in dc2"
	for name, c := range map[string]struct {
		dc               string // "": SERIAL
		near, everywhere string
		looks            int
		found            string // by which it is refused
		refused          bool
	}{
		"the same":                              {"dc1", one, one, 1, "", false},
		"the same, not here yet":                {"dc1", "", one, 2, "", false},
		"of another data centre":                {"dc2", one, one, 1, one, true},
		"of another, not here yet":              {"dc2", "", one, 2, one, true},
		"of all data centres":                   {"dc2", Serial, Serial, 1, Serial, true},
		"of one data centre, and own is of all": {"", "", two, 2, two, true},
		"of all, and own is":                    {"", Serial, Serial, 1, "", false},
		"unsettled, and own is of all":          {"", "", "", 2, "", false},
		"unsettled, and own is local":           {"dc1", "", "", 2, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Keyspace: "k", Serial: Serial, LocalDC: c.dc}
			if c.dc != "" {
				cfg.Serial = LocalSerial
			}
			d, now, looks := newDomain(cfg), time.Unix(1000, 0), 0
			d.now = func() time.Time { return now }
			look := func(everywhere bool) (string, error) {
				looks++
				if everywhere {
					return c.everywhere, nil
				}
				return c.near, nil
			}
			err := d.check(look)
			var e *AgreementError
			if errors.As(err, &e) != c.refused || looks != c.looks || c.refused && (e.Found != c.found || !store.IsPermanent(err) || store.OutcomeOf(err) != store.Fail) {
				t.Fatalf("after %d looks: %v", looks, err)
			}
			if c.refused {
				return
			}
			// What is settled is not looked for again; what is not, after a while.
			if err := d.check(look); err != nil || looks != c.looks {
				t.Errorf("after %d looks: %v", looks, err)
			}
			now = now.Add(unsettledFor)
			c.near = two
			settled := c.everywhere != ""
			if err := d.check(look); (err == nil) != settled || (looks == c.looks) != settled {
				t.Errorf("later, after %d looks: %v", looks, err)
			}
		})
	}
}

// TestUnansweredAgreement: nothing conditional is sent before the agreement is known.
func TestUnansweredAgreement(t *testing.T) {
	t.Parallel()
	d := newDomain(Config{Keyspace: "k", Serial: Serial})
	lost := &store.Error{Outcome: store.Unknown, Cause: errors.New("no answer")}
	if err := d.check(func(bool) (string, error) { return "", lost }); store.OutcomeOf(err) != store.Fail || store.IsPermanent(err) || !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
	if err := d.check(func(bool) (string, error) { return Serial, nil }); err != nil {
		t.Error(err)
	}
	if err := newDomain(Config{Serial: Serial}).check(nil); err != nil {
		t.Errorf("outside of a keyspace: %v", err)
	}
}
