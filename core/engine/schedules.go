package engine

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// recurring is a schedule in memory, as the last settled batch left it.
type recurring struct {
	id    job.ID
	def   *schedule.Schedule // nil: broken says why
	body  []byte             // the definition's row
	state schedule.State
	// next is when to decide about it, in ms since 1970.
	next   int64
	broken error
	// exists are occurrences that are not to be fired: their jobs were there before.
	exists map[job.Occurrence]bool
	// fireBytes is the most that one occurrence takes in a batch, stateBytes the
	// state.
	fireBytes, stateBytes int
	place                 int // in the heap
}

// schedules are those of a shard.
type schedules struct {
	byID  map[job.ID]*recurring
	wakes places[*recurring]
	// loaded: every row has been read. Nothing that concerns a schedule is planned
	// before.
	loaded, loading bool
	cursor          store.Key
	graves          graves
}

// Places of a schedule's rows (store.Key.At).
const (
	AtDefinition = 0
	AtState      = 1
)

func newSchedules() schedules {
	sooner := func(a, b *recurring) bool {
		if a.next != b.next {
			return a.next < b.next
		}
		return a.id < b.id
	}
	return schedules{byID: map[job.ID]*recurring{}, wakes: places[*recurring]{less: sooner},
		cursor: store.Key{Kind: store.KindSchedule, At: -1, ID: afterAll}}
}

// newRecurring makes a schedule of its definition's row.
func newRecurring(id job.ID, def *schedule.Schedule, body []byte) *recurring {
	return &recurring{id: id, def: def, body: body, next: schedule.Never, exists: map[job.Occurrence]bool{},
		fireBytes: enqueueBytes(id, len(longestBody(def))), stateBytes: stateRoom(def.Key)}
}

// longestBody is a job of the schedule whose encoding is as long as any. What was
// decoded, or encoded before, can be encoded.
func longestBody(def *schedule.Schedule) []byte {
	body, _ := longestJob(def).Encode()
	return body
}

func longestJob(def *schedule.Schedule) job.Job {
	return def.JobOf(job.Occurrence{Schedule: def.Key, Nominal: 1000*lastSecond + 999, Trigger: strings.Repeat("t", schedule.MaxTrigger)})
}

// lastSecond is in the last year that can be written in four digits.
const lastSecond = 253402300799

func readRecurring(row store.Row, shards int) *recurring {
	broken := func(err error) *recurring {
		return &recurring{id: job.ID(row.ID), body: row.Body, broken: err, next: schedule.Never}
	}
	d, err := schedule.Decode(row.Body)
	if err != nil {
		return broken(err)
	}
	def, err := schedule.New(d, shards)
	if err != nil {
		return broken(err)
	}
	if def.ID() != job.ID(row.ID) {
		return broken(fmt.Errorf("the row of %s holds schedule %q", row.ID, d.Key))
	}
	return newRecurring(def.ID(), def, row.Body)
}

func (r *recurring) keyAt(at int64) store.Key {
	return store.Key{Kind: store.KindSchedule, At: at, ID: string(r.id)}
}

// stateOp writes a state, whose encoding cannot fail.
func (r *recurring) stateOp(st schedule.State) store.Op {
	body, _ := json.Marshal(st)
	return put(store.Row{Key: r.keyAt(AtState), Body: body})
}

// stateRoom is the most bytes that the state of a schedule takes. Occurrences may wait from
// before its definition was changed, whatever it says now.
func stateRoom(key string) int {
	const id, numbers, names = 40, 300, 70
	quoted, _ := json.Marshal(key)
	return store.RowBytes + id + numbers + (1+schedule.MaxQueue)*(names+len(quoted)+schedule.MaxTrigger)
}

// scheduleRange returns the next range of schedule rows to read, if there is one.
func (m *machine) scheduleRange() (store.Range, bool) {
	s := &m.schedules
	if s.loaded || s.loading {
		return store.Range{}, false
	}
	s.loading = true
	return store.Range{Kind: store.KindSchedule, AfterAt: s.cursor.At, AfterID: s.cursor.ID, UpTo: AtState, Limit: m.cfg.page}, true
}

var errNoState = errors.New("its state is missing")

// schedulesRead takes a page: all definitions come before all states.
func (m *machine) schedulesRead(rows []store.Row, failed bool) {
	s := &m.schedules
	s.loading = false
	for _, row := range rows {
		r := s.byID[job.ID(row.ID)]
		if row.At == AtDefinition {
			r = readRecurring(row, m.cfg.first)
			if r.def != nil {
				r.broken = errNoState
			}
			s.byID[r.id] = r
		} else if r != nil && r.def != nil {
			r.broken = json.Unmarshal(row.Body, &r.state)
		}
	}
	switch {
	case failed:
		return
	case len(rows) == m.cfg.page:
		s.cursor = rows[len(rows)-1].Key
		return
	}
	s.loaded = true
	for _, r := range s.byID {
		s.add(r)
		if r.broken != nil {
			m.out = append(m.out, effect{kind: effLate, late: Lateness{Schedule: r.name(), Err: r.broken}})
		}
	}
}

