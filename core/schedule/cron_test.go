package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, expr, zone string) zoned {
	t.Helper()
	z, err := Timing{Cron: expr, Zone: zone}.parse()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestBadExpressions(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{
		"", " ", "*", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 7",
		"-1 * * * *", "+1 * * * *", "*-5 * * * *", "5-1 * * * *", "*/0 * * * *", "1,,2 * * * *", ", * * * *", "1.5 * * * *", "x * * * *",
		"* * L * *", "* * 15W * *", "* * * * 5#2", "* * * jan-xyz *", "@every 5m", "@reboot", "@", "@Daily", "TZ=UTC", "TZ=UTC * * * * *",
		"CRON_TZ=Asia/Tokyo 0 0 * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0\n0 * * *", "99999999999999999999 * * * *",
	} {
		_, err := Timing{Cron: expr, Zone: "UTC"}.parse()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "cron" {
			t.Errorf("%q: %v", expr, err)
		}
	}
	for _, zone := range []string{"Local", "Nowhere/Land", "../etc/passwd", "utc+7"} {
		_, err := Timing{Cron: "@daily", Zone: zone}.parse()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "zone" {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

// list is what fires in (after, upTo], as local times.
func (z zoned) list(after, upTo int64) (out []int64) {
	for t, ok := z.next(after); ok && t <= upTo; t, ok = z.next(t) {
		out = append(out, t)
	}
	return out
}

// TestClockChanges says what people get, in words that can be read aloud: each list
// is what fires in a day around a change of the clocks.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, from, hours, expr, want string
	}{
		"Berlin, gap 02:00-03:00":              {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "30 2 * * *", "03:00+2"},
		"a time at the gap's end":              {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "0 3 * * *", "03:00+2"},
		"two in the gap and one at its end":    {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "0,30 2,3 * * *", "03:00+2 03:30+2"},
		"every half hour over the gap":         {"Europe/Berlin", "2026-03-28T23:45:00Z", "3h", "*/30 * * * *", "01:00+1 01:30+1 03:00+2 03:30+2 04:00+2 04:30+2"},
		"every half hour of the gap":           {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "*/30 2 * * *", "03:00+2"},
		"every half hour of a repeated hour":   {"Europe/Berlin", "2026-10-24T12:00:00Z", "24h", "*/30 2 * * *", "02:00+2 02:30+2"},
		"a window around the gap":              {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "*/30 1-3 * * *", "01:00+1 01:30+1 03:00+2 03:30+2"},
		"all hours, named one by one":          {"Europe/Berlin", "2026-10-24T23:45:00Z", "3h", "30 0-23 * * *", "02:30+2 02:30+1 03:30+1"},
		"Berlin, 02:00-03:00 twice":            {"Europe/Berlin", "2026-10-24T12:00:00Z", "24h", "30 2 * * *", "02:30+2"},
		"the hour that is repeated, at its 0":  {"Europe/Berlin", "2026-10-24T12:00:00Z", "24h", "0 2,3 * * *", "02:00+2 03:00+1"},
		"every half hour, twice":               {"Europe/Berlin", "2026-10-24T23:45:00Z", "3h", "*/30 * * * *", "02:00+2 02:30+2 02:00+1 02:30+1 03:00+1 03:30+1"},
		"hourly, twice":                        {"Europe/Berlin", "2026-10-24T22:45:00Z", "4h", "@hourly", "01:00+2 02:00+2 02:00+1 03:00+1"},
		"every second hour, twice":             {"Europe/Berlin", "2026-10-24T20:45:00Z", "8h", "0 */2 * * *", "00:00+2 02:00+2 02:00+1 04:00+1"},
		"New York, gap":                        {"America/New_York", "2026-03-08T00:00:00Z", "24h", "15 2 * * *", "03:00-4"},
		"New York, twice":                      {"America/New_York", "2026-11-01T00:00:00Z", "24h", "30 1 * * *", "01:30-4"},
		"Ho Chi Minh, nothing ever":            {"Asia/Ho_Chi_Minh", "2026-03-28T12:00:00Z", "24h", "30 2 * * *", "02:30+7"},
		"half an hour: Lord Howe, gap":         {"Australia/Lord_Howe", "2026-10-03T10:00:00Z", "24h", "15 2 * * *", "02:30+11"},
		"half an hour: Lord Howe, twice":       {"Australia/Lord_Howe", "2026-04-04T10:00:00Z", "24h", "45 1 * * *", "01:45+11"},
		"midnight missing: Cairo":              {"Africa/Cairo", "2026-04-23T12:00:00Z", "24h", "@daily", "01:00+3"},
		"midnight missing: Sao Paulo":          {"America/Sao_Paulo", "2017-10-14T12:00:00Z", "24h", "0 0 15 10 *", "01:00-2"},
		"a day missing: Apia":                  {"Pacific/Apia", "2011-12-29T12:00:00Z", "72h", "0 9 * * *", "09:00-10 00:00+14 09:00+14 09:00+14"},
		"a whole hour given twice to two jobs": {"Europe/Berlin", "2026-10-24T12:00:00Z", "24h", "0 1-4 * * *", "01:00+2 02:00+2 03:00+1 04:00+1"},
		"every second of a missing minute":     {"Europe/Berlin", "2026-03-28T12:00:00Z", "24h", "* 30 2 * * *", "03:00+2"},
		"asked when the hour is repeated":      {"Europe/Berlin", "2026-10-25T01:15:00Z", "1h", "0,1,59 0,59 2,3 * * *", "03:00+1 03:00+1 03:00+1"},
		"the last second before the gap":       {"Europe/Berlin", "2026-03-29T00:30:00Z", "2h", "59 59 * * * *", "01:59+1 03:59+2"},
		"the first of two seconds after it":    {"Europe/Berlin", "2026-03-29T00:30:00Z", "1h", "0,1 0 * * * *", "03:00+2 03:00+2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			hours, _ := time.ParseDuration(c.hours)
			z := mustParse(t, c.expr, c.zone)
			var got []string
			for _, at := range z.list(from.Unix(), from.Add(hours).Unix()) {
				s := time.Unix(at, 0).In(z.zone).Format("15:04-07")
				got = append(got, strings.NewReplacer("+0", "+", "-0", "-").Replace(s))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%s fires at %s, want %s", c.expr, g, c.want)
			}
			if n := z.count(from.Unix(), from.Add(hours).Unix()); n != int64(len(got)) {
				t.Errorf("%s fires at %s, counted are %d", c.expr, got, n)
			}
		})
	}
}

// TestFieldsOfDays: both days restricted is either of them.
func TestFieldsOfDays(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"0 0 13 * fri":       "02-06 02-13 02-20 02-27",
		"0 0 13,14 * fri":    "02-06 02-13 02-14 02-20 02-27",
		"0 0 13 * *":         "02-13",
		"0 0 * * fri":        "02-06 02-13 02-20 02-27",
		"0 0 ? feb sun":      "02-01 02-08 02-15 02-22",
		"0 0 29 2 *":         "",
		"0 0 1-31/10 * *":    "02-01 02-11 02-21",
		"5 0 0 28 * *":       "02-28",
		"0 0 28-30 1-3 *":    "02-28",
		"0 0 27/1 FEB,mar *": "02-27 02-28",
		"@weekly":            "02-01 02-08 02-15 02-22",
		"@monthly":           "02-01",
		"@yearly":            "",
	} {
		from := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
		var got []string
		for _, at := range mustParse(t, expr, "UTC").list(from.Unix()-1, from.AddDate(0, 1, 0).Unix()-1) {
			got = append(got, time.Unix(at, 0).UTC().Format("01-02"))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: %s, want %s", expr, g, want)
		}
	}
	leap, ok := mustParse(t, "0 0 29 2 *", "UTC").next(time.Date(2096, 2, 29, 0, 0, 0, 0, time.UTC).Unix())
	if want := time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC); !ok || leap != want.Unix() {
		t.Errorf("the leap day after 2096: %v, %v", time.Unix(leap, 0).UTC(), ok)
	}
}

// TestParsedLikeItsLibrary compares with the library's own search, in a zone without
// changes.
func TestParsedLikeItsLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := expressions().Draw(t, "expression")
		theirs, err := parser.Parse("CRON_TZ=Asia/Ho_Chi_Minh " + e.text)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := Timing{Cron: e.text, Zone: "Asia/Ho_Chi_Minh"}.parse()
		at := time.Unix(rapid.Int64Range(1e9, 4e9).Draw(t, "from"), 0)
		if never := theirs.Next(at).IsZero(); err != nil {
			if !never {
				t.Fatalf("%q: %v", e.text, err)
			}
			return
		}
		for range 20 {
			want := theirs.Next(at)
			got, ok := ours.next(at.Unix())
			if want.IsZero() { // it looks no further than five years
				return
			}
			if !ok || got != want.Unix() {
				t.Fatalf("%q after %s: %s, want %s", e.text, at.UTC(), time.Unix(got, 0).UTC(), want.UTC())
			}
			at = want
		}
	})
}
