package past

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// BackoffSlack is by how much a retry may seem to come too early or too late, in ms: clocks are
// read before and after what they date, cut to the ms, and those of a host are slewed between.
const BackoffSlack = 50

// Backoff is what a policy has a job wait after its attempt-th failed attempt, in ms, before
// jitter makes it shorter or longer.
func Backoff(p *history.Retry, attempt int) float64 {
	attempt = max(attempt, 1)
	if n := len(p.DelaysMS); n > 0 {
		return float64(p.DelaysMS[min(attempt, n)-1])
	}
	factor, most := p.Factor, float64(p.MaxMS)
	if factor == 0 {
		factor = 2
	}
	if most == 0 {
		most = 30 * 60 * 1000
	}
	return min(float64(p.BaseMS)*math.Pow(factor, float64(attempt-1)), most)
}

// Waits are the least and the most that a job may wait after its attempt-th failed attempt, in ms:
// the backoff less its jitter, and with it.
func Waits(p *history.Retry, attempt int) (least, most int64) {
	d := Backoff(p, attempt)
	return int64(d * (1 - p.Jitter)), int64(math.Ceil(d * (1 + p.Jitter)))
}

// WrongRetry is a retry that waits for less, or for longer, than its job's policy says.
type WrongRetry struct {
	Failed   *history.Event // the end of the run that failed
	Step     JobStep        // the batch that retries it so, or claims it again too early
	Policy   *history.Retry
	Attempts int   // failed so far
	Least    int64 // what it has to wait at least, in ms
	Most     int64 // and at most
	Waited   int64 // and did, or was to, in ms
	Late     bool  // it was to wait for longer
}

// Fits says whether the wait is one that the policy has after so many failed attempts.
func (x WrongRetry) Fits(attempts int) bool {
	least, most := Waits(x.Policy, attempts)
	return x.Waited >= least-BackoffSlack && x.Waited <= most+BackoffSlack
}

// Retries judges the waits of a job between its failed runs and the next ones: how many there
// were, and those that were too short or too long. It judges by the host's own clock when the next
// run was claimed, and by the wall clock of the run's worker, as its start shows it, the time for
// which it was put: no earlier than its least wait after the run, no later than its longest one
// after the batch that puts it. A worker whose clocks a fault had set is not judged.
func (a *Past) Retries(j *Job) (judged int, wrong []WrongRetry) {
	if j.Spec == nil || j.Spec.Retry == nil || j.Locked() {
		return 0, nil
	}
	for i, s := range j.Steps {
		failed := j.Finishes[s.Change.Run]
		if s.Change.Do != history.DoRetry || failed == nil || failed.Error == "" || strings.HasPrefix(failed.Error, InterruptedPrefix) {
			continue
		}
		life := history.Life(failed.Proc)
		offset, known := a.wallLead(life, failed.TS)
		if !known {
			continue
		}
		x := WrongRetry{Failed: failed, Step: s, Policy: j.Spec.Retry, Attempts: s.Change.Attempt - j.UncountedBefore(i)}
		if strings.HasPrefix(failed.Error, NotHerePrefix) {
			x.Attempts = j.UncountedBefore(i) + 1
		}
		x.Least, x.Most = Waits(x.Policy, x.Attempts)
		judged++
		after := func(e *history.Event) int64 { return s.Change.DueMS - (e.TS/1e6 + offset) }
		if x.Waited = after(failed); x.Waited < x.Least-BackoffSlack {
			wrong = append(wrong, x)
			continue
		}
		if waits := after(s.Write.Main().Invoke); waits > x.Most+BackoffSlack {
			x.Waited, x.Late = waits, true
			wrong = append(wrong, x)
			continue
		}
		if i+1 == len(j.Steps) || j.Steps[i+1].Change.Do != history.DoClaim {
			continue
		}
		x.Step = j.Steps[i+1]
		claimed := x.Step.Write.Main().Invoke
		other, known := a.wallLead(history.Life(claimed.Proc), claimed.TS)
		x.Waited = (claimed.TS - failed.TS) / 1e6
		if known && x.Waited < x.Least-BackoffSlack-max(0, other-offset) {
			wrong = append(wrong, x)
		}
	}
	return judged, wrong
}

