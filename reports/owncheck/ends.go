package owncheck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/harness/record/history"
)

// takeoverSlack is what P11 allows beyond the lease and an eighth of it.
const takeoverSlack = 5 * time.Second

// takeover: after a SIGKILL a second life is granted the lock in time.
func takeover(r *Run) []Finding {
	faults := r.History.Faults()
	if len(faults) == 0 {
		return one(Unchecked, "nobody was killed, as the run did not come so far")
	}
	kill := faults[0]
	if !kill.Proven {
		return one(Unknown, "the kill is not proven to have taken effect")
	}
	bound := r.TTL + r.TTL/8 + takeoverSlack + r.TTL/2
	var before, after *history.Event // the last grant before the kill, and the first after the new start
	freed := false                   // the former
	for i := range r.History.Events {
		e := &r.History.Events[i]
		switch {
		case e.Op == history.OpLock && e.Type == history.OK && e.TS < kill.From:
			before, freed = e, false
		case before != nil && e.Proc == before.Proc && e.TS < kill.From && (e.Op == history.OpRelease || e.Op == history.NoteLeaseLost):
			freed = true
		case e.Op == history.OpLock && e.Type == history.OK && e.TS > kill.To && after == nil:
			after = e
		}
	}
	do := "others take a lock over when its lease is over"
	switch {
	case after == nil:
		return []Finding{{Status: Wrong, Do: do, Text: fmt.Sprintf("the worker was killed and started again, and nobody was granted the lock any more: at most %s are allowed", seconds(bound))}}
	case time.Duration(after.TS-kill.To) > bound:
		return []Finding{r.at(Finding{Status: Wrong, Do: do, Text: fmt.Sprintf(
			"%s was granted the lock %s after its start: at most %s are allowed", after.Proc, ms(after.TS-kill.To), seconds(bound))}, after)}
	case before == nil || freed:
		return one(Unchecked, "the kill found nobody in the lock (the point holding makes sure of that); the next grant came %s after the new start", ms(after.TS-kill.To))
	}
	return one(OK, "%s was killed in its lease; %s was granted the lock %s after its start", before.Proc, after.Proc, ms(after.TS-kill.To))
}

// stop: SIGTERM ends a process in order.
func stop(r *Run) (out []Finding) {
	exited := map[string]bool{}
	for i := range r.History.Events {
		if e := &r.History.Events[i]; e.Op == history.NoteExit {
			exited[history.Life(e.Proc)] = true
		}
	}
	do := "at SIGTERM finish what is under way, write an exit note and exit with 0, within 25 s"
	for _, l := range r.lives(history.LifeProgram) {
		took := ms(l.TookMS * int64(time.Millisecond))
		switch wrong := l.Unplanned(); {
		case l.Asked != sigTerm:
		case wrong != "":
			out = append(out, Finding{Status: Wrong, Text: l.Name + " " + wrong + words(l), Do: do})
		case l.Signal == sigTerm:
			out = append(out, Finding{Status: Hint, Text: l.Name + " was ended by the signal itself: what it had under way is unknown then", Do: do})
		case !exited[l.Name]:
			out = append(out, Finding{Status: Wrong, Text: l.Name + " ended with 0 and wrote no exit note", Do: do})
		default:
			out = append(out, Finding{Status: OK, Text: fmt.Sprintf("%s ended with 0 %s after SIGTERM, with an exit note", l.Name, took)})
		}
	}
	if out == nil {
		return one(Unchecked, "no process was left to be stopped")
	}
	return out
}

// seal: the task closes every lock, and reads what it left.
func seal(r *Run) (out []Finding) {
	do := "for each lock of $FENCEPOST_LOCKS: read it, take it for ever by a compare-and-set until that is ok (seal), read it again"
	for _, l := range r.lives(history.LifeTask) {
		if wrong := l.Unplanned(); wrong != "" {
			out = append(out, Finding{Status: Wrong, Text: "the task " + l.Name + " " + wrong + words(l), Do: do + "; the log is " + logOf(l)})
		}
	}
	locks, sealed := map[string]bool{}, map[string]int{} // 1: sealed, 2: and read
	for i := range r.History.Events {
		switch e := &r.History.Events[i]; {
		case e.Op == history.OpLock:
			locks[e.Key] = true
		case e.Op == history.OpSeal && e.Type == history.OK:
			sealed[e.Key] = 1
		case e.Op == history.OpRead && e.Type == history.OK && sealed[e.Key] == 1 && history.Life(e.Proc) == history.Harness:
			sealed[e.Key] = 2
		}
	}
	if len(locks) == 0 && out == nil {
		return one(Unchecked, "no lock was asked for")
	}
	for _, key := range slices.Sorted(maps.Keys(locks)) {
		switch sealed[key] {
		case 0:
			out = append(out, Finding{Status: Wrong, Text: fmt.Sprintf("no seal of %s is ok", key), Do: do})
		case 1:
			out = append(out, Finding{Status: Wrong, Text: fmt.Sprintf("%s was sealed and not read again", key), Do: do})
		}
	}
	if out == nil {
		return one(OK, "%s sealed and read", plural(len(locks), "lock"))
	}
	return out
}

// rest is what else makes the run INVALID.
func rest(r *Run) (out []Finding) {
	for _, v := range r.invalid(aboutFault) {
		out = append(out, r.violated(Unknown, v, "", false))
	}
	for _, v := range r.invalid(aboutRun) {
		out = append(out, r.violated(Wrong, v, "", false))
	}
	if r.Result.HostBusy != "" {
		out = append(out, Finding{Status: Hint, Text: "the machine was busy: " + r.Result.HostBusy})
	}
	c := r.Result.Counts
	return append(out, Finding{Status: OK, Text: fmt.Sprintf("%s, %s", plural(c.Cycles, "cycle"), plural(c.Operations, "operation"))})
}
