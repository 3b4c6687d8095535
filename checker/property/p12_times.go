package property

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P12",
		title:          "nothing fires early or is missed",
		by:             "the wall clock of the worker that starts a run or fires; the batches of shards and their rows",
		Of:             "jobs",
		run:            checkTimes,
		completeRecord: true,
		rules: []rule{
			{find: (*Inquiry).scheduleGaps},
			{find: (*Inquiry).scheduleFaults},
			{find: (*Inquiry).scheduleCommands},
			{find: (*Inquiry).jobTimes},
			{find: (*Inquiry).wrongRetries},
			{find: (*Inquiry).overruns},
			{find: (*Inquiry).overtaken},
		},
		mechanisms: []mechanism{
			{id: "schedule-ahead-of-job", Accounts: append([]string{"P12"}, ofJobs...),
				Statement: "a schedule is marked as fired, and the job of that nominal time is not in its shard: one batch does not do " +
					"both"},
			{id: "schedule-counted-anew",
				Statement: "a process that takes a shard over counts the times of its schedules from then on: those that came before are " +
					"forgotten"},
			{id: "schedule-set-back", Statement: "the next time of a schedule is counted from what its owner's clock shows, not from the " +
				"last one: when that clock is behind, times come again"},
			{id: "removal-in-memory", Statement: "a schedule that was removed comes back with another owner: only one knew of its removal"},
			{id: "switch-in-memory", Statement: "a schedule was disabled or enabled in its owner's memory only: the next owner does not know"},
			{id: "once-fires-again", Statement: "a schedule that fires once does so again: nothing durable says that it has"},
			{id: "bounds-ignored", Statement: "a schedule fires before the instant at which it begins, or after the one at which it ends"},
			{id: "overlap-not-kept", Statement: "an occurrence of a schedule begins before the one before it has ended, though its schedule forbids that"},
			{id: "trigger-repeated", Statement: "a manual trigger of a schedule fires by a name that has had its job: nothing durable says that it has"},
			{id: "backoff-ignored", Statement: "a job whose run failed is tried again before its backoff is over"},
			{id: "backoff-exceeded", Statement: "a job whose run failed is made due later than its backoff"},
			{id: "delay-of-another-attempt", Statement: "a job waits for the delay that its policy has after another attempt"},
			{id: "jitter-ignored", Statement: "waits after failed runs vary by another part than their jobs' jitter"},
			{id: "run-not-ended", Statement: "a run goes on for longer than its job may: nobody ends it"},
			{id: "priority-ignored", Statement: "a job is claimed before one of a higher priority that is due in its shard and in its owner's memory"},
			{id: "fires-by-a-fast-clock", Statement: "jobs fire by a clock that runs ahead of their worker's own"},
		},
	})
}

func spreadOf(xs []float64) *past.Spread {
	if len(xs) == 0 {
		return nil
	}
	slices.Sort(xs)
	return &past.Spread{N: len(xs), P50: percentile(xs, 50), P99: percentile(xs, 99), Max: xs[len(xs)-1]}
}

// percentile is the least of sorted numbers, of which there is one at least, that so many in a hundred are not above.
func percentile(sorted []float64, q int) float64 { return sorted[(len(sorted)*q+99)/100-1] }

