package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// step is one link of a chain, at an event.
func (x *inquiry) step(role string, e *history.Event, format string, args ...any) Step {
	s := x.instant(role, e.TS, format, args...)
	s.File, s.Line = relative(x.a.opts.Dir, e.File), e.Line
	return s
}

// instant is one link of a chain that has no event of its own.
func (x *inquiry) instant(role string, ts int64, format string, args ...any) Step {
	return Step{Role: role, TS: ts, At: float64(ts-x.start) / 1e9, Text: fmt.Sprintf(format, args...)}
}

// case gives a suspect the case to show, unless it has one: its place, its instant
// and how it came about.
func (s *suspect) show(key string, at int64, procs []string, chain ...Step) {
	if s.chain != nil {
		return
	}
	s.key, s.at, s.chain = key, at, chain
	for _, p := range procs {
		if life := history.Life(p); life != harness && !slices.Contains(s.procs, life) {
			s.procs = append(s.procs, life)
		}
	}
}

// maxChainFaults bounds the faults of a chain.
const maxChainFaults = 3

// faultsOf are the faults that were in force while the case came about, the last ones
// before the harm: those aimed at a worker of the chain, or at no worker.
func (x *inquiry) faultsOf(s *suspect) []history.FaultWindow {
	if len(s.chain) == 0 {
		return nil
	}
	from, to := s.chain[0].TS, s.chain[0].TS
	for _, st := range s.chain {
		from = min(from, st.TS)
		if st.Role != RoleHarm {
			to = max(to, st.TS)
		}
	}
	var out []history.FaultWindow
	for _, f := range x.a.faults() {
		aimed := workersIn(f.Fault.Targets)
		concerned := len(aimed) == 0 || slices.ContainsFunc(s.procs, func(p string) bool { return slices.Contains(aimed, history.Worker(p)) })
		if f.From <= to && f.To >= from && concerned {
			out = append(out, f)
		}
	}
	return out[max(0, len(out)-maxChainFaults):]
}

// withFaults is the chain in order, with faults.
func (x *inquiry) withFaults(s *suspect, faults []history.FaultWindow) []Step {
	chain := append([]Step{}, s.chain...)
	for _, f := range faults {
		st := x.instant(RoleFault, f.From, "%s %s (%s) was in force until +%.3f s", f.Fault.ID, f.Fault.Name, strings.Join(f.Fault.Targets, ", "), float64(f.To-x.start)/1e9)
		if note := x.a.faultEvents(f.Fault.ID); len(note) > 0 {
			st.File, st.Line = relative(x.a.opts.Dir, note[0].File), note[0].Line
		}
		chain = append(chain, st)
	}
	slices.SortStableFunc(chain, func(a, b Step) int { return cmp.Compare(a.TS, b.TS) })
	return chain
}

// granted is the step of a grant.
func (x *inquiry) granted(role string, g *grant) Step {
	e := g.acq.end
	if e == nil {
		e = g.acq.inv
	}
	verb := "was granted"
	if g.acq.inv.Takeover || g.log.shard && g.acq.w.pos > 0 && g.log.chain[g.acq.w.pos-1].held() {
		verb = "took over"
	}
	return x.step(role, e, "%s %s %s with token %d", g.acq.inv.Proc, verb, g.log.name, g.token)
}

// sent says how an operation was sent and answered.
func sent(o *op) string {
	switch {
	case o.end == nil:
		return "never answered"
	case len(o.end.Sends) > 1:
		return fmt.Sprintf("sent %d times in %s, then %s", len(o.end.Sends), ms(o.end.TS-anchor(o)), o.end.Type)
	}
	return fmt.Sprintf("%s after %s", o.end.Type, ms(o.end.TS-anchor(o)))
}

// offset is by how much a life's wall clock was wrong at an instant, in ms.
func (a *analysis) offset(life string, at int64) int64 {
	off := int64(0)
	for _, e := range a.clocks[life] {
		if e.TS > at {
			break
		}
		off = e.Clock().OffsetMS
	}
	return off
}

// slept is for how long a life's machine slept between two instants.
func (a *analysis) slept(life string, from, to int64) int64 {
	total, since := int64(0), int64(-1)
	for _, e := range a.clocks[life] {
		switch {
		case e.Clock().Suspended && since < 0:
			since = e.TS
		case !e.Clock().Suspended && since >= 0:
			total += max(0, min(e.TS, to)-max(since, from))
			since = -1
		}
	}
	if since >= 0 {
		total += max(0, to-max(since, from))
	}
	return total
}

// patience is how long clients wait before they send a copy again: the median of the
// gaps between sends, or ttl/6 if nothing was sent twice.
func (a *analysis) patience(ttl int64) int64 {
	var gaps []int64
	for _, l := range a.rows {
		for _, c := range l.cas {
			if c.end == nil {
				continue
			}
			for i := 1; i < len(c.end.Sends); i++ {
				gaps = append(gaps, c.end.Sends[i]-c.end.Sends[i-1])
			}
		}
	}
	if len(gaps) == 0 {
		return ttl / 6
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// plainWrites says whether unconditional writes of fenced rows were noted, or may
// have been made unseen.
func (x *inquiry) plainWrites() bool {
	noted := slices.ContainsFunc(x.a.shapes, func(e *history.Event) bool {
		stmts, err := parseCQL(e.Statement().CQL)
		return err == nil && slices.ContainsFunc(stmts, func(s statement) bool { return s.verb != "SELECT" })
	})
	return !noted || x.failed("P13")
}
