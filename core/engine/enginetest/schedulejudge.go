package enginetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// scheduleRows are a schedule's two rows.
type scheduleRows struct {
	def   schedule.Definition
	state schedule.State
}

func scheduleKey(id string, at int64) store.Key {
	return store.Key{Kind: store.KindSchedule, At: at, ID: id}
}

// scheduleIn reads a schedule's rows; false: there is none.
func (t *truth) scheduleIn(rows map[store.Key]store.Row, id string) (s scheduleRows, ok bool) {
	def, a := rows[scheduleKey(id, 0)]
	state, b := rows[scheduleKey(id, 1)]
	if a != b {
		t.w.violate("schedule-rows", "%s: has its definition %v, its state %v", id, a, b)
		return s, false
	}
	if a && (json.Unmarshal(def.Body, &s.def) != nil || json.Unmarshal(state.Body, &s.state) != nil) {
		t.w.violate("schedule-rows", "%s: %s, %s", id, def.Body, state.Body)
	}
	return s, a
}

// scheduleStep is what one batch does to one schedule.
type scheduleStep struct {
	t        *truth
	at       sim.ShardChange
	rows     map[store.Key]store.Row // before it
	change   engine.Change           // as the Observer was told
	old, new scheduleRows
	had, has bool
	wall     int64
	// inserted are the occurrences whose jobs the batch inserts.
	inserted []job.Occurrence
}

func (s *scheduleStep) bad(format string, args ...any) {
	s.t.w.violate("schedule", "%s: %s of %s at wall %d: %s\nfrom %+v\nto %+v\ninserted %v", s.at.To.Stamp, s.change.Kind,
		s.old.def.Key+"/"+s.new.def.Key, s.wall, fmt.Sprintf(format, args...), s.old.state, s.new.state, s.inserted)
}

// recurrences checks what a batch does to schedules and to jobs' sequences. The rows
// are those before it.
func (t *truth) recurrences(s *shardTruth, c sim.ShardChange) {
	after := sync.OnceValue(func() map[store.Key]store.Row { return afterwards(s.rows, c.Ops) })
	touched := map[string]bool{}
	inserted := map[string][]job.Occurrence{}
	bodies := map[string][]byte{}
	for _, op := range c.Ops {
		switch op.Row.Kind {
		case store.KindSchedule:
			if !op.IsRange() { // which removes nothing: the rule trim
				touched[op.Row.ID] = true
			}
		case store.KindPending:
			if op.Kind == store.Put {
				bodies[op.Row.ID] = op.Row.Body
			}
		}
	}
	for _, op := range c.Ops {
		if op.Kind != store.PutNew {
			continue
		}
		j, err := job.Decode(bodies[op.Row.ID])
		if err == nil && !j.Occurrence.IsZero() && j.After == "" {
			id := string(job.ScheduleID(c.Shard.Queue, j.Occurrence.Schedule, t.w.cfg.shards))
			inserted[id] = append(inserted[id], j.Occurrence)
			if j.ID != j.Occurrence.ID(c.Shard.Queue, t.w.cfg.shards) {
				t.w.violate("schedule", "job %s of %v", j.ID, j.Occurrence)
			}
			if !touched[id] {
				t.w.violate("schedule", "%s: %s is inserted, and its schedule does not change", c.To.Stamp, j.Key)
			}
		}
	}
	told := t.told[c.To.Nonce]
	for id := range touched {
		step := &scheduleStep{t: t, at: c, rows: s.rows, inserted: inserted[id]}
		step.old, step.had = t.scheduleIn(s.rows, id)
		step.new, step.has = t.scheduleIn(after(), id)
		if told == nil {
			return
		}
		step.wall = told.op.Wall
		key := step.old.def.Key + step.new.def.Key
		for _, x := range told.op.Changes {
			if x.Job == "" && (x.Occurrence.Schedule == step.old.def.Key || x.Occurrence.Schedule == step.new.def.Key) {
				step.change = x
			}
		}
		if step.change.Kind == "" {
			t.w.violate("changes", "%s: schedule %s changes and nobody was told", c.To.Stamp, key)
			continue
		}
		if top := t.w.shownBy(told.p.node, c.At).UnixMilli(); step.wall > top {
			step.bad("its owner's clock had never shown more than %d", top)
		}
		step.judge()
		t.steps[id] = append(t.steps[id], appliedStep{at: c.At, kind: step.change.Kind, trigger: step.change.Occurrence.Trigger,
			has: step.has, body: string(after()[scheduleKey(id, 0)].Body), disabled: step.new.state.Disabled})
	}
	t.sequences(s, c, after)
}

