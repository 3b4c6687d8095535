package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
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

// Kind is what an arm does over and over.
type Kind string

// The kinds of arms.
const (
	// KindCAS is the ceiling: the lock row's own conditional update through
	// the store, with no lock client above it. A thread whose update is
	// rejected retries at once with the row that came back.
	KindCAS Kind = "cas"
	// KindWrite is a plain write at QUORUM of a row with the same columns.
	KindWrite Kind = "write"
	// KindLock is acquire and release by core/lock.
	KindLock Kind = "lock"
)

// Changes is how many changes of a row one operation makes when nothing gets in
// its way. Ratios compare changes, so that a lock cycle, which must change its
// row twice, is measured by the ceiling of two updates.
func (k Kind) Changes() float64 {
	if k == KindLock {
		return 2
	}
	return 1
}

// Arm is one thing that is measured, with one setting.
type Arm struct {
	ID      string // "L/32/6s"; unique in a plan
	Kind    Kind
	Threads int
	TTL     time.Duration // of locks
	// Control is the arm that this is a copy of, "" for none: their ratio is
	// what the machine's noise makes of two equal things.
	Control string
	// Ceiling is the bare CAS with as many threads; "" for itself.
	Ceiling string
}

// Letter is the arm's short name: C, W, L, L2.
func (a Arm) Letter() string {
	switch {
	case a.Kind == KindCAS:
		return "C"
	case a.Kind == KindWrite:
		return "W"
	case a.Control != "":
		return "L2"
	}
	return "L"
}

// Name is what a person calls the arm.
func (a Arm) Name() string {
	switch {
	case a.Kind == KindCAS:
		return "bare LWT"
	case a.Kind == KindWrite:
		return "plain write"
	case a.Control != "":
		return "lock cycle, A/A copy"
	}
	return "lock cycle"
}

// Defaults of Config.
const (
	DefaultRounds = 8
	DefaultWindow = 2 * time.Second
	MinRounds     = 5
)

// DefaultThreads and DefaultTTLs are the axes.
var (
	DefaultThreads = []int{1, 8, 32}
	DefaultTTLs    = []time.Duration{6 * time.Second, 30 * time.Second}
)

// Config is what to measure.
type Config struct {
	Contention Contention      `json:"contention"`
	Threads    []int           `json:"threads"`   // default 1, 8, 32
	TTLs       []time.Duration `json:"ttls_ns"`   // default 6 s, 30 s; the control copies the first
	Rounds     int             `json:"rounds"`    // default 8, at least 5
	Window     time.Duration   `json:"window_ns"` // of an arm in a round; default 2 s
	Seed       uint64          `json:"seed"`
}

// maxThreads bounds one process's clients; beyond it the client machine is what
// is measured.
const maxThreads = 1024

func (c Config) withDefaults() (Config, error) {
	if len(c.Threads) == 0 {
		c.Threads = DefaultThreads
	}
	if len(c.TTLs) == 0 {
		c.TTLs = DefaultTTLs
	}
	if c.Rounds == 0 {
		c.Rounds = DefaultRounds
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	switch {
	case !slices.Contains(Contentions(), c.Contention):
		return c, fmt.Errorf("unknown contention %q", string(c.Contention))
	case c.Rounds < MinRounds:
		return c, fmt.Errorf("%d rounds: at least %d are needed for a spread that means something", c.Rounds, MinRounds)
	case c.Window < 100*time.Millisecond:
		return c, fmt.Errorf("an arm of %s: use at least 100ms, and about 2s for numbers to quote", c.Window)
	}
	for i, n := range c.Threads {
		if n < 1 || n > maxThreads {
			return c, fmt.Errorf("%d threads: use 1 to %d", n, maxThreads)
		}
		if slices.Contains(c.Threads[:i], n) {
			return c, fmt.Errorf("%d threads are named twice", n)
		}
	}
	for i, ttl := range c.TTLs {
		if ttl < time.Second {
			return c, fmt.Errorf("ttl %s: use at least 1s, shorter leases expire in a collector's pause", ttl)
		}
		if slices.Contains(c.TTLs[:i], ttl) {
			return c, fmt.Errorf("ttl %s is named twice", ttl)
		}
	}
	return c, nil
}

// Plan is what is done in which order. It is drawn from the seed alone.
type Plan struct {
	Config
	Arms []Arm
	// Order holds, for each round, indexes into Arms in the order of that round.
	// Order[0] is the rehearsal: all arms once, shortened, and not counted.
	Order [][]int
}

// NewPlan lays out the arms and draws the order.
//
// Within a round all arms of one number of threads run one after the other, in
// random order, and so do the numbers of threads: what is compared with each
// other is then seconds apart, not half a minute.
func NewPlan(c Config) (*Plan, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Plan{Config: c}
	var groups [][]int
	for _, n := range c.Threads {
		var group []int
		add := func(a Arm) {
			a.Threads = n
			group = append(group, len(p.Arms))
			p.Arms = append(p.Arms, a)
		}
		ceiling := fmt.Sprintf("C/%d", n)
		add(Arm{ID: ceiling, Kind: KindCAS})
		add(Arm{ID: fmt.Sprintf("W/%d", n), Kind: KindWrite, Ceiling: ceiling})
		for _, ttl := range c.TTLs {
			add(Arm{ID: fmt.Sprintf("L/%d/%s", n, ttl), Kind: KindLock, TTL: ttl, Ceiling: ceiling})
		}
		ttl := c.TTLs[0]
		add(Arm{ID: fmt.Sprintf("L2/%d/%s", n, ttl), Kind: KindLock, TTL: ttl, Ceiling: ceiling, Control: fmt.Sprintf("L/%d/%s", n, ttl)})
		groups = append(groups, group)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	for range c.Rounds + 1 {
		var order []int
		for _, g := range rng.Perm(len(groups)) {
			for _, i := range rng.Perm(len(groups[g])) {
				order = append(order, groups[g][i])
			}
		}
		p.Order = append(p.Order, order)
	}
	return p, nil
}

// Arm returns the arm of that ID.
func (p *Plan) Arm(id string) (Arm, error) {
	for _, a := range p.Arms {
		if a.ID == id {
			return a, nil
		}
	}
	return Arm{}, errors.New("no arm " + id)
}

// rehearsal is the part of the window that an arm gets in round 0.
const rehearsal = 4

// Estimate is about how long the plan takes, without warm-up.
func (p *Plan) Estimate() time.Duration {
	const between = 100 * time.Millisecond // first operations, draining
	n := time.Duration(len(p.Arms))
	return n * (p.Window/rehearsal + between + time.Duration(p.Rounds)*(p.Window+between))
}
