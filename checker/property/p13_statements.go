package property

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P13",
		title: "statements use the right consistency",
		by:    "the statements that the links carried",
		run:   checkStatements,
		soFar: checkShapes, // of two files that grow one may be behind
		part:  "the shapes of statements",
		rules: []rule{{find: (*Inquiry).statements}, {find: (*Inquiry).outsideConsensus}},
		mechanisms: []mechanism{
			{id: "unconditional-takeover", Accounts: ofTexts,
				Statement: "a takeover writes the row without a condition: a process that took it meanwhile is overwritten",
				Apart:     "a takeover that is rejected"},
			{id: "unconditional-renewal", Accounts: ofTexts,
				Statement: "a renewal writes the row without asking whose it is: it revives a lease that has passed on",
				Apart:     "a renewal of a lapsed lease that is rejected"},
			{id: "unconditional-release", Accounts: ofTexts,
				Statement: "a release writes the row without a condition: it overwrites the process that has it by then",
				Apart:     "a release of a lost lease that is rejected"},
			{id: "unconditional-tick", Accounts: ofTexts,
				Statement: "an owner's batch writes the shard's header without a condition: a late one overwrites the next owner's"},
			{id: "write-beside-the-tick", Accounts: ofTexts,
				Statement: "rows of jobs are written outside of their owner's conditional batch"},
			{id: "unconditional-write", Accounts: ofTexts, Statement: "a fenced table is written without a condition"},
			{id: "rows-expire", Accounts: ofTexts, Statement: "rows that carry fencing tokens expire: the counter begins again at 1"},
			{id: "row-deleted", Accounts: ofRows, Statement: "rows that carry fencing tokens are deleted: the counter begins again at 1"},
			{id: "client-timestamps", Accounts: ofTexts,
				Statement: "fenced rows are written with a client's timestamps: the later write can lose"},
			{id: "weak-read", Statement: "fenced rows are read from too few replicas: what was decided may be missed"},
			{id: "read-outside-consensus",
				Statement: "what decides is read outside of consensus: a decision that is half-way may be missed, and happen after it",
				Apart:     "a read in consensus on the link"},
			{id: "writes-and-reads-apart",
				Statement: "plain rows are written or read at too few replicas: what one process writes another may miss"},
			{id: "mixed-serial",
				Statement: "one table is used at SERIAL and at LOCAL_SERIAL: two groups decide that do not see each other"},
			{id: "weak-condition", Statement: "a conditional statement is decided or committed at too weak a consistency"},
			{id: "statement-unfit", Statement: "a statement scans the table or cannot be understood"},
			{id: "remote-coordinator", Accounts: ofTexts,
				Statement: "rows are asked for through a node of another data centre than the one in which all processes are to agree: " +
					"what is decided there this one does not see"},
			{id: "other-agreement", Accounts: ofTexts,
				Statement: "a statement is decided or read by another quorum than the one by which all processes are to agree"},
			{id: "statement-misstated", Statement: "a worker records its statements at other consistencies than it sends them"},
		},
	})
}

// shape is one statement note, understood.
type shape struct {
	ev          *history.Event
	stmts       []statement
	conditional bool
}

func (s *shape) consistency() string { return strings.ToUpper(s.ev.Statement().Consistency) }

// serial is of conditional statements: the others have no use for one, though drivers send it
// with each. A request that names none is SERIAL by the protocol.
func (s *shape) serial() string {
	set := strings.ToUpper(s.ev.Statement().SerialConsistency)
	if set == "" && s.conditional && history.Life(s.ev.Proc) == history.Harness {
		return "SERIAL"
	}
	return set
}

// setting is at what a shape is sent.
type setting struct{ consistency, serial string }

func (s *shape) setting() setting {
	if !s.conditional {
		return setting{consistency: s.consistency()}
	}
	return setting{s.consistency(), s.serial()}
}

func (x setting) String() string {
	if x.serial == "" {
		return phrase.OrNone(x.consistency)
	}
	return phrase.OrNone(x.consistency) + " and " + x.serial
}

// Consistencies of which any two of a kind meet in a replica.
var (
	quorums = []string{"QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL"}
	serials = []string{"SERIAL", "LOCAL_SERIAL"}
)

// fencedTables are fenced though a run may happen not to write them.
var fencedTables = []string{"locks", "sink", "ids", "queues", "shards", "inbox"}

// plainTables are written plainly and by nothing else; their rows may expire.
var plainTables = []string{"runs", "members"}

// Kinds of what the lint finds.
const (
	lintUnparsed   = "not understood"
	lintFiltering  = "filtering"
	lintSerial     = "serial"
	lintCommit     = "commit"
	lintUsing      = "using"
	lintWeakRead   = "weak read"
	lintPlainWrite = "plain write"
	lintMixed      = "mixed"
	lintMisstated  = "misstated"
	lintRemote     = "remote"
	lintDomain     = "domain"
	lintApart      = "apart"
	lintUnknown    = "unknown"
)

// lintFinding is one thing that is wrong with a shape.
type lintFinding struct {
	kind    string
	table   string
	message string
	shape   *shape
	events  []*history.Event
}

