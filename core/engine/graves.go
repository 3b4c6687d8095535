package engine

import (
	"slices"

	"fencepost/core/job"
	"fencepost/core/store"
)

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
