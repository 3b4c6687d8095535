package property

import (
	"fmt"
	"math"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkRetries is the part of P12 that is about runs which fail, or take too long: a job waits
// for its backoff, no shorter and no longer, and a run is ended at its job's max duration. It says
// what was judged.
func (a *Judgement) checkRetries(p *Property) string {
	busy, _ := a.Busy()
	waits, runs := 0, 0
	for _, j := range a.Jobs.List {
		n, wrong := a.Retries(j)
		waits += n
		for _, x := range wrong {
			m := x.Step.Write.Main()
			p.add(j.ID, append(past.Events(&m.Op), x.Failed), "job %s: %s is %s its time: after %s it waits for %s, and %s",
				j.ID, retryText(x), sideText(x), phrase.Plural(x.Attempts, "failed attempt"), boundText(x), waitedText(x))
		}
		if busy != "" {
			continue
		}
		n, over := a.Overruns(j)
		runs += n
		for _, x := range over {
			p.add(j.ID, []*history.Event{x.Start, x.End}, "run %d of job %s %s, though it may take %d ms: nobody has ended it",
				x.Start.Token, j.ID, overrunText(x), j.Spec.MaxDurationMS)
		}
	}
	p.Checked += waits + runs
	if waits == 0 {
		return ""
	}
	return fmt.Sprintf("; %s after failed runs kept", phrase.Plural(waits, "backoff"))
}

// retryText names the batch that comes too early or too late.
func retryText(x past.WrongRetry) string {
	if x.Step.Change.Do == history.DoClaim {
		return fmt.Sprintf("the claim as run %d", x.Step.Change.Run)
	}
	return fmt.Sprintf("the retry after run %d", x.Step.Change.Run)
}

func sideText(x past.WrongRetry) string {
	if x.Late {
		return "after"
	}
	return "before"
}

func boundText(x past.WrongRetry) string {
	if x.Late {
		return fmt.Sprintf("%d ms at most", x.Most)
	}
	return fmt.Sprintf("%d ms at least", x.Least)
}

func waitedText(x past.WrongRetry) string {
	if x.Step.Change.Do == history.DoClaim {
		return fmt.Sprintf("it waited for %d ms", x.Waited)
	}
	return fmt.Sprintf("it is made due after %d ms", x.Waited)
}

func overrunText(x past.Overrun) string {
	if x.End == nil {
		return fmt.Sprintf("goes on after %d ms", x.Took)
	}
	return fmt.Sprintf("took %d ms", x.Took)
}

// wrongRetries: jobs that are tried again too early or too late. A policy that is misread gives all
// of its wrong waits the same look.
func (x *Inquiry) wrongRetries() {
	of, all := map[*past.Job][]past.WrongRetry{}, []past.WrongRetry{}
	for _, j := range x.Jobs.List {
		_, of[j] = x.Retries(j)
		all = append(all, of[j]...)
	}
	misread := ""
	switch {
	case !slices.ContainsFunc(all, func(r past.WrongRetry) bool { return !ofNeighbour(r) }):
		misread = "delay-of-another-attempt"
	case !slices.ContainsFunc(all, func(r past.WrongRetry) bool { return !nearby(r) }):
		misread = "jitter-ignored"
	}
	for _, j := range x.Jobs.List {
		for _, r := range of[j] {
			id := misread
			switch {
			case id == "" && r.Late:
				id = "backoff-exceeded"
			case id == "":
				id = "backoff-ignored"
			}
			s := x.found(id, x.jobWeight(j, shown), "%s of job %s: the backoff after %s is %s, and %s",
				retryText(r), j.ID, phrase.Plural(r.Attempts, "failed attempt"), boundText(r), waitedText(r))
			s.showAt(j.ID, r.Step.Write.Main().Invoke, x.before(r.Failed, "run %d of job %s fails: %s", r.Failed.Token, j.ID, r.Failed.Error),
				x.change(RoleMistake, r.Step))
		}
	}
}

// ofNeighbour: the wait is that of the attempt before or after, from a list of delays.
func ofNeighbour(r past.WrongRetry) bool {
	return len(r.Policy.DelaysMS) > 1 && (r.Fits(r.Attempts+1) || r.Attempts > 1 && r.Fits(r.Attempts-1))
}

// nearby: the wait is off by less than a quarter of the backoff.
func nearby(r past.WrongRetry) bool {
	d := past.Backoff(r.Policy, r.Attempts)
	return math.Abs(float64(r.Waited)-d) < d/4
}

// overruns: runs that nobody ends.
func (x *Inquiry) overruns() {
	if busy, _ := x.Busy(); busy != "" {
		return
	}
	for _, j := range x.Jobs.List {
		_, over := x.Overruns(j)
		for _, r := range over {
			s := x.found("run-not-ended", x.jobWeight(j, shown), "run %d of job %s %s; it may take %d ms", r.Start.Token, j.ID, overrunText(r), j.Spec.MaxDurationMS)
			chain := []Step{x.before(r.Start, "run %d of job %s starts", r.Start.Token, j.ID)}
			at := r.Start
			if r.End != nil {
				at = r.End
				chain = append(chain, x.mistake(r.End, "it ends after %d ms only", r.Took))
			} else {
				chain = append(chain, x.Instant(RoleMistake, r.Start.TS+r.Took*1e6, "it still goes on, %d ms later", r.Took))
			}
			s.showAt(j.ID, at, chain...)
		}
	}
}
