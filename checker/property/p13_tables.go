package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// need is what the statements on a table need.
type need int

const (
	// fencedRows are written on condition only, and read from a quorum.
	fencedRows need = iota + 1
	// agreedRows say how all data centres agree: written on condition by all of them, read near
	// by or in consensus.
	agreedRows
	// quorumRows are written plainly and read by others: a write and a read must meet.
	quorumRows
	// noteRows are for people: nothing rests on them.
	noteRows
)

// design is what the harness knows of the tables of a design. It is no part of what it judges: a
// program says neither which tables it has nor how they must be read.
type design struct {
	tables map[string]need
	// serial are the operations that rest on a read in consensus, with the table that they read.
	serial map[history.Op]string
}

// coreTables are those of core/store/cassandra and core/sink/cassandra.
var coreTables = map[string]need{
	"locks": fencedRows, "sink": fencedRows, "ids": fencedRows, "queues": fencedRows, "shards": fencedRows, "inbox": fencedRows,
	"settings": agreedRows,
	"members":  quorumRows, // heartbeats: one that is missed looks like a death
	"runs":     noteRows,
}

// designs are those that are known, by the name in the expect note.
var designs = map[string]design{
	history.TablesCore: {coreTables, map[history.Op]string{history.OpRead: "locks", history.OpGet: "sink"}},
	history.TablesLockPerJob: {
		with(coreTables, map[string]need{
			"lpj_locks": fencedRows, "lpj_jobs": quorumRows, "lpj_pending": quorumRows, "lpj_runs": quorumRows,
		}),
		map[history.Op]string{history.OpRead: "lpj_locks", history.OpGet: "sink"},
	},
}

// KnownTables are the tables of a design that are known, in order.
func KnownTables(of string) []string { return slices.Sorted(maps.Keys(designs[of].tables)) }