// sentAs: a claim that leaves the serial consistency out says nothing of it.
func (s *shape) sentAs(claim *shape) bool {
	return claim.setting() == s.setting() || claim.serial() == "" && claim.consistency() == s.consistency()
}

// checkStatements is P13: the shapes of all statements, and whether each read that decides was
// in consensus.
func checkStatements(ctx context.Context, a *Judgement, p *Property) {
	checkShapes(ctx, a, p)
	outside, reads := a.outsideReads()
	for _, o := range outside {
		p.add(o.table, o.events(), "%s", o.message())
	}
	if reads > 0 {
		p.Detail += "; " + phrase.Plural(reads, "read") + " in consensus"
	}
	if p.Count == 0 {
		a.unseenStatements(p)
	}
}

// checkShapes is a lint of the shapes of all statements: those that the harness read on the
// links. What a worker says that it sends can only speak against it.
func checkShapes(_ context.Context, a *Judgement, p *Property) {
	found, shapes := a.lint()
	for _, f := range found {
		p.add(f.table, f.events, "%s", f.message)
	}
	p.Checked = shapes
	p.Detail = phrase.Plural(p.Checked, "statement shape") +
		" as sent: consistencies, expiry, timestamps, unconditional writes and weak reads of fenced tables"
}

// unseenStatements: what nobody but the workers tells of is not shown. A system that says in
// so many words that it keeps P13 must let its statements be read, where they can be.
func (a *Judgement) unseenStatements(p *Property) {
	gaps := a.Witness.Gaps[history.WitnessStatements]
	reads := a.Witness.Reads[history.WitnessStatements]
	switch {
	case len(gaps) > 0:
		p.Detail = "not judged: " + gaps[0].Error
	case !reads:
		p.Detail = "not judged: nobody but the workers says what they sent"
	case len(a.Witness.OnLinks) == 0: // nothing was checked
		p.Checked, p.Detail = 0, "no statement was sent on the links"
		return
	default:
		return
	}
	p.Status = StatusNA
	for _, head := range a.History.Headers {
		if slices.Contains(head.Promises, "P13") && (reads || len(gaps) == 0) {
			p.Status = StatusUnknown
		}
	}
}

// lint judges all shapes, each once, and says how many there are.
func (a *Judgement) lint() (out []lintFinding, n int) {
	var shapes []*shape
	fenced := map[string]bool{}
	for _, t := range fencedTables {
		fenced[t] = true
	}
	known, _, _ := a.design()
	for t, need := range known.tables {
		fenced[t] = fenced[t] || need == fencedRows
	}
	type use struct {
		Cql, Datacenter string
		setting
	}
	seen := map[use]bool{}
	for _, e := range a.Shapes {
		s, err := newShape(e)
		u := use{Cql: e.Statement().CQL, Datacenter: e.Statement().Datacenter, setting: s.setting()}
		if seen[u] {
			continue // every process has its own first use
		}
		seen[u] = true
		n++
		if err != nil {
			out = append(out, lintFinding{kind: lintUnparsed, message: fmt.Sprintf("a statement is not understood, so it cannot be judged: %v: %s",
				err, e.Statement().CQL), events: []*history.Event{e}})
			continue
		}
		shapes = append(shapes, s)
		for _, st := range s.stmts {
			fenced[st.table] = fenced[st.table] || s.conditional && st.table != "" && !slices.Contains(plainTables, st.table)
		}
	}
	serialOf := map[string]*shape{}
	for _, s := range shapes {
		out = append(append(out, s.lint(fenced)...), s.lintMixing(serialOf)...)
		out = append(out, s.lintTables(known)...)
		if in := a.Agreement(); in != nil {
			out = append(out, s.lintAgreement(in, fenced)...)
		}
	}
	return append(out, a.misstatements()...), n
}

// parsed are the statements of all shapes that are understood.
func (a *Judgement) parsed() (out []statement) {
	for _, e := range a.Shapes {
		if stmts, err := ParseCQL(e.Statement().CQL); err == nil {
			out = append(out, stmts...)
		}
	}
	return out
}

func newShape(e *history.Event) (*shape, error) {
	stmts, err := ParseCQL(e.Statement().CQL)
	return &shape{ev: e, stmts: stmts, conditional: err == nil && stmts[0].conditional}, err
}

// misstatements finds statements that a worker sent at other settings than it says. What it
// says nothing of, such as what its driver asks by itself, is judged by what was sent alone.
func (a *Judgement) misstatements() (out []lintFinding) {
	type use struct{ Worker, Cql string }
	said := map[use][]*shape{}
	for _, e := range a.Witness.ByWorkers {
		if s, err := newShape(e); err == nil {
			u := use{Worker: past.Sender(e), Cql: withoutLiterals(e.Statement().CQL)}
			said[u] = append(said[u], s)
		}
	}
	for _, e := range a.Witness.OnLinks {
		claims := said[use{Worker: e.Key, Cql: withoutLiterals(e.Statement().CQL)}]
		s, err := newShape(e)
		if len(claims) == 0 || err != nil || slices.ContainsFunc(claims, s.sentAs) {
			continue
		}
		message := fmt.Sprintf("%s sent a statement at %s, and says that it sends it at %s: %s",
			e.Key, s.setting(), claims[0].setting(), e.Statement().CQL)
		out = append(out, lintFinding{lintMisstated, s.stmts[0].table, message, s, []*history.Event{e, claims[0].ev}})
	}
	return out
}

