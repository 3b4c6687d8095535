package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fencepost/bench"
)

// Contention is how many keys the threads share.
type Contention string

// The levels of contention.
const (
	Low    Contention = "low"    // a key a thread
	Medium Contention = "medium" // mediumKeys keys for all threads, drawn evenly
	High   Contention = "high"   // one key for all threads
)

const mediumKeys = 10

// Contentions lists the levels.
func Contentions() []Contention { return []Contention{Low, Medium, High} }

// ParseContentions reads levels with commas between.
func ParseContentions(s string) ([]Contention, error) {
	var out []Contention
	for word := range strings.SplitSeq(s, ",") {
		c := Contention(strings.TrimSpace(word))
		if !slices.Contains(Contentions(), c) {
			return nil, fmt.Errorf("unknown contention %q; there are low (a key a thread), medium (%d keys), high (one key)", word, mediumKeys)
		}
		if slices.Contains(out, c) {
			return nil, fmt.Errorf("contention %q is named twice", c)
		}
		out = append(out, c)
	}
	return out, nil
}

// Keys is the number of keys that the threads share.
func (c Contention) Keys(threads int) int {
	switch c {
	case Medium:
		return mediumKeys
	case High:
		return 1
	}
	return threads
}

// String describes the level with its number of keys.
func (c Contention) String() string {
	switch c {
	case Low:
		return "low (a key a thread)"
	case Medium:
		return fmt.Sprintf("medium (%d keys)", mediumKeys)
	case High:
		return "high (1 key)"
	}
	return string(c)
}

// keys are those of a window.
type keys struct {
	contention Contention
	names      []string
}

// keysOf are other ones in every round: which node leads a key's partition is drawn
// again, so that a slow node shows as spread, not as a difference of arms.
func keysOf(w bench.Window) keys {
	k := keys{contention: Contention(w.Arm.Contention)}
	for i := range k.contention.Keys(w.Arm.Threads) {
		k.names = append(k.names, fmt.Sprintf("%s#%d/%d", w.Arm.ID, w.Round, i))
	}
	return k
}

// of is the key of a thread's next operation.
func (k keys) of(th *bench.Thread) string {
	switch k.contention {
	case Low:
		return k.names[th.Number]
	case Medium:
		return k.names[th.Rng.IntN(len(k.names))]
	}
	return k.names[0]
}

// operator does one operation on a key.
type operator interface {
	operate(ctx context.Context, th *bench.Thread, key string, over func() bool) bench.End
	Traffic() bench.Traffic
}

// keyed is an operator on the keys of a window.
type keyed struct {
	operator
	keys keys
}

// Operate implements bench.Operator.
func (o keyed) Operate(ctx context.Context, th *bench.Thread, over func() bool) bench.End {
	return o.operate(ctx, th, o.keys.of(th), over)
}

// measure runs a window when every key has been used once: rows are there, caches are
// filled.
func measure(ctx context.Context, w bench.Window, op operator) (bench.Sample, error) {
	k := keyed{op, keysOf(w)}
	prime(ctx, w, k)
	return w.Loop(ctx, k)
}

// prime uses every key once. An operation that fails here does no harm: the
// window's own will count.
func prime(ctx context.Context, w bench.Window, k keyed) {
	ctx, cancel := context.WithTimeout(ctx, bench.DrainTimeout)
	defer cancel()
	never := func() bool { return ctx.Err() != nil }
	var wg sync.WaitGroup
	for i := range w.Arm.Threads {
		th := bench.NewThread(w.Arm, w.Round, i, w.Seed)
		wg.Go(func() {
			for n := i; n < len(k.keys.names) && ctx.Err() == nil; n += w.Arm.Threads {
				k.operate(ctx, th, k.keys.names[n], never)
			}
		})
	}
	wg.Wait()
}
