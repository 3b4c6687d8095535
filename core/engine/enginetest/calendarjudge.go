package enginetest

import (
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// yearLog is what the store's history says of one schedule of a run of many days, seen
// from outside: the jobs that there are, and when its owners had decided what.
type yearLog struct {
	def   schedule.Definition
	upset bool // its definition changes: what it decides is judged step by step alone
	// excused are the nominal times that came while it was disabled, less the triggers that a
	// disabling dropped.
	excused int64
	first   int64 // of its nominal times; -1: it was never put
	state   schedule.State
	got     map[int64]int // jobs by nominal time
	// queued are the nominal times that have waited for the occurrence before them.
	queued map[int64]bool
	// owed: since when an owner, by its own clock, has had a nominal time to decide.
	owed  time.Time
	fence int64
}

// judgeCalendar compares the jobs of each schedule with the list of its nominal times.
// What each single batch decides is judged beside it; this is about the whole.
func (w *World) judgeCalendar(t *truth) {
	logs := map[string]*yearLog{}
	shards := map[store.ShardID][]*yearLog{}
	for _, s := range w.schedules {
		id := w.scheduleID(s)
		l := &yearLog{def: s.defs[0], upset: len(s.defs) > 1, first: -1, got: map[int64]int{}, queued: map[int64]bool{}}
		logs[string(id)] = l
		shards[shardIn(s.queue, id)] = append(shards[shardIn(s.queue, id)], l)
	}
	last, unowned := map[store.ShardID]time.Time{}, map[store.ShardID]time.Duration{}
	for _, c := range w.store.ShardChanges() {
		told := t.told[c.To.Nonce]
		if told == nil {
			continue // judged beside
		}
		if before, ok := last[c.Shard]; ok && c.At.Sub(before) > w.cfg.ttl {
			unowned[c.Shard] += c.At.Sub(before)
		}
		last[c.Shard] = c.At
		for _, op := range c.Ops {
			switch {
			case isState(op):
				l := logs[op.Row.ID]
				s, _ := t.scheduleIn(map[store.Key]store.Row{op.Row.Key: op.Row, scheduleKey(op.Row.ID, 0): {Body: []byte("{}")}}, op.Row.ID)
				w.excuse(l, s.state, told.op.Wall)
				for _, o := range s.state.Queue {
					if o.Trigger == "" {
						w.comes(l, o.Nominal, told.p.node, c.At)
						l.queued[o.Nominal] = true
					}
				}
				if l.state = s.state; l.first < 0 {
					l.first = s.state.Created
				}
			case op.Row.Kind == store.KindPending && op.Kind == store.Put && op.Row.Run == 0:
				j, err := job.Decode(op.Row.Body)
				if err != nil || j.After != "" || j.Occurrence.IsZero() || j.Occurrence.Trigger != "" {
					continue
				}
				l := logs[string(job.ScheduleID(c.Shard.Queue, j.Occurrence.Schedule, w.cfg.shards))]
				l.got[j.Occurrence.Nominal]++
				w.comes(l, j.Occurrence.Nominal, told.p.node, c.At)
			}
		}
		if told.op.Kind == engine.OpTick {
			for _, l := range shards[c.Shard] {
				w.judgeOwed(l, c.To.Fence, c.At, told.op.Wall)
			}
		}
	}
	for _, l := range logs {
		w.judgeYear(l, t)
	}
	for shard, d := range unowned {
		if most := w.disturbed(); d > most {
			w.violate("calendar-unowned", "%s had no owner for %s, and all that happened explains %s", shard, d, most)
		}
	}
}

// comes judges that a nominal time has come by the clock of the owner who decides it: who takes its queue
// over later fires what waits in it, whatever its own clock shows.
func (w *World) comes(l *yearLog, nominal int64, node int, at time.Time) {
	if top := w.shownBy(node, at).UnixMilli(); nominal > top && !l.queued[nominal] {
		w.violate("calendar", "%s at %d: fired or queued %d ms before its time", l.def.Key, nominal, nominal-top)
	}
}

// excuse counts the nominal times that an enabling passes over, and the triggers that a disabling
// drops: those count as skipped, and are no nominal times.
func (w *World) excuse(l *yearLog, next schedule.State, wall int64) {
	switch was := l.state; {
	case l.first < 0 || l.upset || l.def.Kind == schedule.FixedDelay:
	case was.Disabled && !next.Disabled:
		l.excused += int64(len(w.list(l, was.Last, max(was.Last, wall))))
	case !was.Disabled && next.Disabled:
		for _, o := range was.Queue {
			if o.Trigger != "" {
				l.excused--
			}
		}
	}
}

// judgeOwed: an owner that ticks decides what is due by its own clock. It may be slow for
// as long as its requests are, and decides nothing more when it stops.
func (w *World) judgeOwed(l *yearLog, fence int64, at time.Time, wall int64) {
	due := l.first >= 0 && !l.upset && !l.state.Disabled && l.def.Kind != schedule.FixedDelay && len(w.list(l, l.state.Last, wall)) > 0
	switch {
	case !due:
		l.owed = time.Time{}
	case l.owed.IsZero() || l.fence != fence:
		l.owed, l.fence = at, fence
	case at.Sub(l.owed) > 2*w.cfg.ttl:
		w.violate("calendar-late", "%s: its owner of fence %d has not decided what was due %s ago: it stands at %d, the clock at %d",
			l.def.Key, fence, at.Sub(l.owed), l.state.Last, wall)
	}
}

// list are the nominal times of a schedule in (after, upTo].
func (w *World) list(l *yearLog, after, upTo int64) []int64 {
	if l.def.Kind == schedule.Cron {
		return w.calendar.in(w, l.def, after, upTo)
	}
	return nominal(l.def, l.first, after, upTo)
}

// judgeYear: each nominal time has one job, or was passed over and counted.
func (w *World) judgeYear(l *yearLog, t *truth) {
	d := l.def
	if l.first < 0 {
		w.violate("calendar", "%s was never put", d.Key)
		return
	}
	if l.upset {
		return
	}
	passed := l.state.Missed + l.state.Skipped + l.excused
	if l.state.Disabled && d.Kind != schedule.FixedDelay {
		passed += int64(len(w.list(l, l.state.Last, d.Until.UnixMilli())))
	}
	if d.Kind == schedule.FixedDelay {
		w.judgeDelays(l)
	} else {
		for _, n := range w.list(l, l.first-1, d.Until.UnixMilli()) {
			switch l.got[n] {
			case 0:
				passed--
			case 1:
				w.counts["nominal-fired"]++
			default:
				w.violate("calendar", "%s: %d jobs for its nominal time %s", d.Key, l.got[n], time.UnixMilli(n).UTC())
			}
			delete(l.got, n)
		}
		for n := range l.got {
			w.violate("calendar", "%s: a job for %s, which is none of its times (%s in %s)", d.Key, time.UnixMilli(n).UTC(), d.Cron, d.Zone)
		}
		if passed != 0 {
			w.violate("calendar", "%s (%s in %s, %s, %s): it counts %d missed and %d skipped, and that is %d too many", d.Key, d.Cron,
				d.Zone, d.Misfire, d.Overlap, l.state.Missed, l.state.Skipped, passed)
		}
	}
	if d.Overlap == schedule.OverlapAllow && l.state.Skipped > 0 {
		w.violate("calendar", "%s skips %d times, though they may overlap", d.Key, l.state.Skipped)
	}
	w.counts["nominal-missed"] += int(l.state.Missed)
	w.counts["nominal-skipped"] += int(l.state.Skipped)
	if zone, err := time.LoadLocation(d.Zone); err == nil && d.Kind == schedule.Cron {
		_, a := w.cfg.epoch.In(zone).Zone()
		_, b := d.Until.In(zone).Zone()
		if a != b {
			w.counts["clocks-changed"]++
		}
	}
}

// judgeDelays: between two jobs there is at least the delay.
func (w *World) judgeDelays(l *yearLog) {
	var times []int64
	for n, count := range l.got {
		times = append(times, n)
		if count > 1 {
			w.violate("calendar", "%s: %d jobs for its nominal time %d", l.def.Key, count, n)
		}
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] < l.def.Every.Milliseconds() {
			w.violate("calendar", "%s: %d comes %d ms after the time before", l.def.Key, times[i], times[i]-times[i-1])
		}
	}
}

// disturbed is for how long a shard may have had no owner: what happened to processes,
// and the takeovers after it.
func (w *World) disturbed() time.Duration {
	const takeovers = 4 // in ttls: the owner's last tick, looks, and requests that are lost
	sum := time.Duration(w.counts["crash"]+1) * takeovers * w.cfg.ttl
	for _, e := range w.cfg.events {
		if e.kind != "clock" {
			sum += e.length + takeovers*w.cfg.ttl
		}
	}
	return sum
}
