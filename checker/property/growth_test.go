package property

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

// usageStory is a run of 4 minutes whose processes are looked at each second.
type usageStory struct {
	of    map[string]func(s int) history.Usage // by process, in each second; of a look that failed the zero value
	lasts int                                  // how many seconds the load
}

func (u usageStory) judgement() *Judgement {
	const second = int64(1e9)
	note := func(s int, op history.Op, key string, d history.Details) history.Event {
		return history.Event{TS: int64(s)*second + 1, Proc: history.Harness, Type: history.Note, Op: op, Key: key, Details: &d}
	}
	phase := func(s int, name string) history.Event {
		return note(s, history.NotePhase, "", history.Details{Phase: name})
	}
	const begin = 60
	nodes := 0
	h := &history.History{}
	for key := range u.of {
		if history.Worker(key) == key {
			nodes++
			continue
		}
		call := history.Event{TS: second, Proc: key + "/c1", ID: 1, Type: history.Invoke, Op: history.OpGet, Key: "r"}
		answer := call
		answer.Type = history.OK
		h.Events = append(h.Events, call, answer)
	}
	h.Events = append(h.Events, note(1, history.NoteExpect, "", history.Details{Expect: &history.Expect{Nodes: nodes}}), phase(1, history.PhaseWarmup))
	for s := range begin + u.lasts + 60 {
		switch s {
		case begin:
			h.Events = append(h.Events, phase(s, history.PhaseBefore))
		case begin + u.lasts/3:
			h.Events = append(h.Events, phase(s, history.PhaseFault))
		case begin + 2*u.lasts/3:
			h.Events = append(h.Events, phase(s, history.PhaseRecover))
		case begin + u.lasts:
			h.Events = append(h.Events, phase(s, history.PhaseSettle))
		}
		for key, of := range u.of {
			if usage := of(s - begin); usage != (history.Usage{}) {
				h.Events = append(h.Events, note(s, history.NoteUsage, key, history.Details{Usage: &usage}))
			}
		}
	}
	return New(h, false, "", 0)
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	flat := history.Usage{MemoryKB: 40 << 10, Descriptors: 30, Threads: 12, Goroutines: 200, StorageKB: 1 << 20}
	steady := func(int) history.Usage { return flat }
	unread := func(int) (none history.Usage) { return none }
	fds := func(of func(s int) float64) func(int) history.Usage {
		return func(s int) history.Usage {
			u := flat
			u.Descriptors = int64(of(s))
			return u
		}
	}
	sawtooth := func(s int) history.Usage {
		u := flat
		u.MemoryKB += int64(s%17) << 10
		return u
	}
	descriptors := history.Threshold{Growth: history.GrowthDescriptors, By: 10, PerHour: 30} // 12 in 4 minutes
	for _, c := range []struct {
		name  string
		story usageStory
		bound history.Threshold
		want  Status
		says  string
	}{
		{"nothing grows", usageStory{map[string]func(int) history.Usage{"w1.1": steady, "w2.1": steady}, 240}, descriptors, StatusPass, "the most of 2 workers; at most 10, and 30 an hour are allowed"},
		{"one leaks", usageStory{map[string]func(int) history.Usage{"w1.1": steady, "w2.1": fds(func(s int) float64 { return 30 + float64(max(s, 0))/10 })}, 240}, descriptors, StatusFail, "w2.1 by 23.9 ["},
		{"less than is allowed", usageStory{map[string]func(int) history.Usage{"w1.1": fds(func(s int) float64 { return 30 + float64(max(s, 0))/24 })}, 240}, descriptors, StatusPass, "w1.1 by"},
		{"grows until the load begins", usageStory{map[string]func(int) history.Usage{"w1.1": fds(func(s int) float64 { return 30 + float64(min(s, 0)) })}, 240}, descriptors, StatusPass, "by 0.0 [0.0, 0.0]"},
		{"grows when it is over", usageStory{map[string]func(int) history.Usage{"w1.1": fds(func(s int) float64 { return 30 + float64(max(s-240, 0)) })}, 240}, descriptors, StatusPass, "by 0.0"},
		{"goes up and down", usageStory{map[string]func(int) history.Usage{"w1.1": sawtooth}, 240}, history.Threshold{Growth: history.GrowthMemory, By: 16}, StatusPass, "at most 16 MB are allowed"},
		{"too uneven to say", usageStory{map[string]func(int) history.Usage{"w1.1": fds(func(int) float64 { return 500 * rng.Float64() })}, 40}, history.Threshold{Growth: history.GrowthDescriptors, By: 10}, StatusInvalid, "too short, or too uneven, to say"},
		{"was not there during the whole load", usageStory{map[string]func(int) history.Usage{"w1.1": func(s int) (u history.Usage) {
			if s > 100 {
				u = flat
			}
			return u
		}}, 240}, descriptors, StatusInvalid, "of w1 it was not read during the whole load"},
		{"too few looks", usageStory{map[string]func(int) history.Usage{"w1.1": steady}, 30}, descriptors, StatusInvalid, "of w1 it was not read"},
		{"one was not read", usageStory{map[string]func(int) history.Usage{"w1.1": steady, "w2.1": unread}, 240}, descriptors, StatusInvalid, "of w2 it was not read"},
		{"one leaks, one was not read", usageStory{map[string]func(int) history.Usage{"w1.1": unread, "w2.1": fds(func(s int) float64 { return 30 + float64(max(s, 0))/10 })}, 240}, descriptors, StatusFail, "w2.1 by"},
		{"a node was not read", usageStory{map[string]func(int) history.Usage{"n1": steady, "n2": unread}, 240}, history.Threshold{Growth: history.GrowthStorage, By: 100}, StatusInvalid, "of n2 it was not read"},
		{"nobody works", usageStory{nil, 240}, descriptors, StatusInvalid, "of any worker it was not read"},
		{"no load", usageStory{map[string]func(int) history.Usage{"w1.1": steady}, 0}, descriptors, StatusInvalid, "no phase recover"},
		{"not said", usageStory{map[string]func(int) history.Usage{"w1.1": func(int) history.Usage { return history.Usage{Descriptors: 3, Threads: 2} }}, 240}, history.Threshold{Growth: history.GrowthGoroutines, By: 10}, StatusInvalid, "of w1 it was not read"},
		{"a node's own affair", usageStory{map[string]func(int) history.Usage{"w1.1": steady, "n1": fds(func(s int) float64 { return 30 + float64(s) })}, 240}, descriptors, StatusPass, "the most of 1 worker"},
		{"a node's storage", usageStory{map[string]func(int) history.Usage{"w1.1": steady, "n1": func(s int) history.Usage {
			u := flat
			u.StorageKB += int64(s) << 10
			return u
		}}, 240}, history.Threshold{Growth: history.GrowthStorage, By: 100}, StatusFail, "n1 by 240 [240, 240]"},
	} {
		b, _ := c.story.judgement().bound(c.bound)
		if b.Status != c.want || !strings.Contains(b.Detail, c.says) {
			t.Errorf("%s: %s: %s", c.name, b.Status, b.Detail)
		}
	}
}

// TestGrowthInterval: the interval has the true slope as often as it says, for noise of any kind that has no
// memory.
func TestGrowthInterval(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	in := history.Span{To: 3.6e12}
	for name, noise := range map[string]func() float64{
		"normal": rng.NormFloat64,
		"heavy":  func() float64 { return math.Tan(math.Pi * (rng.Float64() - 0.5)) },
		"skewed": rng.ExpFloat64,
	} {
		const runs, slope = 2000, 0.7
		has := 0
		for range runs {
			means := make([]float64, growthParts)
			for i := range means {
				means[i] = slope*float64(i) + noise()
			}
			g := growthOf("w1.1", history.GrowthThreads, means, in)
			if g.Low <= slope*growthParts && g.High >= slope*growthParts {
				has++
			}
			if g.Low > g.By || g.High < g.By || g.By != g.PerHour {
				t.Fatalf("%s: %+v", name, g)
			}
		}
		if share := float64(has) / runs; share < 0.93 || share > 0.98 {
			t.Errorf("%s: %.3f of the intervals have the slope", name, share)
		}
	}
}