// checkTimes is P12: no run starts before its job was due by the wall clock of
// the worker that started it.
func checkTimes(_ context.Context, a *Judgement, p *Property) {
	if !a.Jobs.Any() {
		p.Status, p.Detail = StatusNA, "not judged: the lock workload has no schedules"
		return
	}
	report(&a.Jobs, "P12", p)
	others := a.checkSchedules(p)
	var late []float64
	warm := a.WarmSince()
	undated, moved := 0, 0
	for _, j := range a.Jobs.List {
		for _, e := range j.Starts {
			x, ok := a.dueOf(j, e)
			switch {
			case !ok:
				continue // P6
			case e.WallMS() == 0 || e.DueMS() == 0:
				undated++
				continue
			case e.WallMS() < e.DueMS() && x.wasDue():
				moved++
				continue
			}
			p.Checked++
			switch {
			case x.exact && e.DueMS() != x.due, e.DueMS() < x.due:
				p.add(j.ID, x.events, "run %d of job %s started as due at %d, but the job was due at %d", e.Token, j.ID, e.DueMS(), x.due)
			case e.WallMS() < x.own:
				p.add(j.ID, x.events, "run %d of job %s started %d ms before its own time, by its worker's own clock", e.Token, j.ID, x.own-e.WallMS())
			case e.WallMS() < e.DueMS():
				p.add(j.ID, x.events, "run %d of job %s started %d ms before the job was due, by its worker's own clock",
					e.Token, j.ID, e.DueMS()-e.WallMS())
			case a.PausedDuring(j, e.TS-(e.WallMS()-e.DueMS())*1e6, e.TS), e.TS-(e.WallMS()-e.DueMS())*1e6 < warm:
			case !a.FaultDuring(e.TS-(e.WallMS()-e.DueMS())*1e6, e.TS):
				late = append(late, float64(e.WallMS()-e.DueMS()))
			}
		}
	}
	retries := a.checkRetries(p)
	a.lateness = spreadOf(late)
	p.Detail = "every start by the wall clock of its worker"
	if s := a.lateness; s != nil {
		p.Detail += fmt.Sprintf("; outside of faults and the warmup %s were late by %.0f ms (p50), %.0f ms (p99), %.0f ms at most",
			phrase.Plural(s.N, "start"), s.P50, s.P99, s.Max)
	}
	if moved > 0 {
		p.Detail += fmt.Sprintf("; %s of jobs that had been due before their worker's clock was set back", phrase.Plural(moved, "start"))
	}
	p.Detail += retries
	if n := a.Jobs.Ordered; n > 0 {
		p.Checked += n
		p.Detail += fmt.Sprintf("; %s with claims while jobs of other priorities waited", phrase.Plural(n, "batch"))
	}
	if n := len(a.Jobs.Schedules); n > 0 {
		p.Detail += fmt.Sprintf("; %s of %s replayed, %d missed, %d triggered",
			phrase.Plural(a.Jobs.Counts.Fired, "fired nominal time"), phrase.Plural(n, "schedule"), a.Jobs.Counts.Missed, a.Jobs.Counts.Triggered)
	}
	if others > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, phrase.Plural(others, "schedule")+" put in more than one form: which one counts is not known"
	}
	if undated > 0 && p.Count == 0 {
		p.Status, p.Detail = StatusUnknown, phrase.Plural(undated, "start")+" without due_ms or wall_ms"
	}
}

// dueEvidence is what the record says of when the job of a start was due.
type dueEvidence struct {
	due    int64            // at the earliest, in ms; 0: nothing is said
	own    int64            // the job's own time; 0: it has none
	exact  bool             // and at no other time
	events []*history.Event // that say so
	// wasDue says whether it had been due by its worker's wall clock, which a fault has
	// set back since.
	wasDue func() bool
}

// dueOf is when the job of a start was due; ok is false if nothing says so.
func (a *Judgement) dueOf(j *past.Job, start *history.Event) (x dueEvidence, ok bool) {
	if j.Locked() {
		if len(j.Calls) == 0 {
			return x, false // P5
		}
		asked := j.Calls[0]
		return dueEvidence{due: j.ScheduledMS(), own: j.ScheduledMS(), events: append(past.Events(asked), start), wasDue: func() bool {
			top, _ := a.HighestWall(start, asked.Invoke.TS-past.LeastSlack)
			return top >= start.DueMS()
		}}, true
	}
	k := a.RowOf[j.Shard].ClaimOf(start.Token)
	if k == nil || k.Job != j {
		return x, false
	}
	x = dueEvidence{own: j.ScheduledIn(k.Was), events: append(past.Events(&k.Write.Main().Op), start),
		wasDue: func() bool { return a.wasDue(start, k) }}
	if k.Was.Name == past.StatePending {
		x.due, x.exact = k.DueMS(), true
	}
	return x, true
}

// wasDue says whether a run that starts before it is due by its worker's wall clock had
// been due, as a fault has set that clock back since the job became pending: its own
// time had come by it, and what it had to wait for had passed by the lease clock. For an owner that
// runs it again, its own time has come once. Whether it waited long enough is judged with the retries.
func (a *Judgement) wasDue(start *history.Event, k *past.Claim) bool {
	since, own := k.Was.Since-k.Write.Main().Row.ClockSlack(), k.Job.ScheduledIn(k.Was)
	top, unset := a.HighestWall(start, since)
	if own > 0 && k.Was.Run == 0 {
		return top >= max(start.DueMS(), own)
	}
	if own > 0 {
		if top, _ = a.HighestWall(start, k.OwnedSince()-k.Write.Main().Row.ClockSlack()); start.DueMS() == own {
			return top >= own
		}
	}
	_, fast := a.Rates(history.Life(start.Proc), since, start.TS)
	return top >= own && unset+int64(fast*float64(start.TS-since)/1e6) >= start.DueMS()
}