// name is the schedule's key, or its id if that cannot be read.
func (r *recurring) name() string {
	if r.def == nil {
		return string(r.id)
	}
	return r.def.Key
}

// add takes a schedule in the place of the one that it replaces.
func (s *schedules) add(r *recurring) {
	s.remove(s.byID[r.id])
	r.next = schedule.Never
	if r.broken == nil {
		r.next = r.def.Next(r.state, 0)
	}
	s.byID[r.id] = r
	heap.Push(&s.wakes, r)
}

func (s *schedules) remove(r *recurring) {
	if r == nil {
		return
	}
	delete(s.byID, r.id)
	if s.wakes.has(r) {
		heap.Remove(&s.wakes, r.place)
	}
}

// stop keeps a schedule from being decided by itself, until something else changes
// it.
func (s *schedules) stop(r *recurring) {
	r.next = schedule.Never
	if s.wakes.has(r) {
		heap.Fix(&s.wakes, r.place)
	}
}

// due takes out the schedules that are to be decided by now, the longest due first,
// while take wants more.
func (s *schedules) due(now int64, take func(*recurring) bool) {
	var out []*recurring
	for len(s.wakes.list) > 0 && s.wakes.list[0].next <= now {
		r := heap.Pop(&s.wakes).(*recurring)
		out = append(out, r)
		if !take(r) {
			break
		}
	}
	for _, r := range out {
		heap.Push(&s.wakes, r)
	}
}

// wake is when the next decision is due.
func (s *schedules) wake() int64 {
	if !s.loaded || len(s.wakes.list) == 0 {
		return schedule.Never
	}
	return s.wakes.list[0].next
}

func (r *recurring) spot() *int { return &r.place }

// graves are the ids of removed schedules, in order, whose deleted rows a scan passes over
// between two that are left: schedules have fixed places, so that no mark can rise over them.
type graves struct {
	ids []string
	// fresh are those that were dug since it was last looked how many lie together.
	fresh []string
}

func (g *graves) dig(id string) {
	if at, there := slices.BinarySearch(g.ids, id); !there {
		g.ids = slices.Insert(g.ids, at, id)
	}
	g.fresh = append(g.fresh, id)
}

// reopen: the schedule was put again.
func (g *graves) reopen(id string) { g.clear(func(dead string) bool { return dead == id }) }

func (g *graves) clear(which func(id string) bool) {
	g.ids, g.fresh = slices.DeleteFunc(g.ids, which), slices.DeleteFunc(g.fresh, which)
}

// between counts those after one id and before another.
func (g *graves) between(after, before string) int {
	from, _ := slices.BinarySearch(g.ids, after)
	to, _ := slices.BinarySearch(g.ids, before)
	return to - from
}

// levels returns the range deletions of all places of schedules between two that are left,
// if enough lie there.
func (m *machine) levels(p *plan) []store.Op {
	g := &m.schedules.graves
	if !m.schedules.loaded {
		return nil
	}
	for ; len(g.fresh) > 0; g.fresh = g.fresh[1:] {
		after, before := m.schedules.beside(g.fresh[0])
		if g.between(after, before) < m.cfg.trimEvery {
			continue
		}
		var ops []store.Op
		for _, at := range []int64{AtDefinition, AtState} {
			ops = append(ops, store.Op{Kind: store.DeleteBetween, Row: store.Row{Key: store.Key{Kind: store.KindSchedule, At: at, ID: after}}, Before: before})
		}
		if slices.ContainsFunc(p.batch.Ops, func(op store.Op) bool {
			return op.Kind != store.Delete && (ops[0].Takes(op.Row.Key) || ops[1].Takes(op.Row.Key))
		}) {
			return nil // one is put there at the same time: in the next batch
		}
		return ops
	}
	return nil
}

// beside are the ids of the schedules before and after the place of one that was removed.
func (s *schedules) beside(id string) (after, before string) {
	before = afterAll
	for other := range s.byID {
		switch other := string(other); {
		case other < id:
			after = max(after, other)
		case other > id:
			before = min(before, other)
		}
	}
	return after, before
}

// buried takes note of what a settled batch has done to rows of schedules.
func (s *schedules) buried(ops []store.Op) {
	for _, op := range ops {
		switch k := op.Row.Key; {
		case k.Kind != store.KindSchedule || k.At != AtState:
		case op.Kind == store.Delete:
			s.graves.dig(k.ID)
		case op.Kind == store.DeleteBetween:
			s.graves.clear(func(id string) bool { return op.Takes(store.Key{Kind: k.Kind, At: k.At, ID: id}) })
		case s.byID[job.ID(k.ID)] == nil:
			s.graves.reopen(k.ID)
		}
	}
}