// leadReading is by how much a wall clock led the clock of the history at an instant, in ms, or more.
type leadReading struct{ ts, lead int64 }

// leadsNear is for how long a reading of a wall clock's lead is good, in ns: a host's clock is slewed,
// or set by small steps, while a run goes on.
const leadsNear = 1e9

// wallLead is by how much a life's wall clock leads the clock of the history at an instant, in ms, by
// the starts of its runs about then. It is not known of a life without starts, nor of one whose clocks
// a fault or somebody else has set.
func (a *Past) wallLead(life string, ts int64) (lead int64, known bool) {
	if a.ClockSet(life) {
		return 0, false
	}
	if a.leads == nil {
		a.leads = map[string][]leadReading{}
		for _, j := range a.Jobs.List {
			for _, e := range j.Starts {
				if e.WallMS() == 0 || e.DecidedAt == 0 || e.DecidedAt > e.TS {
					continue // undated, or dated after the start itself (P7)
				}
				of := history.Life(e.Proc)
				a.leads[of] = append(a.leads[of], leadReading{e.DecidedAt, e.WallMS() - e.DecidedAt/1e6})
			}
		}
		for _, readings := range a.leads {
			slices.SortFunc(readings, func(x, y leadReading) int { return cmp.Or(cmp.Compare(x.ts, y.ts), cmp.Compare(x.lead, y.lead)) })
		}
	}
	readings := a.leads[life]
	if len(readings) == 0 {
		return 0, false
	}
	next, _ := slices.BinarySearchFunc(readings, ts, func(r leadReading, ts int64) int { return cmp.Compare(r.ts, ts) })
	if next == len(readings) || next > 0 && ts-readings[next-1].ts < readings[next].ts-ts {
		next--
	}
	lead = readings[next].lead // the nearest
	// The wall clock is read after the other: the least of several is the best.
	for n := next; n >= 0 && readings[n].ts >= ts-leadsNear; n-- {
		lead = min(lead, readings[n].lead)
	}
	for n := next; n < len(readings) && readings[n].ts <= ts+leadsNear; n++ {
		lead = min(lead, readings[n].lead)
	}
	return lead, true
}

// Overrun is a run that went on for longer than its job may.
type Overrun struct {
	Start *history.Event
	End   *history.Event // nil: it never ended
	Took  int64          // in ms, so far
}

// OverrunSlack is for how much longer a run may go on that was told to end, in ms: until the
// answer comes that it waits for, which clients give up after 8 s.
const OverrunSlack = 15_000

// Overruns judges how long the runs of a job took: how many it knows, and those that were not
// ended in time. While a fault was active, or its process was not there, a run is not judged.
func (a *Past) Overruns(j *Job) (judged int, over []Overrun) {
	if j.Spec == nil || j.Spec.MaxDurationMS == 0 {
		return 0, nil
	}
	for _, s := range j.Starts {
		end := a.lastOf(history.Life(s.Proc))
		x := Overrun{Start: s, End: j.Finishes[s.Token]}
		if x.End != nil {
			end = x.End.TS
		}
		bound := (j.Spec.MaxDurationMS + OverrunSlack) * 1e6
		if a.FaultDuring(s.TS, min(end, s.TS+bound)) {
			continue
		}
		judged++
		if x.Took = (end - s.TS) / 1e6; end-s.TS > bound {
			over = append(over, x)
		}
	}
	return judged, over
}

// lastOf is when a life was seen last.
func (a *Past) lastOf(life string) int64 {
	if l := a.Lives[life]; l != nil {
		return l.last
	}
	return 0
}
