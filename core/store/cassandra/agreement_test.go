package cassandra

import (
	"errors"
	"strings"
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

// TestMisfit: which existing keyspaces carry which agreement.
func TestMisfit(t *testing.T) {
	t.Parallel()
	type replication = map[string]string
	simple := func(n string) replication {
		return replication{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": n}
	}
	byDC := func(dcs ...string) replication {
		r := replication{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy"}
		for i := 0; i < len(dcs); i += 2 {
			r[dcs[i]] = dcs[i+1]
		}
		return r
	}
	two := map[string]int{"dc1": 3, "dc2": 3}
	one := map[string]int{"dc1": 3}
	for name, c := range map[string]struct {
		replication replication
		local       string // data centre; "": SERIAL
		nodes       map[string]int
		want        string // "": it fits
	}{
		"one data centre":                        {byDC("dc1", "3"), "", one, ""},
		"simple":                                 {simple("3"), "", one, ""},
		"simple over two data centres":           {simple("3"), "", two, ""},
		"a single node":                          {simple("1"), "", map[string]int{"dc1": 1}, ""},
		"both":                                   {byDC("dc1", "3", "dc2", "3"), "", two, ""},
		"local":                                  {byDC("dc1", "3"), "dc1", two, ""},
		"local, both have replicas":              {byDC("dc1", "3", "dc2", "3"), "dc1", two, ""},
		"local, the other one's nodes are few":   {byDC("dc1", "3", "dc2", "9"), "dc1", two, ""},
		"more replicas than nodes, yet a quorum": {simple("3"), "", map[string]int{"dc1": 2}, ""},
		"local and simple":                       {simple("3"), "dc1", two, "knows no data centres"},
		"local, replicas elsewhere":              {byDC("dc2", "3"), "dc1", two, "no replica in data centre dc1"},
		"local, no replicas here":                {byDC("dc1", "0", "dc2", "3"), "dc1", two, "no replica in data centre dc1"},
		"no quorum":                              {simple("5"), "", map[string]int{"dc1": 2}, "no quorum"},
		"no quorum over both":                    {byDC("dc1", "3", "dc3", "3"), "", two, "no quorum"},
		"no quorum in the local one":             {byDC("dc1", "7", "dc2", "3"), "dc1", two, "no quorum"},
		"transient replicas":                     {byDC("dc1", "3/1"), "", one, "transient"},
		"another class":                          {replication{"class": "EverywhereStrategy"}, "", one, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Serial: Serial}
			if c.local != "" {
				cfg = Config{Serial: LocalSerial, Consistency: LocalQuorum, LocalDC: c.local}
			}
			problem, remedy := misfit(c.replication, true, cfg, c.nodes)
			if c.want == "" && problem != "" || !strings.Contains(problem, c.want) || (problem == "") != (remedy == "") {
				t.Errorf("%q, %q, want %q", problem, remedy, c.want)
			}
			if problem, _ := misfit(c.replication, false, cfg, c.nodes); !strings.Contains(problem, "durable_writes") {
				t.Errorf("without durable writes: %q", problem)
			}
		})
	}
}

// TestVersions: which programs may use which keyspaces.
func TestVersions(t *testing.T) {
	t.Parallel()
	if known.version() != SchemaVersion {
		t.Errorf("%d upgrades are known, and SchemaVersion is %d", len(known), SchemaVersion)
	}
	own := map[string]string{settingAgreement: "SERIAL"}
	for _, c := range []struct {
		name            string
		known           int // version
		version, oldest string
		refused         bool
	}{
		{"none yet", 1, "", "", false},
		{"the same", 2, "2", "", false},
		{"older", 3, "1", "", false},
		{"newer, and what was added need not be known", 1, "3", "", false},
		{"newer, with a break that is known", 2, "3", "2", false},
		{"newer, with a break", 2, "3", "3", true},
		{"newer, with a break before", 1, "3", "2", true},
		{"being upgraded with a break", 1, "1", "2", true},
		{"no number", 1, "one", "", true},
		{"no number", 1, "2", "two", true},
		{"negative", 1, "-1", "", true},
	} {
		err := make(knowledge, c.known-1).agree("k", map[string]string{settingVersion: c.version, settingOldest: c.oldest}, own)
		var e *VersionError
		if errors.As(err, &e) != c.refused || c.refused && (e.Known != c.known || !strings.Contains(err.Error(), "use a newer program")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := known.agree("k", map[string]string{settingVersion: "1", settingAgreement: "LOCAL_SERIAL in a"}, own); !errors.As(err, new(*AgreementError)) {
		t.Errorf("%v", err)
	}
}
