package turn

import (
	"testing"
	"time"
)

func TestToday(t *testing.T) {
	today := int(time.Now().Unix() / (24 * 60 * 60))
	for _, c := range []struct {
		turn string
		day  int
		all  bool
	}{{"20785", 20785, false}, {"0", 0, false}, {"all", today, true}, {"", today, false}} {
		t.Setenv("TURN", c.turn)
		// Midnight may come between.
		if day, all, err := Today(); err != nil || all != c.all || day != c.day && (c.day != today || day != today+1) {
			t.Errorf("TURN=%s: %d, %v, %v", c.turn, day, all, err)
		}
	}
	for _, bad := range []string{"some", "-1", "1.5"} {
		t.Setenv("TURN", bad)
		if _, _, err := Today(); err == nil {
			t.Errorf("TURN=%s is a turn", bad)
		}
	}
}

// TestEachStoreHasItsTurn: one of them on each day, and each within as many days as there are.
func TestEachStoreHasItsTurn(t *testing.T) {
	t.Parallel()
	days := map[string]int{}
	for day := range len(stores) {
		for _, s := range stores {
			if HasStore(day, s) != HasStore(day, s+"-5") {
				t.Errorf("on day %d %s has its turn without its other rows, or they without it", day, s)
			}
			if HasStore(day, s) {
				days[s]++
			}
		}
	}
	for _, s := range stores {
		if days[s] != 1 {
			t.Errorf("%s has its turn on %d of %d days", s, days[s], len(stores))
		}
	}
}

// TestEachHasItsShare: on as many days of a store as there are shares each thing has its turn once.
func TestEachHasItsShare(t *testing.T) {
	t.Parallel()
	of, days := []string{"a", "b", "c", "d", "e"}, map[string]int{}
	for day := range len(stores) * 3 {
		if HasStore(day, "redis") {
			for _, x := range Share(day, 2, of) {
				days[x]++
			}
		}
	}
	for _, x := range of {
		if days[x] != 1 {
			t.Errorf("%s has its turn on %d of %d days", x, days[x], len(of))
		}
	}
	if got := Share(7, 2, []string(nil)); len(got) > 0 {
		t.Errorf("of nothing %v have their turn", got)
	}
}
