package checker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// real are the shapes that the core sends, as its notes show them.
var real = []history.Statement{
	{CQL: "SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?", Consistency: "QUORUM"},
	{CQL: "SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?", Consistency: "SERIAL"},
	{CQL: "INSERT INTO locks (resource, fence) VALUES (?, ?) IF NOT EXISTS", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "UPDATE locks SET fence = ?, beat = ? WHERE resource = ? IF fence = ? AND beat = ?", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "BEGIN UNLOGGED BATCH UPDATE sink SET highest = ? WHERE resource = ? AND kind = 0 IF highest = ?; INSERT INTO sink (resource, kind, seq) VALUES (?, 2, ?); APPLY BATCH", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "DELETE FROM sink WHERE resource = ? AND kind = 1 AND key = ? IF attempt = ?", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "SELECT seq, entry FROM sink WHERE resource = ? AND kind = 2", Consistency: "QUORUM"},
	{CQL: "SELECT kind FROM sink WHERE resource = ? AND (kind, seq, key) IN ((0, 0, ''), (1, 0, ?))", Consistency: "SERIAL"},
	{CQL: "UPDATE ids SET next_id = ?, recent = ? WHERE name = ? IF next_id = ?", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "BEGIN UNLOGGED BATCH UPDATE shards SET tick = ? WHERE queue = ? AND shard = ? AND kind = 0 AND at = 0 AND id = '' IF fence = ? AND tick = ? AND nonce = ?; " +
		"INSERT INTO shards (queue, shard, kind, at, id) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS; DELETE FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND at <= ?; APPLY BATCH", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "SELECT at, id FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND (at, id) > (?, ?) AND (at) <= (?) LIMIT ?", Consistency: "QUORUM"},
	{CQL: "DELETE FROM inbox WHERE queue = ? AND shard = ? AND id = ? IF nonce = ?", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "BEGIN UNLOGGED BATCH INSERT INTO runs (queue, shard, day, job, run) VALUES (?, ?, ?, ?, ?); APPLY BATCH", Consistency: "QUORUM"},
	{CQL: "INSERT INTO members (cell, name, nonce) VALUES (?, ?, ?) USING TTL ?", Consistency: "QUORUM"},
	{CQL: "DELETE FROM members WHERE cell = ? AND name = ?", Consistency: "QUORUM"},
}

// statementsRun is a run in which w1 sends the statements, and notes them if it says so.
func statementsRun(noted bool, stmts ...history.Statement) *history.History {
	return statementsExpecting(history.Expect{}, noted, stmts...)
}

func statementsExpecting(x history.Expect, noted bool, stmts ...history.Statement) *history.History {
	y := newTiny("w1.1")
	y.expect(x)
	y.witness(history.WitnessStatements, "")
	for i := range stmts {
		if noted {
			y.note(1, "w1.1", history.Event{Op: history.NoteStatement, Details: &history.Details{Statement: &stmts[i]}})
		}
		sent := stmts[i]
		if sent.SerialConsistency == "" && i%2 == 0 {
			sent.SerialConsistency = "SERIAL" // as many drivers do with every request
		}
		y.sent("w1", sent)
	}
	cycle(y, 100, 200, "w1.1/c1", 1)
	return y.end(300)
}

// witness notes that the harness reads something on the links, or why it cannot.
func (y *tiny) witness(of, unread string) {
	y.note(1, history.Harness, history.Event{Op: history.NoteWitness, Key: of, Error: unread})
}

// sent is a statement that a worker's link carried.
func (y *tiny) sent(worker string, st history.Statement) {
	y.note(1, history.Harness, history.Event{Op: history.NoteStatement, Key: worker, Details: &history.Details{Statement: &st}})
}

