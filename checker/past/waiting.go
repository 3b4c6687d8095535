package past

import (
	"cmp"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// Wait is the time for which a client waited for a lock.
type Wait struct {
	Call     *Op // nil: a life contends for shards without being asked
	Who      string
	Life     string
	From, To int64
	TTL      int64 // of the lease that is asked for, which bounds its requests; 0: not said
}

// Waiters are a lock's waits in the order of their beginning; longest[i] is the
// latest end among the first i+1, so that a look back knows where to stop.
type Waiters struct {
	waits   []Wait
	longest []int64
}

// Waiting finds who waited for a row: the calls of a lock's clients, and for a shard
// every process that contends.
func (a *Past) Waiting(l *Row) Waiters {
	if l.Shard {
		return a.contenders(l)
	}
	w := Waiters{waits: make([]Wait, 0, len(l.Calls))}
	for _, c := range l.Calls { // in the order of invocation
		life := history.Life(c.Invoke.Proc)
		to := a.Died(life)
		if limit := c.Invoke.LimitMS() * 1e6; limit > 0 {
			to = min(to, c.Invoke.TS+limit) // nobody waits any more
		}
		if c.End != nil {
			to = c.End.TS
		}
		w.add(Wait{c, c.Invoke.Proc, life, c.Invoke.TS, to, c.Invoke.TTLMS() * 1e6})
	}
	return w
}

func (w *Waiters) add(x Wait) {
	longest := x.To
	if n := len(w.longest); n > 0 {
		longest = max(w.longest[n-1], x.To)
	}
	w.waits, w.longest = append(w.waits, x), append(w.longest, longest)
}

// contenders are the lives that take any shard that nobody keeps: those of the
// workers that took one in any of their lives. Each contends from its first take, or
// else its first event, until it ends, until it hands a shard over (which it does only when it
// stops), or until the run tells its processes to stop. After a take without an answer it begins
// again.
func (a *Past) contenders(l *Row) Waiters {
	tries := map[string][]int64{} // ends of such takes, by life
	for _, c := range l.CAS {
		if c.Kind() == history.OpTake && c.End != nil && c.Outcome != history.OK && (c.Shown == nil || c.Shown == c.From) {
			life := history.Life(c.Invoke.Proc)
			tries[life] = append(tries[life], c.End.TS)
		}
	}
	var waits []Wait
	for _, x := range a.shardLives {
		ends := tries[x.Life]
		slices.Sort(ends)
		for _, t := range ends {
			if t > x.From && t < x.To {
				waits = append(waits, Wait{Who: x.Who, Life: x.Life, From: x.From, To: t})
				x.From = t
			}
		}
		waits = append(waits, x)
	}
	slices.SortFunc(waits, func(x, y Wait) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Life, y.Life)) })
	var w Waiters
	for _, x := range waits {
		w.add(x)
	}
	return w
}

// contending are the lives that contend for shards, with their times.
func (a *Past) contending() (out []Wait) {
	takes, begins, stops := map[string]bool{}, map[string]int64{}, map[string]int64{}
	first := func(m map[string]int64, life string, t int64) {
		if old, known := m[life]; !known || t < old {
			m[life] = t
		}
	}
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			if life := history.Life(c.Invoke.Proc); c.Kind() == history.OpTake {
				takes[history.Worker(life)] = true
				first(begins, life, c.Invoke.TS)
			}
		}
	}
	for _, h := range a.HandOvers() {
		if !h.Moves {
			first(stops, h.Life, h.At)
		}
	}
	for name, l := range a.Lives {
		if !l.Recording || !takes[history.Worker(name)] {
			continue
		}
		from, to := l.first, min(a.Died(name), a.Stopped)
		if t, known := begins[name]; known {
			from = t
		}
		if t, known := stops[name]; known {
			to = min(to, t)
		}
		out = append(out, Wait{Who: name, Life: name, From: from, To: to})
	}
	return out
}

// HandOver is an attempt of an owner to give a shard away.
type HandOver struct {
	Life string
	At   int64
	// Moves: the process went on, as it took another shard or claimed a run later. Else it
	// stopped.
	Moves bool
}

// HandOvers are all of them.
func (a *Past) HandOvers() (out []HandOver) {
	last := map[string]int64{} // sign that a life goes on
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			life := history.Life(c.Invoke.Proc)
			if c.Kind() == history.OpTake || slices.ContainsFunc(c.Invoke.Changes(), func(x history.Change) bool { return x.Do == history.DoClaim }) {
				last[life] = max(last[life], c.Invoke.TS)
			}
			if c.Kind() == history.OpHandOver {
				out = append(out, HandOver{Life: life, At: c.Invoke.TS})
			}
		}
	}
	for n, h := range out {
		out[n].Moves = h.At < last[h.Life]
	}
	return out
}

// stopping is when the run begins to stop its processes.
func (a *Past) stopping() int64 {
	for _, ph := range a.History.Phases() {
		if ph.Name == PhaseSettle || ph.Name == phaseSeal {
			return ph.From
		}
	}
	return history.Forever
}

// Phases that mean something to the checks of jobs.
const (
	phaseWarmup = "warmup"
	PhaseDrain  = "drain"
	PhaseSettle = "settle"
	phaseSeal   = "seal"
)

// During calls f for every wait that overlaps [from, to], until f returns false.
func (w *Waiters) During(from, to int64, f func(Wait) bool) {
	i := sort.Search(len(w.waits), func(i int) bool { return w.waits[i].From > to })
	for i--; i >= 0 && w.longest[i] >= from; i-- {
		if w.waits[i].To >= from && !f(w.waits[i]) {
			return
		}
	}
}

// Died is the last instant at which a life can have been waiting for anything.
func (a *Past) Died(life string) int64 {
	if t, ok := a.deaths[life]; ok {
		return t
	}
	return a.Lives[life].last
}

// BehindSilences moves the beginning of an observation of length d behind every silence that
// falls into it, as long as that began before end.
func BehindSilences(at, d, end int64, silences []history.Span) int64 {
	for _, s := range silences {
		if s.To <= at {
			continue
		}
		if s.From >= min(at+d, end) {
			break
		}
		at = s.To
	}
	return at
}

// defaultBound is what P11 allows beyond ttl + ttl/8, in which the waiting and one
// polling interval are: three copies of a request, of ttl/6 each, and the hiccups
// of a busy machine.
func defaultBound(ttl int64) int64 { return 5e9 + ttl/2 }

// TakeoverBound is the time within which a lock must be taken over.
func (a *Past) TakeoverBound(ttl int64) int64 { return a.TakeoverBoundBy(ttl, 0) }

// TakeoverBoundBy is that for a contender with a ttl of its own: the row's says how long to watch,
// and its own how long its requests may take.
func (a *Past) TakeoverBoundBy(ttl, own int64) int64 {
	return ttl + ttl/8 + a.RequestBound(max(ttl, own))
}

// RequestBound is what the requests of a call with that ttl may take.
func (a *Past) RequestBound(ttl int64) int64 {
	bound := int64(0)
	for _, e := range a.Expects {
		bound = max(bound, e.Expect().RecoveryBoundMS*1e6)
	}
	if bound == 0 {
		bound = defaultBound(ttl)
	}
	return bound
}
