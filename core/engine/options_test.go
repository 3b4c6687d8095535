package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"fencepost/core/store"
)

func optionsOf(change func(*Options)) (Options, error) {
	o := Options{Name: "w", Queues: []Queue{{"q", 1}}, Executor: struct{ Executor }{}}
	change(&o)
	return o.withDefaults()
}

// TestDefaults are those that the documentation names.
func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := optionsOf(func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want any }{
		"TTL":             {o.TTL.String(), "6s"},
		"RequestTimeout":  {o.RequestTimeout.String(), "1s"},
		"DriftBound":      {o.DriftBound, 0.01},
		"MarginBase":      {o.MarginBase.String(), "100ms"},
		"the margin":      {o.margin().String(), "220ms"},
		"Rank":            {o.Rank(store.ShardID{}), 0},
		"DrainTimeout":    {o.DrainTimeout.String(), "30s"},
		"MaxOps":          {o.MaxOps, 100},
		"MaxRunning":      {o.MaxRunning, 100},
		"MaxWaiting":      {o.MaxWaiting, 1000},
		"MaxBytes":        {o.MaxBytes, 1_048_576},
		"MaxWait":         {o.MaxWait.String(), "1s"},
		"MaxOverdue":      {o.MaxOverdue.String(), "30s"},
		"MaxPending":      {o.MaxPending, 100_000},
		"MaxPendingBytes": {o.MaxPendingBytes, 268_435_456},
		"Horizon":         {o.Horizon.String(), "1m0s"},
		"MaxLoaded":       {o.MaxLoaded, 10_000},
		"PageSize":        {o.PageSize, 200},
		"InboxPoll":       {o.InboxPoll.String(), "1s"},
		"TrimEvery":       {o.TrimEvery, 100},
		"DedupeWindow":    {o.DedupeWindow.String(), "24h0m0s"},
		"LateAfter":       {o.LateAfter.String(), "4s"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
	first, second := o.NewID(), o.NewID()
	if o.Clock == nil || o.Wall == nil || o.Rand == nil || o.Logger == nil || first == second {
		t.Error("a process without a clock, chance, a logger or ids of its own")
	}
}

// TestOptionsAtTheirLimits: the least and the most are taken, and nothing beyond. Of what has 1
// for its least, 0 asks for the default.
func TestOptionsAtTheirLimits(t *testing.T) {
	t.Parallel()
	type set = func(o *Options, n int)
	for name, c := range map[string]struct {
		set          set
		taken, wrong []int
	}{
		"MaxOps":          {func(o *Options, n int) { o.MaxOps = n }, []int{8, 128}, []int{7, 129}},
		"MaxBytes":        {func(o *Options, n int) { o.MaxBytes = n }, []int{4096, 1 << 20}, []int{4095, 1<<20 + 1}},
		"MaxRunning":      {func(o *Options, n int) { o.MaxRunning = n }, []int{1}, []int{-1}},
		"MaxWaiting":      {func(o *Options, n int) { o.MaxWaiting = n }, []int{1}, []int{-1}},
		"MaxLoaded":       {func(o *Options, n int) { o.MaxLoaded = n }, []int{1}, []int{-1}},
		"MaxPending":      {func(o *Options, n int) { o.MaxPending = n }, []int{1}, []int{-1}},
		"MaxPendingBytes": {func(o *Options, n int) { o.MaxPendingBytes = n }, []int{1}, []int{-1}},
		"PageSize":        {func(o *Options, n int) { o.PageSize = n }, []int{1}, []int{-1}},
		"TrimEvery":       {func(o *Options, n int) { o.TrimEvery = n }, []int{1}, []int{-1}},
		"Shards":          {func(o *Options, n int) { o.Queues[0].Shards = n }, []int{1}, []int{0}},
		"MaxWait, in µs":  {func(o *Options, n int) { o.MaxWait = time.Duration(n) * time.Microsecond }, []int{1000}, []int{999}},
		"MaxOverdue, in µs": {func(o *Options, n int) { o.MaxOverdue = time.Duration(n) * time.Microsecond },
			[]int{1000}, []int{999}},
		"Horizon, in µs": {func(o *Options, n int) { o.Horizon = time.Duration(n) * time.Microsecond }, []int{2000}, []int{1999}},
		"DedupeWindow, in µs": {func(o *Options, n int) { o.DedupeWindow = time.Duration(n) * time.Microsecond },
			[]int{1000}, []int{999}},
	} {
		for ok, values := range map[bool][]int{true: c.taken, false: c.wrong} {
			for _, n := range values {
				if _, err := optionsOf(func(o *Options) { c.set(o, n) }); (err == nil) != ok {
					t.Errorf("%s of %d: %v", name, n, err)
				}
			}
		}
	}
}

// TestJittered: pauses are up to an eighth longer than asked for, so that contenders part.
func TestJittered(t *testing.T) {
	t.Parallel()
	s := &shard{rnd: rand.New(rand.NewPCG(1, 2))}
	seen := map[time.Duration]bool{}
	for range 1000 {
		seen[s.jittered(80)] = true
	}
	if len(seen) != 11 || !seen[80] || !seen[90] {
		t.Errorf("a pause of 80 takes one of %v", seen)
	}
}