func TestStatements(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{true, false} {
		r := tinyCheck(t, statementsRun(noted, append(slices.Clone(real), real...)...), "")
		if p := propertyOf(r, "P13"); p.Status != StatusPass || p.Checked != len(real) {
			t.Errorf("%s, %d checked: %s", p.Status, p.Checked, p.Detail)
		}
	}
	const q, s = "QUORUM", "SERIAL"
	cas := func(cql string) history.Statement {
		return history.Statement{CQL: cql, Consistency: q, SerialConsistency: s}
	}
	plain := func(cql, consistency string) history.Statement {
		return history.Statement{CQL: cql, Consistency: consistency}
	}
	for name, c := range map[string]struct {
		st      history.Statement
		message string // "": nothing is wrong
	}{
		"conditional at a wrong serial":  {history.Statement{CQL: "UPDATE locks SET a = 1 WHERE k = ? IF a = 0", Consistency: q, SerialConsistency: "QUORUM"}, "serial consistency QUORUM"},
		"local serial beside serial":     {history.Statement{CQL: "UPDATE locks SET a = 1 WHERE k = ? IF a = 0", Consistency: q, SerialConsistency: "LOCAL_SERIAL"}, "at SERIAL and at LOCAL_SERIAL"},
		"local serial read":              {plain("SELECT a FROM locks WHERE k = ?", "LOCAL_SERIAL"), "at SERIAL and at LOCAL_SERIAL"},
		"local serial, another table":    {history.Statement{CQL: "UPDATE other SET a = 1 WHERE k = ? IF a = 0", Consistency: "LOCAL_QUORUM", SerialConsistency: "LOCAL_SERIAL"}, ""},
		"commit at one":                  {history.Statement{CQL: "UPDATE locks SET a = 1 WHERE k = ? IF EXISTS", Consistency: "ONE", SerialConsistency: s}, "commits at ONE"},
		"commit at any":                  {history.Statement{CQL: "INSERT INTO locks (k) VALUES (?) IF NOT EXISTS", Consistency: "ANY", SerialConsistency: s}, "commits at ANY"},
		"commit at each quorum":          {history.Statement{CQL: "UPDATE locks SET a = 1 WHERE k = ? IF EXISTS", Consistency: "EACH_QUORUM", SerialConsistency: s}, ""},
		"ttl":                            {cas("UPDATE locks USING TTL 60 SET a = 1 WHERE k = ? IF a = 0"), "on the fenced table locks uses a TTL"},
		"insert with ttl":                {cas("INSERT INTO locks (k) VALUES (?) IF NOT EXISTS USING TTL ?"), "uses a TTL"},
		"timestamp":                      {cas("insert into Locks (k) values (?) if not exists using timestamp ?"), "uses a TIMESTAMP"},
		"batch with a timestamp":         {cas("BEGIN BATCH USING TIMESTAMP ? UPDATE sink SET a = 1 WHERE k = ? IF a = 0 APPLY BATCH"), "uses a TIMESTAMP"},
		"a ledger row with ttl":          {cas("BEGIN UNLOGGED BATCH UPDATE sink SET a = 1 WHERE k = ? IF a = 0; INSERT INTO sink (k) VALUES (?) USING TTL 5; APPLY BATCH"), "uses a TTL"},
		"ttl elsewhere":                  {plain("INSERT INTO cache (k) VALUES (?) USING TTL ?", "ONE"), ""},
		"default ttl":                    {plain("ALTER TABLE ks.locks WITH default_time_to_live = 600", q), "uses a TTL"},
		"default ttl of none":            {plain("CREATE TABLE IF NOT EXISTS ks.locks (k text PRIMARY KEY) WITH default_time_to_live = 0", q), ""},
		"plain update":                   {plain("UPDATE locks SET a = 1 WHERE k = ?", q), "an unconditional UPDATE on the fenced table locks"},
		"plain update with a keyspace":   {plain(`UPDATE "Ks"."locks" SET a = 1 WHERE k = ?`, q), "an unconditional UPDATE"},
		"plain update of a quoted name":  {plain(`UPDATE "Locks" SET a = 1 WHERE k = ?`, q), ""},
		"plain insert":                   {plain("INSERT INTO ids (name) VALUES (?)", q), "an unconditional INSERT on the fenced table ids"},
		"plain write of a job row":       {plain("INSERT INTO shards (queue, shard, kind, at, id) VALUES (?, ?, ?, ?, ?)", q), "an unconditional INSERT on the fenced table shards"},
		"plain delete from an inbox":     {plain("DELETE FROM inbox WHERE queue = ? AND shard = ? AND id = ?", q), "an unconditional DELETE on the fenced table inbox"},
		"conditional write of a run":     {cas("INSERT INTO runs (queue) VALUES (?) IF NOT EXISTS"), "whose rows are written plainly"},
		"conditional heartbeat":          {cas("INSERT INTO members (cell) VALUES (?) IF NOT EXISTS"), "whose rows are written plainly"},
		"a run in a conditional batch":   {cas("BEGIN UNLOGGED BATCH UPDATE shards SET tick = ? WHERE queue = ? IF tick = ?; INSERT INTO runs (queue) VALUES (?); APPLY BATCH"), "whose rows are written plainly"},
		"runs that expire, read at one":  {plain("BEGIN BATCH USING TTL 5 INSERT INTO runs (queue) VALUES (?); APPLY BATCH", "ONE"), ""},
		"plain delete":                   {plain("DELETE a FROM sink WHERE k = ?", q), "an unconditional DELETE on the fenced table sink"},
		"truncate":                       {plain("TRUNCATE TABLE locks", q), "an unconditional TRUNCATE"},
		"plain batch":                    {plain("BEGIN BATCH INSERT INTO sink (k) VALUES (?); INSERT INTO log (k) VALUES (?); APPLY BATCH;", q), "an unconditional INSERT"},
		"plain write elsewhere":          {plain("UPDATE log SET a = 'IF x = 1' WHERE k = ?", "ONE"), ""},
		"read at one":                    {plain("SELECT a FROM locks WHERE k = ?", "ONE"), "a read of the fenced table locks at ONE"},
		"read at local one":              {plain("SELECT a FROM ks.sink WHERE k = ?", "LOCAL_ONE"), "a read of the fenced table sink at LOCAL_ONE"},
		"read of another table at one":   {plain("SELECT key FROM system.local", "ONE"), ""},
		"filtering":                      {plain("SELECT a FROM log WHERE b = ? ALLOW FILTERING", q), "ALLOW FILTERING"},
		"no verb":                        {plain("EXPLODE locks", q), `not understood, so it cannot be judged: unknown verb "explode"`},
		"no table":                       {plain("SELECT 1", q), "no table is found"},
		"an open quote":                  {plain("UPDATE locks SET a = 'x WHERE k = ?", q), "a quote without its end"},
		"an open batch":                  {plain("BEGIN BATCH INSERT INTO log (k) VALUES (?)", q), "a batch that does not read"},
		"two statements":                 {plain("UPDATE log SET a = 1 WHERE k = 1; UPDATE log SET a = 2 WHERE k = 1", q), "several statements"},
		"nothing":                        {plain(" /* none */ ;", q), "it is empty"},
		"a keyword in a text or comment": {plain("INSERT INTO log (a, b) VALUES ($$ allow filtering $$, 'it''s ALLOW FILTERING') -- ALLOW FILTERING", q), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.message != "" {
				want = []string{"P13"}
			}
			for _, noted := range []bool{true, false} {
				r := tinyCheck(t, statementsRun(noted, append(slices.Clone(real), c.st)...), c.message, want...)
				if n := propertyOf(r, "P13").Count; n > 1 {
					t.Errorf("%d findings for one mistake", n)
				}
			}
		})
	}
}

