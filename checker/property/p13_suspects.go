package property

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// statements takes what the statements' texts say. Which operation a statement is of
// shows where it is first used: within the operations that were under way then.
func (x *Inquiry) statements() {
	found, _ := x.lint()
	for _, f := range found {
		id := map[string]string{
			lintUsing: "rows-expire", lintWeakRead: "weak-read", lintMixed: "mixed-serial", lintSerial: "weak-condition",
			lintCommit:    "weak-condition",
			lintFiltering: "statement-unfit", lintUnparsed: "statement-unfit", lintMisstated: "statement-misstated",
			lintRemote: "remote-coordinator", lintDomain: "other-agreement", lintApart: "writes-and-reads-apart",
		}[f.kind]
		switch {
		case f.kind == lintPlainWrite:
			x.plainWrite(f)
			continue
		case f.kind == lintUsing && !slices.ContainsFunc(f.shape.stmts, func(s statement) bool { return s.using == "TTL" }):
			id = "client-timestamps"
		}
		s := x.suspect(id, written, 1, "%s", f.message)
		var chain []Step
		for _, e := range f.events {
			chain = append(chain, x.mistake(e, "%s", firstUse(e, "this statement")))
		}
		s.show(f.table, f.events[0].TS, nil, chain...)
	}
}

// firstUse says what a statement note shows.
func firstUse(e *history.Event, what string) string {
	if w := past.Sender(e); w == e.Key {
		return fmt.Sprintf("the link of %s carries %s for the first time", w, what)
	}
	return fmt.Sprintf("%s says that it uses %s", history.Life(e.Proc), what)
}

// plainWrite says whose an unconditional write is.
func (x *Inquiry) plainWrite(f lintFinding) {
	st := f.shape.stmts[slices.IndexFunc(f.shape.stmts, func(s statement) bool { return s.table == f.table })]
	ids := []string{"unconditional-write"}
	switch f.table {
	case "sink":
		if st.verb == "DELETE" || st.verb == "TRUNCATE" {
			ids = []string{"ledger-emptied"}
		}
	case "shards":
		ids = []string{"write-beside-the-tick"}
		if x.setsFence(f.shape.stmts) {
			ids = []string{"unconditional-tick"}
		}
	default:
		if kinds := x.kindsBehind(f); len(kinds) > 0 {
			ids = kinds
		}
	}
	for _, id := range ids {
		s := x.suspect(id, written, 1, "%s", f.message)
		if len(ids) > 1 {
			s.Group = "plain " + f.table
		}
		x.showPlain(s, id, f)
	}
}

// setsFence says whether a statement writes a column that the conditions on its table name.
func (x *Inquiry) setsFence(stmts []statement) bool {
	names := map[string]bool{}
	for _, st := range x.parsed() {
		for _, n := range st.names {
			names[st.table+"."+n] = true
		}
	}
	return slices.ContainsFunc(stmts, func(st statement) bool {
		return slices.ContainsFunc(st.sets, func(c string) bool { return names[st.table+"."+c] })
	})
}

// plainKinds are the mechanisms of plain writes to a lock's row.
var plainKinds = map[string]history.Op{"unconditional-takeover": history.OpAcquire, "unconditional-renewal": history.OpRenew,
	"unconditional-release": history.OpRelease}

// kindsBehind are the mechanisms whose operations were under way at every first use of
// a statement. If they are several, those that contradict the row's chain count.
func (x *Inquiry) kindsBehind(f lintFinding) []string {
	var left []string
	first := true
	for _, e := range x.Shapes {
		if *e.Statement() != *f.shape.ev.Statement() {
			continue
		}
		var here []string
		for _, id := range slices.Sorted(maps.Keys(plainKinds)) {
			if (first || slices.Contains(left, id)) && x.underWay(past.Sender(e), plainKinds[id], e.TS) {
				here = append(here, id)
			}
		}
		left, first = here, false
	}
	var bad []string
	for _, id := range left {
		if earlier, _ := x.overwritten(plainKinds[id]); earlier != nil {
			bad = append(bad, id)
		}
	}
	if len(bad) > 0 {
		return bad
	}
	return left
}

// underWay says whether a worker had an operation of a kind on a lock's row in flight;
// of acquires, a takeover.
func (x *Inquiry) underWay(worker string, kind history.Op, at int64) bool {
	for _, l := range x.Rows {
		for _, c := range l.CAS {
			if c.Kind() != kind || kind == history.OpAcquire && !c.Invoke.Takeover || history.Worker(c.Invoke.Proc) != worker || c.Invoke.TS > at {
				continue
			}
			if c.End == nil || c.End.TS >= at {
				return true
			}
		}
	}
	return false
}

// overwritten finds an acknowledged write of a kind that cannot have found the version
// that it names: the grant that had come between, and the write.
func (x *Inquiry) overwritten(kind history.Op) (earlier *past.Grant, c *past.CAS) {
	for _, l := range x.Rows {
		if l.Shard {
			continue
		}
		taken := takeoversOf(l)
		for _, c := range l.CAS {
			if c.Kind() != kind || c.Outcome != history.OK {
				continue
			}
			limit := c.Invoke.TS
			if kind == history.OpAcquire {
				limit = c.End.TS
			}
			if g := taken.before(limit); g != nil && g.Acquire != c && (g.Fence > c.To.Fence || kind == history.OpAcquire && g.Fence == c.To.Fence) {
				return g, c
			}
		}
	}
	return nil, nil
}

func (x *Inquiry) showPlain(s *Suspect, id string, f lintFinding) {
	e := f.events[0]
	note := x.before(e, "%s: %s", firstUse(e, "a statement without a condition"), shorten(e.Statement().CQL))
	if kind, ok := plainKinds[id]; ok {
		if g, c := x.overwritten(kind); g != nil {
			s.show(g.Row.Name, c.End.TS, []string{g.Acquire.Invoke.Proc, c.Invoke.Proc}, note, x.granted(RoleBefore, g),
				x.mistake(c.End, "%s by %s to %s was applied all the same, %s", c.Kind(), c.Invoke.Proc, g.Row.Text(c.To), sendText(&c.Op)))
			return
		}
	}
	note.Role = RoleMistake
	s.show(f.table, e.TS, []string{past.Sender(e)}, note)
}

// shorten keeps the beginning of a statement.
func shorten(cql string) string {
	cql = strings.Join(strings.Fields(cql), " ")
	if r := []rune(cql); len(r) > 120 {
		return string(r[:120]) + " …"
	}
	return cql
}