func with(a, b map[string]need) map[string]need {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// design is the one whose tables the run has; false: nobody knows.
func (a *Judgement) design() (d design, sink, known bool) {
	for _, e := range a.Expects {
		if t := e.Expect().Tables; t != nil {
			d, known = designs[t.Of]
			return d, t.Sink, known
		}
	}
	return d, false, false
}

// lintTables judges one shape by what its tables need, beyond what fenced ones do (lint).
func (s *shape) lintTables(d design) (out []lintFinding) {
	for _, st := range s.stmts {
		need, reads := d.tables[st.table], st.verb == "SELECT"
		if s.conditional || need != quorumRows && need != agreedRows {
			continue
		}
		kind, what := lintApart, ""
		switch {
		case need == agreedRows && !reads:
			kind, what = lintPlainWrite, ", whose rows are written on condition"
		case !slices.Contains(quorums, s.consistency()) && !(reads && slices.Contains(serials, s.consistency())):
			what = " at " + phrase.OrNone(s.consistency()) + ": its writes and reads need not meet in a replica, so what one process " +
				"writes another may miss"
		default:
			continue
		}
		message := st.verb + " on the table " + st.table + what + ": " + s.ev.Statement().CQL
		return []lintFinding{{kind, st.table, message, s, []*history.Event{s.ev}}}
	}
	return nil
}

// unknownStatements are the shapes that links carried and that nobody could judge, as they are
// about a table that the harness does not know, or change tables.
func (a *Judgement) unknownStatements() (out []lintFinding) {
	d, _, known := a.design()
	if !known {
		return nil
	}
	seen := map[string]bool{}
	for _, e := range a.Witness.OnLinks {
		s, err := newShape(e)
		if err != nil {
			continue // P13 tells
		}
		for _, st := range s.stmts {
			what := ""
			switch {
			case st.verb == "USE" || strings.HasPrefix(st.keyspace, "system_") || st.keyspace == "system":
			case slices.Contains(ddl, st.verb):
				what = st.verb + " of table " + phrase.OrNone(st.table)
			case d.tables[st.table] == 0:
				what = st.verb + " on table " + st.table
			}
			if what == "" || seen[what] {
				continue
			}
			seen[what] = true
			out = append(out, lintFinding{lintUnknown, st.table, fmt.Sprintf(
				"the link of %s carried a statement that the harness does not know (%s), so its consistency could not be judged: add the table, "+
					"with what its reads and writes need, to checker/property/p13_tables.go: %s", e.Key, what, e.Statement().CQL), s,
				[]*history.Event{e}})
		}
	}
	return out
}

// outside are reads of one worker on one table that had to be in consensus, while its link
// carried none that was.
type outside struct {
	worker, table string
	reads         []*past.Op
	plain         *history.Event // how its link carried reads of that table; nil: none
}

func (o outside) message() string {
	first, how := o.reads[0].Invoke, "and none of the table at all"
	if o.plain != nil {
		how = "but " + o.plain.Statement().CQL + " at " + strings.ToUpper(o.plain.Statement().Consistency)
	}
	return fmt.Sprintf("%s reads table %s outside of consensus where it decides by what it reads (%s): while the %s of %s by %s was under way, "+
		"its link carried no read of that row at SERIAL or LOCAL_SERIAL, %s",
		o.worker, o.table, phrase.Plural(len(o.reads), "time"), first.Op, first.Key, first.Proc, how)
}

func (o outside) events() []*history.Event {
	events := past.Events(o.reads[0])
	if o.plain != nil {
		events = append(events, o.plain)
	}
	return events
}

// outsideReads compares the operations that rest on a read in consensus with the reads that the
// links carried, one by one, and says how many there are.
func (a *Judgement) outsideReads() (out []outside, n int) {
	d, sink, known := a.design()
	if !known || !a.Witness.Reads[history.WitnessStatements] || len(a.Witness.Gaps[history.WitnessStatements]) > 0 {
		return nil, 0
	}
	type place struct{ worker, table string }
	carried := map[place][]*history.Event{}
	for _, e := range a.Witness.Serial {
		at := place{e.Key, e.SerialRead().Table}
		carried[at] = append(carried[at], e)
	}
	for _, list := range carried {
		slices.SortStableFunc(list, func(e, f *history.Event) int { return cmp.Compare(e.TS, f.TS) })
	}
	missing := map[place]*outside{}
	for _, o := range a.readsThatDecide(sink) {
		n++
		at := place{history.Worker(o.Invoke.Proc), d.serial[o.Invoke.Op]}
		if carriedFor(o, carried[at]) {
			continue
		}
		if missing[at] == nil {
			missing[at] = &outside{worker: at.worker, table: at.table, plain: a.plainRead(at.worker, at.table)}
		}
		missing[at].reads = append(missing[at].reads, o)
	}
	for _, o := range missing {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(o, p outside) int { return cmp.Or(cmp.Compare(o.worker, p.worker), cmp.Compare(o.table, p.table)) })
	return out, n
}

// readsThatDecide are the workers' answered reads of locks, and of the sink if it is on the nodes.
func (a *Judgement) readsThatDecide(sink bool) (out []*past.Op) {
	for _, l := range a.Rows {
		for _, r := range l.Reads {
			out = append(out, r.Op)
		}
	}
	for _, s := range a.Sinks {
		if sink {
			out = append(out, s.Gets...)
		}
	}
	return slices.DeleteFunc(out, func(o *past.Op) bool {
		return history.Life(o.Invoke.Proc) == history.Harness || o.Outcome != history.OK
	})
}

// carriedFor says whether one of the reads is an operation's: of its row, while it was under way.
func carriedFor(o *past.Op, reads []*history.Event) bool {
	first := sort.Search(len(reads), func(i int) bool { return reads[i].TS >= o.Invoke.TS })
	for _, e := range reads[first:] {
		if e.TS > o.End.TS {
			return false
		}
		if row := e.SerialRead().Row; row == "" || row == o.Invoke.Key {
			return true
		}
	}
	return false
}

// plainRead is how a worker's link carried reads of a table outside of consensus; nil: not at all.
func (a *Judgement) plainRead(worker, table string) *history.Event {
	for _, e := range a.Witness.OnLinks {
		s, err := newShape(e)
		if err == nil && e.Key == worker && s.stmts[0].verb == "SELECT" && s.stmts[0].table == table &&
			!slices.Contains(serials, s.consistency()) {
			return e
		}
	}
	return nil
}

// outsideConsensus takes the reads that should have been in consensus.
func (x *Inquiry) outsideConsensus() {
	all, _ := x.outsideReads()
	for _, o := range all {
		s := x.suspect("read-outside-consensus", written, len(o.reads), "%s", o.message())
		var chain []Step
		if o.plain != nil {
			chain = append(chain, x.before(o.plain, "%s", firstUse(o.plain, "a read of table "+o.table+" at "+o.plain.Statement().Consistency)))
		}
		end := o.reads[0].End
		chain = append(chain, x.mistake(end, "%s takes what it read of %s for what was decided; its link carried no read in consensus meanwhile",
			o.reads[0].Invoke.Proc, o.reads[0].Invoke.Key))
		s.showAt(o.table, end, chain...)
	}
}