// TestFencedTablesAreDerived: what a conditional statement writes is fenced,
// whatever the order of the notes and whatever its name.
func TestFencedTablesAreDerived(t *testing.T) {
	t.Parallel()
	plain := history.Statement{CQL: "UPDATE ledgers SET a = 1 WHERE k = ?", Consistency: "QUORUM"}
	cas := history.Statement{CQL: "UPDATE ks.ledgers SET a = 1 WHERE k = ? IF a = 0", Consistency: "QUORUM", SerialConsistency: "SERIAL"}
	tinyCheck(t, statementsRun(false, plain), "")
	tinyCheck(t, statementsRun(false, plain, cas), "an unconditional UPDATE on the fenced table ledgers", "P13")
}

// What a worker says of its statements is compared with what its link carried.
func TestMisstated(t *testing.T) {
	t.Parallel()
	const look = "SELECT fence FROM leases WHERE name = ?"
	cas := history.Statement{CQL: "UPDATE leases SET fence = ? WHERE name = ? IF fence = ?", Consistency: "QUORUM", SerialConsistency: "SERIAL"}
	at := func(level, serial string) history.Statement {
		return history.Statement{CQL: look, Consistency: level, SerialConsistency: serial}
	}
	for name, c := range map[string]struct {
		said, sent []history.Statement
		other      string // the worker that sends it
		message    string
	}{
		"as it says":          {said: []history.Statement{at("QUORUM", "")}, sent: []history.Statement{at("QUORUM", "SERIAL")}},
		"at two, both said":   {said: []history.Statement{at("QUORUM", ""), at("SERIAL", "")}, sent: []history.Statement{at("SERIAL", ""), at("QUORUM", "")}},
		"said and never sent": {said: []history.Statement{at("QUORUM", ""), at("SERIAL", "")}, sent: []history.Statement{at("QUORUM", "")}},
		"sent and never said": {said: []history.Statement{cas}, sent: []history.Statement{at("QUORUM", "")}},
		"another worker's":    {said: []history.Statement{at("QUORUM", "")}, sent: []history.Statement{at("SERIAL", "")}, other: "w2"},
		"two that differ in a literal, sent as one shape": {
			said: []history.Statement{{CQL: "SELECT a FROM leases WHERE kind = 1 AND n = 'x'", Consistency: "QUORUM"}, {CQL: "SELECT a FROM leases WHERE kind = 2 AND n = 'y'", Consistency: "SERIAL"}},
			sent: []history.Statement{{CQL: "SELECT a FROM leases WHERE kind = 1 AND n = 'x'", Consistency: "QUORUM"}, {CQL: "SELECT a FROM leases WHERE kind = 1 AND n = 'x'", Consistency: "SERIAL"}},
		},
		"stronger than said":             {said: []history.Statement{at("QUORUM", "")}, sent: []history.Statement{at("SERIAL", "")}, message: "w1 sent a statement at SERIAL, and says that it sends it at QUORUM"},
		"an unfenced one weaker":         {said: []history.Statement{at("QUORUM", "")}, sent: []history.Statement{at("ONE", "")}, message: "w1 sent a statement at ONE"},
		"a condition decided in one DC":  {said: []history.Statement{cas}, sent: []history.Statement{{CQL: cas.CQL, Consistency: "QUORUM", SerialConsistency: "LOCAL_SERIAL"}}, message: "at QUORUM and LOCAL_SERIAL, and says that it sends it at QUORUM and SERIAL"},
		"a note without its serial":      {said: []history.Statement{{CQL: cas.CQL, Consistency: "QUORUM"}}, sent: []history.Statement{cas}, message: "serial consistency (none)"},
		"a condition without its serial": {said: []history.Statement{cas}, sent: []history.Statement{{CQL: cas.CQL, Consistency: "QUORUM"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTiny("w1.1")
			y.expect(history.Expect{})
			y.witness(history.WitnessStatements, "")
			for i := range c.said {
				y.note(1, "w1.1", history.Event{Op: history.NoteStatement, Details: &history.Details{Statement: &c.said[i]}})
			}
			worker := "w1"
			if c.other != "" {
				worker = c.other
			}
			for i := range c.sent {
				y.sent(worker, c.sent[i])
			}
			cycle(y, 100, 200, "w1.1/c1", 1)
			var want []string
			if c.message != "" {
				want = []string{"P13"}
			}
			tinyCheck(t, y.end(300), c.message, want...)
		})
	}
}

// What nobody but the workers tells of is n/a, with the reason: unknown if the system promises
// P13 in so many words and the links could be read. A mistake that a worker itself notes is
// one all the same.
func TestNoStatements(t *testing.T) {
	t.Parallel()
	sound := history.Statement{CQL: "SELECT a FROM locks WHERE k = ?", Consistency: "QUORUM"}
	weak := history.Statement{CQL: "SELECT a FROM locks WHERE k = ?", Consistency: "ONE"}
	named := []string{"P1", "P13"}
	for name, c := range map[string]struct {
		promises []string
		make     func(*tiny)
		want     Status
		detail   string
	}{
		"no witness":                  {nil, nil, StatusNA, "nobody but the workers"},
		"no witness, others promised": {[]string{"P1"}, nil, StatusNA, "not promised"},
		"no witness, promised":        {named, nil, StatusUnknown, "nobody but the workers"},
		"nothing sent":                {nil, func(y *tiny) { y.witness(history.WitnessStatements, "") }, StatusNA, "no statement was sent"},
		"nothing sent, promised":      {named, func(y *tiny) { y.witness(history.WitnessStatements, "") }, StatusNA, "no statement was sent"},
		"only said": {nil, func(y *tiny) {
			y.note(1, "w1.1", history.Event{Op: history.NoteStatement, Details: &history.Details{Statement: &sound}})
		}, StatusNA, "nobody but the workers"},
		"only said, a mistake": {nil, func(y *tiny) {
			y.note(1, "w1.1", history.Event{Op: history.NoteStatement, Details: &history.Details{Statement: &weak}})
		}, StatusFail, ""},
		"TLS":                          {nil, func(y *tiny) { y.witness(history.WitnessStatements, "the links carry TLS") }, StatusNA, "the links carry TLS"},
		"TLS, promised":                {named, func(y *tiny) { y.witness(history.WitnessStatements, "the links carry TLS") }, StatusNA, "the links carry TLS"},
		"a link is not read":           {nil, unreadLink(sound), StatusNA, "w1->n2: it is compressed"},
		"a link is not read, promised": {named, unreadLink(sound), StatusUnknown, "w1->n2: it is compressed"},
		"a link is not read, a mistake on another": {nil, unreadLink(weak), StatusFail, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTiny("w1.1")
			y.expect(history.Expect{})
			if c.make != nil {
				c.make(y)
			}
			cycle(y, 100, 200, "w1.1/c1", 1)
			h := y.end(300)
			for i := range h.Headers {
				h.Headers[i].Promises = c.promises
			}
			var bad []string
			if c.want != StatusNA {
				bad = []string{"P13"}
			}
			r := tinyCheck(t, h, "", bad...)
			if p := propertyOf(r, "P13"); p.Status != c.want || !strings.Contains(p.Detail, c.detail) {
				t.Errorf("%s: %s", p.Status, p.Detail)
			}
		})
	}
}

