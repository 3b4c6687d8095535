package history

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestThresholdCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t    Threshold
		want string // in the error; "" for none
	}{
		{Threshold{Latency: "lock", Quantile: "p99", Phase: "fault", MaxMS: 5}, ""},
		{Threshold{Latency: "start", Quantile: "max", Phase: "before", MaxMS: 5}, ""},
		{Threshold{Latency: "run", Quantile: "p50", Phase: "fault", TimesBefore: 1.5}, ""},
		{Threshold{Recovery: "first", MaxMS: 5}, ""},
		{Threshold{Lateness: "max", MaxMS: 5}, ""},
		{Threshold{MaxMS: 5}, "one of latency, recovery, lateness, overload and growth"},
		{Threshold{Recovery: "first", Lateness: "p99", MaxMS: 5}, "one of latency, recovery, lateness, overload and growth"},
		{Threshold{Overload: "refused", MaxMS: 5}, ""},
		{Threshold{Overload: "goodput", Least: 0.9}, ""},
		{Threshold{Overload: "goodput", MaxMS: 5}, "goodput has a least part"},
		{Threshold{Overload: "goodput", Least: 0.9, MaxMS: 5}, "goodput has a least part"},
		{Threshold{Overload: "goodput", Least: 1.1}, "goodput has a least part"},
		{Threshold{Overload: "accepted", Least: 0.9}, "goodput has a least part"},
		{Threshold{Lateness: "max", Least: 0.9}, "goodput has a least part"},
		{Threshold{Overload: "dinner", MaxMS: 5}, `overload "dinner"; it is one of goodput`},
		{Threshold{Overload: "normal", Phase: "fault", MaxMS: 5}, "belong to latency"},
		{Threshold{Growth: "memory", By: 5}, ""},
		{Threshold{Growth: "storage", By: 5, PerHour: 2}, ""},
		{Threshold{Growth: "beard", By: 5}, `growth "beard"; it is one of memory`},
		{Threshold{Growth: "memory"}, "growth has a by above 0"},
		{Threshold{Growth: "memory", PerHour: 2}, "growth has a by above 0"},
		{Threshold{Growth: "memory", By: 5, PerHour: -1}, "growth has a by above 0"},
		{Threshold{Growth: "memory", By: 5, MaxMS: 2}, "in place of a max"},
		{Threshold{Growth: "memory", By: 5, Phase: "fault"}, "belong to latency"},
		{Threshold{Lateness: "max", MaxMS: 5, By: 2}, "nothing else has one"},
		{Threshold{Lateness: "max", MaxMS: 5, PerHour: 2}, "nothing else has one"},
		{Threshold{Recovery: "last", MaxMS: 5}, `recovery "last"`},
		{Threshold{Lateness: "p95", MaxMS: 5}, `lateness "p95"`},
		{Threshold{Recovery: "first", Phase: "fault", MaxMS: 5}, "belong to latency"},
		{Threshold{Lateness: "p99", TimesBefore: 2}, "belong to latency"},
		{Threshold{Recovery: "first"}, "max of at least 1ms"},
		{Threshold{Latency: "lock", Quantile: "p99", Phase: "fault", MaxMS: 5, TimesBefore: 2}, "max of at least 1ms"},
		{Threshold{Latency: "lock", Quantile: "p99", Phase: "fault", MaxMS: -5}, "max of at least 1ms"},
		{Threshold{Latency: "lunch", Quantile: "p99", Phase: "fault", MaxMS: 5}, `latency of "lunch"; it is one of acquire, effect`},
		{Threshold{Latency: "lock", Quantile: "p98", Phase: "fault", MaxMS: 5}, `quantile "p98"`},
		{Threshold{Latency: "lock", Quantile: "p99", MaxMS: 5}, "needs a phase"},
		{Threshold{Latency: "lock", Quantile: "p99", Phase: "before", TimesBefore: 2}, "with itself"},
	} {
		err := c.t.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.t, err, c.want)
		}
	}
}

// What Check takes is what the reader takes, name by name.
func TestThresholdNames(t *testing.T) {
	t.Parallel()
	for name, known := range map[string][]string{
		"Quantile": quantiles, "Lateness": ofLateness, "Overload": ofOverload, "Growth": Growths, "Recovery": {RecoveryFirst, RecoverySlowest}, "Latency": slices.Collect(maps.Keys(timed)),
	} {
		field, _ := reflect.TypeFor[Threshold]().FieldByName(name)
		if read := strings.Fields(field.Tag.Get("of")); !sameSet(read, known) {
			t.Errorf("%s: the reader has %v, the code %v", name, read, known)
		}
	}
	for _, name := range slices.Concat(ofJobs, ofLocks) {
		th := Threshold{Latency: name}
		if timed[name] == "" || th.NeedsJobs() == th.NeedsLocks() {
			t.Errorf("%s: jobs %v, locks %v", name, th.NeedsJobs(), th.NeedsLocks())
		}
	}
}

func TestPhaseOf(t *testing.T) {
	t.Parallel()
	phases := []Span{{Name: "warmup", From: 10}, {Name: PhaseBefore, From: 20}, {Name: PhaseFault, From: 30}, {Name: "heal", From: 40}}
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{5, 6, ""}, {10, 11, "warmup"}, {20, 29, PhaseBefore}, {25, 31, PhaseFault}, {25, 0, PhaseFault}, {30, 99, PhaseFault}, {40, 41, "heal"},
	} {
		if got := PhaseOf(phases, c.from, c.to); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}