// afterwards are the rows after a batch.
func afterwards(rows map[store.Key]store.Row, ops []store.Op) map[store.Key]store.Row {
	rows = maps.Clone(rows)
	for _, op := range ops {
		switch op.Kind {
		case store.Delete:
			delete(rows, op.Row.Key)
		case store.Put, store.PutNew:
			rows[op.Row.Key] = op.Row
		}
	}
	return rows
}

// judge checks one step by its kind.
func (s *scheduleStep) judge() {
	before, after := s.old.state, s.new.state
	s.t.w.counts["judged-"+string(s.change.Kind)]++
	c := s.change
	if s.has && (c.Last != after.Last || c.Waiting != len(after.Queue) || c.Missed != after.Missed-before.Missed ||
		c.Skipped != after.Skipped-before.Skipped) && s.had {
		s.bad("told %+v", c)
	}
	if s.had && s.has && after.Last < before.Last {
		s.bad("nominal times fall")
	}
	switch c.Kind {
	case engine.StepRemove:
		if !s.had || s.has || len(s.inserted) > 0 {
			s.bad("it was there %v, is %v", s.had, s.has)
		}
		return
	case engine.StepPut:
		s.judgePut()
		return
	}
	if !s.had || !s.has {
		s.bad("it was there %v, is %v", s.had, s.has)
		return
	}
	switch c.Kind {
	case engine.StepEnable:
		want := before
		want.Disabled, want.Last = false, max(before.Last, s.wall)
		s.want(want)
	case engine.StepDisable:
		want := before
		want.Disabled, want.Queue, want.Skipped = true, nil, before.Skipped+int64(len(before.Queue))
		s.want(want)
	case engine.StepTrigger:
		s.judgeTrigger()
	case engine.StepFire:
		s.judgeFire()
	case engine.StepOver:
		s.judgeOver()
	default:
		s.bad("unknown")
	}
}

// want compares the state after the step.
func (s *scheduleStep) want(want schedule.State) {
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(s.new.state)
	if string(a) != string(b) {
		s.bad("want %s", a)
	}
}

func (s *scheduleStep) judgePut() {
	after := s.new.state
	switch {
	case !s.has || len(s.inserted) > 0:
		s.bad("it is there %v", s.has)
	case !s.had && (after.Created != s.wall || after.Fired+after.Missed+after.Skipped+after.Ended != 0 || after.Disabled ||
		!after.Active.IsZero() || len(after.Queue) > 0):
		s.bad("not a new one")
	case s.had:
		want := s.old.state
		if s.new.def.Overlap == schedule.OverlapAllow {
			want.Active = job.Occurrence{}
		}
		if s.old.def.Timing != s.new.def.Timing {
			want.Created, want.Last = s.wall, max(want.Last, after.Last)
		}
		s.want(want)
	}
	first := s.wall
	if s.new.def.Kind == schedule.At {
		first = min(first, s.new.def.At.UnixMilli())
	}
	if !s.had && after.Last < first-1 {
		s.bad("it would fire what was before it")
	}
}

func (s *scheduleStep) exclusive() bool { return s.old.def.Overlap != schedule.OverlapAllow }

func (s *scheduleStep) judgeTrigger() {
	want := s.old.state
	o := s.change.Occurrence
	switch busy := s.exclusive() && !want.Active.IsZero(); {
	case !busy && slices.Equal(s.inserted, []job.Occurrence{o}):
		want.Fired++
		if s.exclusive() {
			want.Active = o
		}
	case busy && s.old.def.Overlap == schedule.OverlapQueue && len(s.inserted) == 0:
		want.Queue = append(slices.Clone(want.Queue), o)
	default:
		s.bad("triggered %v", o)
	}
	s.want(want)
}

// nominal are the times that are to be decided, in (after, upTo].
func (s *scheduleStep) nominal(st schedule.State, after, upTo int64) []int64 {
	d := s.old.def
	if c := s.t.w.calendar; c != nil && d.Kind == schedule.Cron {
		return c.in(s.t.w, d, after, upTo)
	}
	if d.Kind != schedule.FixedDelay {
		return nominal(d, st.Created, after, upTo)
	}
	first := max(st.Created, 0)
	if !d.At.IsZero() {
		first = max(first, d.At.UnixMilli())
	}
	if st.Last >= first {
		first = max(st.Ended, st.Last) + d.Every.Milliseconds()
	}
	if !st.Active.IsZero() || first <= after || first > upTo || !d.Until.IsZero() && first >= d.Until.UnixMilli() {
		return nil
	}
	return []int64{first}
}