// scheduleGaps: nominal times that the first batch of another owner passes over.
func (x *Inquiry) scheduleGaps() {
	for _, s := range slices.SortedFunc(maps.Values(x.Jobs.Schedules),
		func(s, t *past.Schedule) int { return cmp.Compare(s.Shard, t.Shard) }) {
		for _, g := range s.Gaps {
			if g.Before == nil || g.Before.To.Fence == g.Write.To.Fence || !x.chainConsistent(x.RowOf[s.Shard]) {
				continue
			}
			inv, before := g.Write.Main().Invoke, g.Before.Main().Invoke
			sus := x.found("schedule-counted-anew", shown,
				"the owner of fence %d passes over %s of schedule %s, from %d on, and counts none of them as missed; the one of "+
					"fence %d had stood before them", g.Write.To.Fence, phrase.Plural(int(g.Count), "nominal time"), s.Key, g.From, g.Before.To.Fence)
			sus.show(s.Key, inv.TS, []string{before.Proc, inv.Proc},
				x.before(before, "%s decides the nominal times of schedule %s up to %d", before.Proc, s.Key, g.From-1),
				x.mistake(inv, "%s, who took the shard over, goes on from %d: %s between them have no job",
					inv.Proc, g.Until, phrase.Plural(int(g.Count), "nominal time")))
		}
	}
}

// jobTimes: jobs that fire or are forgotten before their time.
func (x *Inquiry) jobTimes() {
	early, most := 0, int64(0)
	for _, j := range x.Jobs.List {
		for _, e := range j.Starts {
			if due, ok := x.dueOf(j, e); !ok || len(j.Steps) == 0 || e.WallMS() == 0 || e.WallMS() >= e.DueMS() || due.wasDue() {
				continue
			}
			early++
			most = max(most, e.DueMS()-e.WallMS())
			s := x.suspect("fires-by-a-fast-clock", shown, early, "run %d of job %s started %d ms before it was due, by its worker's own wall clock",
				e.Token, j.ID, e.DueMS()-e.WallMS())
			s.showAt(j.ID, e, x.change(RoleBefore, j.Steps[0]), x.mistake(e, "it starts %d ms early", e.DueMS()-e.WallMS()))
		}
		x.forgotten(j)
	}
	if early > 1 {
		x.suspect("fires-by-a-fast-clock", shown, early, "%s were early, by %d ms at most", phrase.Plural(early, "start"), most)
	}
}

// checkSchedules is the part of P12 that is about whole schedules: what was put is
// there, it fires to the end, and each nominal time that was fired has its job.
func (a *Judgement) checkSchedules(p *Property) (others int) {
	for _, s := range slices.SortedFunc(maps.Values(a.Jobs.Schedules), func(s, t *past.Schedule) int {
		return cmp.Or(cmp.Compare(s.Shard, t.Shard), cmp.Compare(s.Key, t.Key))
	}) {
		l := a.RowOf[s.Shard]
		if s.Other {
			others++
			continue
		}
		if l == nil || !l.Complete {
			continue // P14
		}
		p.Checked += len(s.Jobs)
		checkCommands(s, p)
		checkTriggers(s, p)
		if s.Waits() && a.Drained().From != 0 {
			p.add(s.Key, past.Events(s.Calls[len(s.Calls)-1]), "an occurrence of schedule %s waits at the end, of %s, and none is in its way", s.Key, s.Queue[0])
		}
		if s.Put && !s.Off {
			end := a.Drained().From
			if end == 0 {
				end = a.EndOfWork()
			}
			if f := a.JudgeUnfired(s, a.WallAt(end)); f != nil {
				p.add(f.Key, f.Events, "%s", f.Message)
			}
		}
		for _, o := range s.InOrder() {
			if j := s.Jobs[o]; j.RowMissing(a.Past) {
				p.add(s.Key, past.Events(j.Last()),
					"the nominal time %s of schedule %s has no job: %s was fired by a batch that took effect, and is not in %s", o, s.Key, j.ID, s.Shard)
			}
		}
	}
	return others
}

// checkCommands: what was acknowledged was done.
func checkCommands(s *past.Schedule, p *Property) {
	for _, l := range lostCommands(s) {
		p.add(s.Key, past.Events(l.told...), "to %s schedule %s was acknowledged %s, and done %s: what it asks for is lost",
			l.do, s.Key, phrase.Times(len(l.told)), phrase.Times(l.done))
	}
}

// lostCommand is a kind of command that was acknowledged more often than it was done.
type lostCommand struct {
	do   string
	told []*past.Op
	done int
}

// lostCommands are those of a schedule, but for triggers, by what they do.
func lostCommands(s *past.Schedule) (lost []lostCommand) {
	told := map[string][]*past.Op{}
	for _, o := range s.Calls {
		if do := o.Invoke.Schedule().Do; do != history.DoTrigger && o.Outcome == history.OK && o.End.Result == past.ResultApplied {
			told[do] = append(told[do], o)
		}
	}
	for _, do := range slices.Sorted(maps.Keys(told)) {
		if n := s.Done[do]; len(told[do]) > n {
			lost = append(lost, lostCommand{do, told[do], n})
		}
	}
	return lost
}