func unreadLink(sent history.Statement) func(*tiny) {
	return func(y *tiny) {
		y.witness(history.WitnessStatements, "")
		y.sent("w1", sent)
		y.witness(history.WitnessStatements, "w1->n2: it is compressed")
	}
}

// TestNothingCheckedIsNothingShown: a system that promises a property of which the run has
// nothing makes it INVALID; one that does not, and a scenario that cannot, do not.
func TestNothingCheckedIsNothingShown(t *testing.T) {
	t.Parallel()
	most := everything()
	delete(most, "P13")
	for name, c := range map[string]struct {
		promises []string
		exempt   map[string]string
		stmts    []history.Statement
		want     Verdict
	}{
		"promises all":           {nil, most, nil, Invalid},
		"promises it":            {[]string{"P1", "P13"}, most, nil, Invalid},
		"does not promise it":    {[]string{"P1"}, most, nil, Pass},
		"exempt":                 {nil, everything(), nil, Pass},
		"one thing was checked":  {nil, most, real[:1], Pass},
		"exempt from others":     {nil, map[string]string{"P2": "this is another"}, nil, Invalid},
		"exempt and yet checked": {nil, everything(), real, Pass},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := statementsExpecting(history.Expect{Exempt: c.exempt}, false, c.stmts...)
			for i := range h.Headers {
				h.Headers[i].Promises = c.promises
			}
			r := Check(context.Background(), h, Options{})
			p := propertyOf(r, "P13")
			if r.Verdict != c.want || len(c.stmts) == 0 != (p.Status == StatusNA) {
				t.Errorf("%s: %s; P13 is %s", r.Verdict, r.Summary, p.Status)
			}
			said := slices.ContainsFunc(propertyOf(r, property.Validity).Violations, func(v Violation) bool { return strings.HasPrefix(v.Message, "nothing of P13") })
			if said != (c.want == Invalid) {
				t.Errorf("P14: %+v", propertyOf(r, property.Validity).Violations)
			}
		})
	}
}