// judgeFire decides each nominal time by itself, up to where the step has come, by the
// table in core/schedule's documentation.
func (s *scheduleStep) judgeFire() {
	d, want := s.old.def, s.old.state
	var fired []job.Occurrence
	fire := func(o job.Occurrence) {
		if s.exclusive() {
			want.Active = o
		}
		if s.existed(o) {
			s.t.w.counts["void"]++
			if want.Active == o {
				want.Active = job.Occurrence{}
			}
			return
		}
		fired = append(fired, o)
		want.Fired++
	}
	busy := func() bool { return s.exclusive() && !want.Active.IsZero() }
	for len(want.Queue) > 0 && !busy() {
		o := want.Queue[0]
		if !s.exclusive() && !slices.Contains(s.inserted, o) && !s.existed(o) {
			break // the next batch's
		}
		want.Queue = want.Queue[1:]
		fire(o)
	}
	upTo := s.new.state.Last
	if want.Disabled && upTo != want.Last || upTo > max(s.wall, want.Last) {
		s.bad("it is disabled, or early")
		return
	}
	due := s.nominal(want, want.Last, s.wall)
	for n, t := range due {
		if t > upTo {
			if len(fired) == 0 && !s.tooLate(t) {
				s.bad("%d is due and was not decided", t)
			}
			break
		}
		o := job.Occurrence{Schedule: d.Key, Nominal: t}
		switch {
		case s.tooLate(t) && !(d.Misfire == schedule.MisfireOnce && n == len(due)-1):
			want.Missed++
			s.t.w.counts["missed"]++
		case !busy():
			if s.wall-t > millisOf(d.Grace) {
				s.t.w.counts["misfire"]++
			}
			fire(o)
		case d.Overlap == schedule.OverlapQueue && len(want.Queue) < schedule.MaxQueue:
			want.Queue = append(slices.Clone(want.Queue), o)
			s.t.w.counts["queued"]++
		default:
			want.Skipped++
			s.t.w.counts["skipped"]++
		}
	}
	want.Last = upTo
	if !slices.Equal(fired, s.inserted) {
		s.bad("want jobs of %v", fired)
	}
	s.want(want)
}

// existed: the occurrence's job was there before.
func (s *scheduleStep) existed(o job.Occurrence) bool {
	_, exists := s.rows[store.Key{Kind: store.KindJob, ID: string(o.ID(s.at.Shard.Queue, s.t.w.cfg.shards))}]
	return exists && !slices.Contains(s.inserted, o)
}

func millisOf(d time.Duration) int64 { return d.Milliseconds() }

// tooLate: by the policy the time is not fired any more.
func (s *scheduleStep) tooLate(t int64) bool {
	d := s.old.def
	if d.Misfire == schedule.MisfireAll {
		return s.wall-t > millisOf(d.Window)
	}
	return d.Kind != schedule.FixedDelay && s.wall-t > millisOf(d.Grace)
}

// judgeOver: an occurrence has ended. What was due until then, by a clock that showed
// no more than now, found it at work.
func (s *scheduleStep) judgeOver() {
	before, after := s.old.state, s.new.state
	want := before
	n := int64(len(s.nominal(before, before.Last, after.Last)))
	queued := int64(len(after.Queue) - len(before.Queue))
	missed, skipped := after.Missed-before.Missed, after.Skipped-before.Skipped
	want.Active, want.Ended, want.Last = job.Occurrence{}, after.Ended, after.Last
	want.Missed, want.Skipped, want.Queue = after.Missed, after.Skipped, after.Queue
	if before.Active.IsZero() || s.change.Occurrence != before.Active || len(s.inserted) > 0 || after.Ended > s.wall ||
		after.Last > max(before.Last, after.Ended) {
		s.bad("%v ends", s.change.Occurrence)
	}
	if missed+skipped+queued != n || before.Disabled && n > 0 || s.old.def.Overlap == schedule.OverlapSkip && queued > 0 {
		s.bad("%d nominal times: %d missed, %d skipped, %d queued", n, missed, skipped, queued)
	}
	s.want(want)
}

// unfinishedSchedules names schedules that wait for something or have times to come.
func (w *World) unfinishedSchedules() string {
	var out []string
	t := &truth{w: w}
	for _, id := range w.shardIDs() {
		_, list := w.store.ShardRows(id)
		rows := map[store.Key]store.Row{}
		for _, r := range list {
			rows[r.Key] = r
		}
		for _, r := range list {
			if r.Kind != store.KindSchedule || r.At != 0 {
				continue
			}
			s, _ := t.scheduleIn(rows, r.ID)
			step := scheduleStep{t: t, old: s}
			st := s.state
			if !st.Active.IsZero() || len(st.Queue) > 0 || !st.Disabled && len(step.nominal(st, st.Last, st.Last+time.Hour.Milliseconds())) > 0 {
				out = append(out, fmt.Sprintf("%s %+v", s.def.Key, st))
			}
		}
	}
	sort.Strings(out)
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprint(out)
}
