package enginetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// upsetCalendar has the schedules of a run of many days fired by hand, disabled and enabled, and
// adds some that are changed, removed and put again too.
func (w *World) upsetCalendar() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 15))
	for n := range 2 {
		first := w.schedules[r.IntN(len(w.schedules))].defs[0]
		s := &simSchedule{queue: "q", key: fmt.Sprint("u", n), runs: map[job.ID][]*simRun{}}
		for k := range 2 {
			d := first
			if d.Key = s.key; k == 1 {
				rule := drawRule(r)
				w.calendar.rules[rule.text] = rule
				d.Timing = schedule.Timing{Kind: schedule.Cron, Cron: rule.text, Zone: w.cfg.zones[r.IntN(len(w.cfg.zones))], Until: d.Until}
			}
			s.defs = append(s.defs, d)
		}
		s.plan = []simOrder{{time.Minute, engine.ScheduleCommand{Verb: engine.PutSchedule, Queue: s.queue, Key: s.key, Definition: &s.defs[0]}}}
		w.schedules = append(w.schedules, s)
	}
	span := w.cfg.duration / 12
	for n, s := range w.schedules {
		order := func(after time.Duration, verb engine.Verb, def *schedule.Definition, trigger string) {
			c := engine.ScheduleCommand{Verb: verb, Queue: s.queue, Key: s.key, Definition: def, Trigger: trigger}
			s.plan = append(s.plan, simOrder{time.Duration(r.Int64N(int64(after))), c})
		}
		if n%3 == 0 {
			continue
		}
		for k := range 8 {
			switch what := r.IntN(4); {
			case what == 0:
				order(span, engine.DisableSchedule, nil, "")
				order(span/2, engine.EnableSchedule, nil, "")
			case what == 1 && len(s.defs) > 1:
				order(span, engine.PutSchedule, &s.defs[k%2], "")
			case what == 2 && len(s.defs) > 1:
				order(span, engine.RemoveSchedule, nil, "")
				order(span/4, engine.PutSchedule, &s.defs[k%2], "")
			default:
				order(span, engine.TriggerSchedule, nil, fmt.Sprint("t", k))
			}
		}
	}
}

// restated changes the state of a schedule that a batch writes, from what it was before.
func restated(f func(b store.Batch, was schedule.State, next *schedule.State)) Plant {
	return batches(func(w *World, c *mistake.Copy) {
		_, rows := w.store.ShardRows(c.Shard)
		c.Each(func(op *store.Op) {
			if !isState(*op) {
				return
			}
			var was, next schedule.State
			at := slices.IndexFunc(rows, func(r store.Row) bool { return r.Key == op.Row.Key })
			if at < 0 || json.Unmarshal(rows[at].Body, &was) != nil || json.Unmarshal(op.Row.Body, &next) != nil {
				return
			}
			f(c.Batch, was, &next)
			op.Row.Body, _ = json.Marshal(next)
		})
	})
}

// triggers: the batch fires a schedule by hand.
func triggers(b store.Batch) bool {
	return mistake.Has(b, func(op store.Op) bool {
		j, ok := madeBy(b, op)
		return op.Kind == store.PutNew && ok && j.After == "" && j.Occurrence.Trigger != ""
	})
}

// calendarMutants show in days in which schedules are fired by hand and disabled, machines are
// suspended, and clocks are set back by more than an hour.
var calendarMutants = []Mutant{
	{Name: "a trigger moves the schedule on", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: restated(func(b store.Batch, _ schedule.State, next *schedule.State) {
			if triggers(b) {
				next.Last += time.Hour.Milliseconds()
			}
		})},
	{Name: "what was due while it was disabled is made up for", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: restated(func(_ store.Batch, was schedule.State, next *schedule.State) {
			if was.Disabled && !next.Disabled {
				next.Last = was.Last
			}
		})},
	{Name: "a clock that stops during suspend, over days", Rules: []string{"exclusive"}, Under: "days", Plant: stopsInSuspend},
}
