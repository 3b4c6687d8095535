package checker

import (
	"cmp"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// wait is the time for which a client waited for a lock.
type wait struct {
	call     *op // nil: a life contends for shards without being asked
	who      string
	life     string
	from, to int64
}

// waiters are a lock's waits in the order of their beginning; longest[i] is the
// latest end among the first i+1, so that a look back knows where to stop.
type waiters struct {
	waits   []wait
	longest []int64
}

// waiting finds who waited for a row: the calls of a lock's clients, and for a shard
// every process that contends.
func (a *past) waiting(l *rowLog) waiters {
	if l.shard {
		return a.contenders(l)
	}
	w := waiters{waits: make([]wait, 0, len(l.calls))}
	for _, c := range l.calls { // in the order of invocation
		life := history.Life(c.inv.Proc)
		to := a.died(life)
		if c.end != nil {
			to = c.end.TS
		}
		w.add(wait{c, c.inv.Proc, life, c.inv.TS, to})
	}
	return w
}

func (w *waiters) add(x wait) {
	longest := x.to
	if n := len(w.longest); n > 0 {
		longest = max(w.longest[n-1], x.to)
	}
	w.waits, w.longest = append(w.waits, x), append(w.longest, longest)
}

// contenders are the lives that take any shard that nobody keeps: those of the
// workers that took one in any of their lives. Each contends from its first take, or
// else its first event, until it ends, hands a shard over, as it does only when it stops, or the run
// tells its processes to stop. A take that got no answer makes it begin anew.
func (a *past) contenders(l *rowLog) waiters {
	tries := map[string][]int64{} // ends of such takes, by life
	for _, c := range l.cas {
		if c.kind() == history.OpTake && c.end != nil && c.outcome != history.OK && (c.row == nil || c.row == c.from) {
			life := history.Life(c.inv.Proc)
			tries[life] = append(tries[life], c.end.TS)
		}
	}
	var waits []wait
	for _, x := range a.shardLives {
		ends := tries[x.life]
		slices.Sort(ends)
		for _, t := range ends {
			if t > x.from && t < x.to {
				waits = append(waits, wait{who: x.who, life: x.life, from: x.from, to: t})
				x.from = t
			}
		}
		waits = append(waits, x)
	}
	slices.SortFunc(waits, func(x, y wait) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.life, y.life)) })
	var w waiters
	for _, x := range waits {
		w.add(x)
	}
	return w
}

// contending are the lives that contend for shards, with their times.
func (a *past) contending() (out []wait) {
	takes, begins, stops := map[string]bool{}, map[string]int64{}, map[string]int64{}
	first := func(m map[string]int64, life string, t int64) {
		if old, known := m[life]; !known || t < old {
			m[life] = t
		}
	}
	for _, l := range a.rows {
		for _, c := range l.cas {
			life := history.Life(c.inv.Proc)
			switch c.kind() {
			case history.OpTake:
				takes[history.Worker(life)] = true
				first(begins, life, c.inv.TS)
			case history.OpHandOver:
				first(stops, life, c.inv.TS)
			}
		}
	}
	for name, l := range a.lives {
		if !l.recording || !takes[history.Worker(name)] {
			continue
		}
		from, to := l.first, min(a.died(name), a.stopped)
		if t, known := begins[name]; known {
			from = t
		}
		if t, known := stops[name]; known {
			to = min(to, t)
		}
		out = append(out, wait{who: name, life: name, from: from, to: to})
	}
	return out
}

// stopping is when the run begins to stop its processes.
func (a *past) stopping() int64 {
	for _, ph := range a.h.Phases() {
		if ph.Name == phaseSettle || ph.Name == phaseSeal {
			return ph.From
		}
	}
	return history.Forever
}

// Phases that mean something to the checks of jobs.
const (
	phaseWarmup = "warmup"
	phaseDrain  = "drain"
	phaseSettle = "settle"
	phaseSeal   = "seal"
)

// during calls f for every wait that overlaps [from, to], until f returns false.
func (w *waiters) during(from, to int64, f func(wait) bool) {
	i := sort.Search(len(w.waits), func(i int) bool { return w.waits[i].from > to })
	for i--; i >= 0 && w.longest[i] >= from; i-- {
		if w.waits[i].to >= from && !f(w.waits[i]) {
			return
		}
	}
}

// died is the last instant at which a life can have been waiting for anything.
func (a *past) died(life string) int64 {
	if t, ok := a.deaths[life]; ok {
		return t
	}
	return a.lives[life].last
}

// begin moves the beginning of an observation of length d behind every silence that
// falls into it, as long as that began before end.
func begin(at, d, end int64, silences []history.Span) int64 {
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