// lint judges one shape by itself. Each statement of a batch counts, a rule once.
func (s *shape) lint(fenced map[string]bool) (out []lintFinding) {
	said := map[string]bool{}
	bad := func(kind string, st statement, what string) {
		if !said[what] {
			said[what] = true
			out = append(out, lintFinding{kind, st.table, what + ": " + s.ev.Statement().CQL, s, []*history.Event{s.ev}})
		}
	}
	for _, st := range s.stmts {
		if st.filtering {
			bad(lintFiltering, st, "a read with ALLOW FILTERING, which may scan every node")
		}
		if s.conditional {
			if !slices.Contains(serials, s.serial()) {
				bad(lintSerial, st, "a conditional statement with serial consistency "+phrase.OrNone(s.serial())+" instead of SERIAL or LOCAL_SERIAL")
			}
			if !slices.Contains(quorums, s.consistency()) {
				bad(lintCommit, st, "a conditional statement commits at "+phrase.OrNone(s.consistency())+": a later read at QUORUM may miss it")
			}
		}
		if s.conditional && slices.Contains(plainTables, st.table) {
			bad(lintMixed, st, "a conditional statement on the table "+st.table+", whose rows are written plainly: neither would see the other")
		}
		if !fenced[st.table] {
			continue
		}
		if st.using != "" {
			bad(lintUsing, st,
				"a statement on the fenced table "+st.table+" uses a "+st.using+": its rows must neither expire nor be ordered by a client's clock")
		}
		switch st.verb {
		case "SELECT":
			if !slices.Contains(quorums, s.consistency()) && !slices.Contains(serials, s.consistency()) {
				bad(lintWeakRead, st, "a read of the fenced table "+st.table+" at "+phrase.OrNone(s.consistency())+", which may miss what was decided")
			}
		case "INSERT", "UPDATE", "DELETE", "TRUNCATE":
			if !s.conditional {
				bad(lintPlainWrite, st,
					"an unconditional "+st.verb+" on the fenced table "+st.table+": it overwrites what conditional statements decide")
			}
		}
	}
	return out
}

// lintMixing: SERIAL and LOCAL_SERIAL are two different consensus groups.
func (s *shape) lintMixing(serialOf map[string]*shape) []lintFinding {
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
				message := fmt.Sprintf("table %s is used at %s and at %s in one run: they do not see each other's undecided rounds",
					st.table, other.serialUse(o), mine)
				return []lintFinding{{lintMixed, st.table, message, s, []*history.Event{other.ev, s.ev}}}
			}
		}
	}
	return nil
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

// localQuorums are consistencies of which any two meet in a replica of one data centre.
var localQuorums = []string{"LOCAL_QUORUM", "EACH_QUORUM", "ALL"}

// lintAgreement judges one shape by where and how the system is to agree. A driver may ask
// any node about the cluster itself, but what it asks about rows the node's own data centre
// answers: LOCAL_SERIAL there is another agreement.
func (s *shape) lintAgreement(in *history.Agreement, fenced map[string]bool) (out []lintFinding) {
	bad := func(kind, table, what string) {
		out = append(out, lintFinding{kind, table, what + ": " + s.ev.Statement().CQL, s, []*history.Event{s.ev}})
	}
	at := slices.IndexFunc(s.stmts, func(st statement) bool { return st.rows() })
	if at < 0 {
		return nil
	}
	table := s.stmts[at].table
	if dc := s.ev.Statement().Datacenter; dc != "" && dc != in.Datacenter {
		bad(lintRemote, table,
			fmt.Sprintf("%s asked a node of data centre %s, and the run's processes agree in %s", past.Sender(s.ev), dc, in.Datacenter))
	}
	if !slices.ContainsFunc(s.stmts, func(st statement) bool { return fenced[st.table] }) {
		return out
	}
	if use := s.serialUse(s.stmts[at]); use != "" && use != in.Serial {
		bad(lintDomain, table,
			fmt.Sprintf("a statement on the fenced table %s takes part in consensus at %s, and the run's processes agree by %s in %s",
				table, use, in.Serial, in.Datacenter))
	}
	if in.Serial == "LOCAL_SERIAL" && slices.Contains(quorums, s.consistency()) && !slices.Contains(localQuorums, s.consistency()) {
		bad(lintDomain, table, fmt.Sprintf("a statement on the fenced table %s at %s, which may miss what a quorum of %s alone decided",
			table, s.consistency(), in.Datacenter))
	}
	return out
}

// rows says that a statement is about rows of the run: not of the database's own keyspaces,
// and not about tables.
func (s statement) rows() bool {
	return slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"}, s.verb) && s.keyspace != "system" &&
		!strings.HasPrefix(s.keyspace, "system_")
}