func FuzzParseCQL(f *testing.F) {
	for _, s := range real {
		f.Add(s.CQL)
	}
	f.Add("BEGIN BATCH USING TTL")
	f.Add("'")
	f.Add("$$")
	f.Add("BEGIN BATCH USING APPLY BATCH")
	f.Fuzz(func(t *testing.T, cql string) {
		if stmts, err := property.ParseCQL(cql); err == nil && len(stmts) == 0 {
			t.Errorf("%q: no statement and no error", cql)
		}
	})
}

// local is the agreement of a run on two data centres.
var local = history.Agreement{Datacenter: "dc1", Nodes: []string{"n1", "n2", "n3"}, Serial: "LOCAL_SERIAL", Consistency: "LOCAL_QUORUM"}

// locally are the shapes that the core sends in a data centre.
func locally(dc string, all []history.Statement) []history.Statement {
	level := map[string]string{"QUORUM": "LOCAL_QUORUM", "SERIAL": "LOCAL_SERIAL"}
	out := slices.Clone(all)
	for i := range out {
		s := &out[i]
		s.Consistency, s.SerialConsistency, s.Datacenter = level[s.Consistency], level[s.SerialConsistency], dc
	}
	return out
}

// Where there are several data centres, every statement goes to a node of the one in which the
// processes agree, at that one's levels.
func TestAgreement(t *testing.T) {
	t.Parallel()
	const cas, read = "UPDATE locks SET fence = ? WHERE resource = ? IF fence = ?", "SELECT fence FROM locks WHERE resource = ?"
	at := func(dc, cql, consistency, serial string) history.Statement {
		return history.Statement{CQL: cql, Consistency: consistency, SerialConsistency: serial, Datacenter: dc}
	}
	for name, c := range map[string]struct {
		st      history.Statement
		message string // "": nothing is wrong
	}{
		"here":                         {at("dc1", cas, "LOCAL_QUORUM", "LOCAL_SERIAL"), ""},
		"there":                        {at("dc2", cas, "LOCAL_QUORUM", "LOCAL_SERIAL"), "w1 asked a node of data centre dc2, and the run's processes agree in dc1"},
		"a read there":                 {at("dc2", read, "LOCAL_QUORUM", ""), "asked a node of data centre dc2"},
		"a read in consensus there":    {at("dc2", read, "LOCAL_SERIAL", ""), "asked a node of data centre dc2"},
		"a heartbeat there":            {at("dc2", "INSERT INTO ks.members (cell, name) VALUES (?, ?) USING TTL ?", "LOCAL_QUORUM", ""), "asked a node of data centre dc2"},
		"about the cluster there":      {at("dc2", "SELECT * FROM system.peers", "ONE", ""), ""},
		"about the schema there":       {at("dc2", "SELECT * FROM system_schema.tables WHERE keyspace_name = ?", "ONE", ""), ""},
		"choosing the keyspace there":  {at("dc2", `USE "ks"`, "ONE", ""), ""},
		"decided by all":               {at("dc1", "UPDATE other SET a = 1 WHERE k = ? IF a = 0", "LOCAL_QUORUM", "SERIAL"), "takes part in consensus at SERIAL, and the run's processes agree by LOCAL_SERIAL in dc1"},
		"read at all":                  {at("dc1", read, "ALL", ""), ""},
		"read at a quorum of all":      {at("dc1", read, "QUORUM", ""), "at QUORUM, which may miss what a quorum of dc1 alone decided"},
		"committed at a quorum of all": {at("dc1", cas, "QUORUM", "LOCAL_SERIAL"), "at QUORUM, which may miss"},
		"an unfenced one, at one":      {at("dc1", "SELECT a FROM log WHERE k = ?", "ONE", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.message != "" {
				want = []string{"P13"}
			}
			tinyCheck(t, statementsExpecting(history.Expect{Agreement: &local}, false, append(locally("dc1", real), c.st)...), c.message, want...)
			if c.st.Datacenter == "dc2" && c.message != "" { // without an agreement nobody is remote
				tinyCheck(t, statementsExpecting(history.Expect{}, false, append(locally("dc1", real), c.st)...), "")
			}
		})
	}
}

// A node that decides nothing takes no quorum away.
func TestQuorumOfTheAgreement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agreement *history.Agreement
		nodes     []string
		away      bool
	}{
		{nil, []string{"n1", "n4"}, true},
		{&local, []string{"n1", "n4"}, false},
		{&local, []string{"n1", "n2"}, true},
		{&local, []string{"n4"}, false},
	} {
		y := newTiny("w1.1")
		y.expect(history.Expect{Nodes: 4, Agreement: c.agreement})
		for i, n := range c.nodes {
			f := history.Fault{ID: "f" + n, Name: "pause-node", Action: history.ActionInject, Targets: []string{n}}
			y.note(int64(10+i), history.Harness, history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &f}})
		}
		if away := past.New(y.end(300), false).WithoutQuorum; (len(away) > 0) != c.away {
			t.Errorf("%+v: away %v, want %t", c, away, c.away)
		}
	}
}
