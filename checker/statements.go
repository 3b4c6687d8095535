package checker

import (
	"context"
	"slices"
	"strings"

	"fencepost/harness/history"
)

// shape is one statement note, understood.
type shape struct {
	ev          *history.Event
	stmts       []statement
	conditional bool
}

func (s *shape) consistency() string { return strings.ToUpper(s.ev.Statement.Consistency) }
func (s *shape) serial() string      { return strings.ToUpper(s.ev.Statement.SerialConsistency) }

// Consistencies of which any two of a kind meet in a replica.
var (
	quorums = []string{"QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL"}
	serials = []string{"SERIAL", "LOCAL_SERIAL"}
)

// fencedTables are fenced though a run may happen not to write them.
var fencedTables = []string{"locks", "sink", "ids", "queues", "shards", "inbox"}

// plainTables are written plainly and by nothing else; their rows may expire.
var plainTables = []string{"runs", "members"}

// checkStatements is P13, a lint of the shapes of all statements.
func checkStatements(_ context.Context, a *analysis, p *Property) {
	if len(a.shapes) == 0 {
		a.noStatements(p)
		return
	}
	var shapes []*shape
	fenced := map[string]bool{}
	for _, t := range fencedTables {
		fenced[t] = true
	}
	seen := map[history.Statement]bool{}
	for _, e := range a.shapes {
		if seen[*e.Statement] {
			continue // every process notes its own first use
		}
		seen[*e.Statement] = true
		p.Checked++
		stmts, err := parseCQL(e.Statement.CQL)
		if err != nil {
			p.add("", []*history.Event{e}, "a statement is not understood, so it cannot be judged: %v: %s", err, e.Statement.CQL)
			continue
		}
		s := &shape{ev: e, stmts: stmts, conditional: stmts[0].conditional}
		shapes = append(shapes, s)
		for _, st := range stmts {
			fenced[st.table] = fenced[st.table] || s.conditional && st.table != "" && !slices.Contains(plainTables, st.table)
		}
	}
	serialOf := map[string]*shape{}
	for _, s := range shapes {
		s.lint(fenced, p)
		s.lintMixing(serialOf, p)
	}
	p.Detail = plural(p.Checked, "statement shape") + ": consistencies, expiry, timestamps, unconditional writes and weak reads of fenced tables"
}

// noStatements: a foreign system need not record its statements. One that says in
// so many words that it keeps P13 must show them.
func (a *analysis) noStatements(p *Property) {
	p.Status, p.Detail = StatusNA, "not judged: no statement was recorded"
	for _, head := range a.h.Headers {
		if slices.Contains(head.Promises, "P13") {
			p.Status, p.Detail = StatusUnknown, "the system promises P13 but recorded no statement"
		}
	}
}

// lint judges one shape by itself. Each statement of a batch counts, a rule once.
func (s *shape) lint(fenced map[string]bool, p *Property) {
	said := map[string]bool{}
	bad := func(st statement, what string) {
		if !said[what] {
			said[what] = true
			p.add(st.table, []*history.Event{s.ev}, "%s: %s", what, s.ev.Statement.CQL)
		}
	}
	for _, st := range s.stmts {
		if st.filtering {
			bad(st, "a read with ALLOW FILTERING, which may scan every node")
		}
		if s.conditional {
			if !slices.Contains(serials, s.serial()) {
				bad(st, "a conditional statement with serial consistency "+orNone(s.serial())+" instead of SERIAL or LOCAL_SERIAL")
			}
			if !slices.Contains(quorums, s.consistency()) {
				bad(st, "a conditional statement commits at "+orNone(s.consistency())+": a later read at QUORUM may miss it")
			}
		}
		if s.conditional && slices.Contains(plainTables, st.table) {
			bad(st, "a conditional statement on the table "+st.table+", whose rows are written plainly: neither would see the other")
		}
		if !fenced[st.table] {
			continue
		}
		if st.using != "" {
			bad(st, "a statement on the fenced table "+st.table+" uses a "+st.using+": its rows must neither expire nor be ordered by a client's clock")
		}
		switch st.verb {
		case "SELECT":
			if !slices.Contains(quorums, s.consistency()) && !slices.Contains(serials, s.consistency()) {
				bad(st, "a read of the fenced table "+st.table+" at "+orNone(s.consistency())+", which may miss what was decided")
			}
		case "INSERT", "UPDATE", "DELETE", "TRUNCATE":
			if !s.conditional {
				bad(st, "an unconditional "+st.verb+" on the fenced table "+st.table+": it overwrites what conditional statements decide")
			}
		}
	}
}

// lintMixing: SERIAL and LOCAL_SERIAL are two different consensus groups.
func (s *shape) lintMixing(serialOf map[string]*shape, p *Property) {
	for _, st := range s.stmts {
		mine := s.serialUse(st)
		if mine == "" {
			continue
		}
		other := serialOf[st.table]
		if other == nil {
			serialOf[st.table] = s
			continue
		}
		for _, o := range other.stmts {
			if o.table == st.table && other.serialUse(o) != mine {
				p.add(st.table, []*history.Event{other.ev, s.ev}, "table %s is used at %s and at %s in one run: they do not see each other's undecided rounds", st.table, other.serialUse(o), mine)
				return
			}
		}
	}
}

// serialUse is the serial consistency at which a statement of the shape takes part
// in consensus, "" if it does not.
func (s *shape) serialUse(st statement) string {
	use := ""
	switch {
	case s.conditional:
		use = s.serial()
	case st.verb == "SELECT":
		use = s.consistency()
	}
	if !slices.Contains(serials, use) {
		return ""
	}
	return use
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
