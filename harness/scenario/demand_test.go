package scenario

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
)

func TestBound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bound{
		"8s": {Plus: 8 * time.Second}, "2.25 ttl": {TTLs: 2.25}, "1ttl": {TTLs: 1}, " 2.25 ttl + 5s ": {TTLs: 2.25, Plus: 5 * time.Second},
		"5s + 1 ttl + 250ms": {TTLs: 1, Plus: 5250 * time.Millisecond},
	} {
		var b Bound
		if err := yaml.Unmarshal([]byte(text), &b); err != nil || b != want {
			t.Errorf("%q: %+v, %v", text, b, err)
		}
		again := Bound{}
		if out, err := yaml.Marshal(b); err != nil || yaml.Unmarshal(out, &again) != nil || again != want {
			t.Errorf("%q is written as %q: %+v, %v", text, out, again, err)
		}
	}
	for _, text := range []string{"ttl", "-1 ttl", "0 ttl", "x ttl", "2 ttls", "soon", "-5s", "1 ttl - 5s", "1500us", "1 ttl +", "inf ttl"} {
		var b Bound
		if err := yaml.Unmarshal([]byte(text), &b); err == nil {
			t.Errorf("%q is read as %+v", text, b)
		}
	}
	if d := (Bound{TTLs: 2.25, Plus: time.Second}).D(6 * time.Second); d != 14500*time.Millisecond {
		t.Error(d)
	}
}

// Worst cases, in units of ttl; docs/properties.md tells of what they are made.
const (
	cycleOfLock = 1.0         // six requests, each given up once by its timeout of ttl/6
	lockGap     = 2.25        // a takeover and a cycle
	shardGap    = 2.75        // the same of a shard
	sinkGivenUp = 16          // s, before the write and at it
	reconnected = 5           // s
	lateAnswers = 1.2         // s, 2 × (400 ms + 200 ms)
	requests    = 6           // of a cycle
	forJob      = 7           // requests until a job is done
	leastRounds = time.Minute // for so long at least a fault goes on that lacks cycles
)

// gaps are the bounds that differ from lockGap and shardGap, with what they add.
var gaps = map[string]Bound{
	"latency-spike":      {TTLs: lockGap, Plus: 8 * time.Second},  // requests × lateAnswers, rounded up
	"jobs-latency-spike": {TTLs: shardGap, Plus: 9 * time.Second}, // forJob × lateAnswers
	"flaky-links":        {TTLs: lockGap, Plus: sinkGivenUp * time.Second},
	"swarm":              {TTLs: lockGap, Plus: sinkGivenUp * time.Second},
	"jobs-swarm":         {TTLs: shardGap, Plus: sinkGivenUp * time.Second},
	"sink-outage":        {TTLs: cycleOfLock, Plus: sinkGivenUp * time.Second},
	"sink-lost-replies":  {TTLs: cycleOfLock, Plus: 3 * time.Second}, // as long as answers are lost
}

// TestEveryFaultOfNodesAndLinksDemandsProgress: each shipped scenario says what must get
// done under each of its faults, by the derived bounds, and for long enough to see it.
func TestEveryFaultOfNodesAndLinksDemandsProgress(t *testing.T) {
	t.Parallel()
	if requests*lateAnswers > 8 || forJob*lateAnswers > 9 {
		t.Error("answers come later than the bounds say")
	}
	demanded := 0
	for _, name := range Names() {
		s := loaded(t, name)
		if s.Drill != "" {
			continue
		}
		var want []string
		if s.Swarm != nil {
			want = append(want, history.AnyFault)
		}
		for _, st := range s.Faults {
			if k := fault.Of(st.Fault); (k.On == fault.Node || k.Judged().Links) && !slices.Contains(want, st.Fault) {
				want = append(want, st.Fault)
			}
		}
		gap := Bound{TTLs: lockGap}
		if s.Workload.Jobs != nil {
			gap.TTLs = shardGap
		}
		recovery := Bound{gap.TTLs, reconnected * time.Second}
		if g, ok := gaps[name]; ok {
			gap = g
		}
		for _, of := range want {
			i := slices.IndexFunc(s.Expect.Progress, func(p Progress) bool { return p.Fault == of })
			if i < 0 {
				t.Errorf("%s: nothing is demanded under %s, and no reason given", name, of)
				continue
			}
			if p := s.Expect.Progress[i]; p.Exempt == "" {
				demanded++
				if err := s.seen(p, gap); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if len(s.Faults) > 0 || s.Swarm != nil {
			if name == "jobs-late-effect" {
				recovery.Plus += s.Workload.Jobs.Length.D()
			}
			bound := func(x Threshold) bool { return x.Recovery == history.RecoverySlowest && x.Max == recovery }
			if !slices.ContainsFunc(s.Expect.Thresholds, bound) {
				t.Errorf("%s: the slowest recovery is not bounded by %s", name, recovery)
			}
		}
	}
	if demanded < 20 {
		t.Errorf("%d faults with demands only", demanded)
	}
}

func loaded(t *testing.T, name string) *Spec {
	t.Helper()
	s, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keeps says that a fault keeps a lock at its holder for as long as it lasts: it strikes at
// the point effect-sent of one that holds it, and ends before the lease does.
func (s *Spec) keeps(of string) bool {
	keeps := false
	for _, st := range s.Faults {
		if st.Fault == of {
			keeps = st.On != nil && st.On.Point == "effect-sent" && st.For.D() < s.Workload.TTL.D()
			if !keeps {
				return false
			}
		}
	}
	return keeps
}

// seen says what of a demand could not be seen in a run, or does not follow from the gap.
func (s *Spec) seen(p Progress, gap Bound) error {
	if p.LongestGap != gap {
		return fmt.Errorf("the longest gap under %s is %s, derived is %s", p.Fault, p.LongestGap, gap)
	}
	longest := gap.D(s.Workload.TTL.D())
	for _, c := range []string{Low, Medium, High} {
		w := s.Workload
		w.Contention = c
		rows := w.Locks()
		if w.Jobs != nil {
			rows = w.Shards()
		}
		least, most := 1, rows*int(leastRounds/longest)
		if rows == 1 && s.keeps(p.Fault) {
			least, most = 0, 0
		}
		if p.MinCycles[c] < least || p.MinCycles[c] > most {
			return fmt.Errorf("%d cycles at %s under %s: from %d to %d are what each of %d locks or shards has in a minute of gaps",
				p.MinCycles[c], c, p.Fault, least, most, rows)
		}
	}
	if p.Fault == history.AnyFault || p.Fault == "restart-node" { // drawn; nodes that take their time to start
		return nil
	}
	from, to := time.Duration(1<<62), time.Duration(0)
	for _, st := range s.Faults {
		if st.Fault == p.Fault {
			from, to = min(from, st.At.D()), max(to, st.At.D()+st.For.D())
		}
	}
	if to-from <= longest {
		return fmt.Errorf("%s is in force for %s, and a gap may last %s", p.Fault, to-from, longest)
	}
	if s.Phases.Fault.D() < to {
		return fmt.Errorf("the fault phase of %s is shorter than %s", s.Phases.Fault.D(), to)
	}
	return nil
}
