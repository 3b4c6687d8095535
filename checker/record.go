package checker

import (
	"fmt"
	"sort"
	"time"

	"fencepost/harness/history"
)

// recordGap is a process life whose record provably lacks events.
type recordGap struct {
	life, message string
	events        []*history.Event
}

// graceAtDeath: a killed process may have drawn an id without having recorded
// the invocation; it then died at once, by the measure of this time.
const graceAtDeath = int64(100 * time.Millisecond)

// findGaps looks for lost events in each life's record. A recorder numbers its
// operations 1, 2, 3 …, so a missing number is a lost invocation.
func (a *analysis) findGaps() {
	names := make([]string, 0, len(a.lives))
	for name, l := range a.lives {
		if l.recording {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	lost := a.lostEnds()
	for _, name := range names {
		l := a.lives[name]
		gap := func(events []*history.Event, format string, args ...any) {
			a.gaps = append(a.gaps, recordGap{name, fmt.Sprintf("the record of %s has lost events: ", name) + fmt.Sprintf(format, args...), events})
		}
		if l.missingIDs(gap) > 0 {
			a.doubt = true
		}
		if ops := lost[name]; len(ops) > 0 {
			gap(both(ops[0]), "%s without an end although its client went on (the first: %s, id %d)", plural(len(ops), "operation"), ops[0].inv.Op, ops[0].inv.ID)
		}
		if !l.exited && !l.crashed && name != harness {
			gap(nil, "it ends neither with an exit note nor with a crash note, so it may have been cut off")
		}
	}
}

// harness is the proc of the runner's own operations.
const harness = history.Harness

// missingIDs returns how many missing ids the death of the process excuses.
func (l *life) missingIDs(gap func([]*history.Event, string, ...any)) (excused int) {
	sort.SliceStable(l.invokes, func(i, j int) bool { return l.invokes[i].ID < l.invokes[j].ID })
	var missing, twice int
	var at, dup []*history.Event // around the first finding of each kind
	prev := &history.Event{}
	for _, e := range l.invokes {
		switch n := int(e.ID - prev.ID - 1); {
		case n < 0:
			if twice++; twice == 1 {
				dup = []*history.Event{prev, e}
			}
		case n > 0 && !l.exited && e.TS >= l.last-graceAtDeath && excused+n <= 2*len(l.procs):
			excused += n
		case n > 0:
			if missing == 0 {
				at = []*history.Event{e}
				if prev.ID > 0 {
					at = append(at, prev)
				}
			}
			missing += n
		}
		prev = e
	}
	if missing > 0 {
		gap(at, "%s missing among %d operations, the first before id %d", plural(missing, "id")+are(missing), len(l.invokes), at[0].ID)
	}
	if twice > 0 {
		gap(dup, "id %d is used twice", dup[0].ID)
	}
	return excused
}

func are(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// lostEnds finds operations of a client's main line (lock, enqueue, update, schedule, raise, get,
// effect: one at a time) that have no end although the client went on or its process
// ended in order. A client records an end for each, if only an unknown one.
func (a *analysis) lostEnds() map[string][]*op {
	out := map[string][]*op{}
	pending := map[string]*op{} // by proc
	for i := range a.ops {
		o := &a.ops[i]
		switch o.inv.Op {
		case history.OpLock, history.OpEnqueue, history.OpUpdate, history.OpSchedule, history.OpRaise, history.OpGet, history.OpEffect:
		default:
			continue
		}
		life := history.Life(o.inv.Proc)
		if p := pending[o.inv.Proc]; p != nil {
			out[life] = append(out[life], p)
			delete(pending, o.inv.Proc)
		}
		if o.end == nil {
			if a.lives[life].exited {
				out[life] = append(out[life], o)
			} else {
				pending[o.inv.Proc] = o
			}
		}
	}
	return out
}

// badSends finds recorded sends outside of their operation: an invocation that
// was recorded after its request had left makes every check of order worthless.
func (a *analysis) badSends() []*op {
	var out []*op
	for i := range a.ops {
		o := &a.ops[i]
		if o.end == nil {
			continue
		}
		prev := o.inv.TS
		for _, s := range o.end.Sends {
			if s < prev || s > o.end.TS {
				out = append(out, o)
				break
			}
			prev = s
		}
	}
	return out
}
