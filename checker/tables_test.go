package checker

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// knowing is what the expect note says of a run of the core, with the sink on the nodes.
var knowing = history.Expect{Tables: &history.Tables{Of: history.TablesCore, Sink: true}}

const (
	selectLock = "SELECT fence, beat, attempt, holder, ttl_ms FROM locks WHERE resource = ?"
	selectSink = "SELECT kind, key, highest FROM sink WHERE resource = ? AND (kind, seq, key) IN ((0, 0, ''))"
)

// reading is a run with reads by w1: of the lock a from 210 to 220, of the sink's resource a from
// 230 to 240.
func reading(x history.Expect, carried ...func(*tiny)) *history.History {
	y := newTiny("w1.1", "w2.1")
	y.expect(x)
	y.witness(history.WitnessStatements, "")
	for _, st := range real {
		y.sent("w1", st)
	}
	cycle(y, 100, 200, "w1.1/c1", 1)
	row := y.row
	y.op(210, 220, "w1.1/c1", history.OK, history.Event{Op: history.OpRead, Key: "a"}, history.Event{Row: &row})
	value := int64(0)
	y.op(230, 240, "w1.1/c1", history.OK, history.Event{Op: history.OpGet, Key: "a"}, history.Event{Value: &value})
	y.op(241, 245, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: "a"}, history.Event{Value: &value})
	for _, c := range carried {
		c(y)
	}
	return y.end(300)
}

// serial is a read in consensus that a worker's link carried.
func serial(at int64, worker, table, row string) func(*tiny) {
	return func(y *tiny) {
		y.note(at, history.Harness, history.Event{Op: history.NoteSerial, Key: worker,
			Details: &history.Details{SerialRead: &history.SerialRead{Table: table, Row: row}}})
	}
}

func plainly(worker, cql, consistency string) func(*tiny) {
	return func(y *tiny) {
		y.sent(worker, history.Statement{CQL: cql, Consistency: consistency, SerialConsistency: "SERIAL"}) // as many drivers do with each request
	}
}

// A read that decides is one in consensus, of that row, by that worker's link, while it was under
// way. What the run's design does not have on the nodes, and what nobody could read, is not asked.
func TestReadsInConsensus(t *testing.T) {
	t.Parallel()
	lock, sink := serial(215, "w1", "locks", "a"), serial(235, "w1", "sink", "a")
	elsewhere := knowing
	elsewhere.Tables = &history.Tables{Of: history.TablesCore}
	apart := knowing
	apart.Tables = &history.Tables{Of: history.TablesLockPerJob, Sink: true}
	unread := func(y *tiny) { y.witness(history.WitnessStatements, "the links carry TLS") }
	for name, c := range map[string]struct {
		expect  history.Expect
		carried []func(*tiny)
		message string // "": nothing is wrong
	}{
		"both":                      {knowing, []func(*tiny){lock, sink}, ""},
		"of a row without a name":   {knowing, []func(*tiny){serial(215, "w1", "locks", ""), sink}, ""},
		"no tables are known":       {history.Expect{}, nil, ""},
		"no link could be read":     {knowing, []func(*tiny){unread}, ""},
		"the sink is not on nodes":  {elsewhere, []func(*tiny){lock}, ""},
		"another design's lock":     {apart, []func(*tiny){serial(215, "w1", "lpj_locks", "a"), sink}, ""},
		"plain members and runs":    {knowing, []func(*tiny){lock, sink, plainly("w1", "SELECT name, nonce FROM members WHERE cell = ?", "QUORUM"), plainly("w1", "SELECT job FROM runs WHERE queue = ?", "ONE")}, ""},
		"the sink's at QUORUM":      {knowing, []func(*tiny){lock, plainly("w1", selectSink, "QUORUM")}, "w1 reads table sink outside of consensus where it decides by what it reads (1 time): while the get of a by w1.1/c1 was under way, its link carried no read of that row at SERIAL or LOCAL_SERIAL, but SELECT seq, entry FROM sink"},
		"the lock's at QUORUM":      {knowing, []func(*tiny){sink, plainly("w1", selectLock, "QUORUM")}, "w1 reads table locks outside of consensus"},
		"the lock's not at all":     {knowing, []func(*tiny){sink}, "w1 reads table locks outside of consensus"},
		"of another lock":           {knowing, []func(*tiny){serial(215, "w1", "locks", "b"), sink}, "w1 reads table locks"},
		"of another table":          {knowing, []func(*tiny){serial(215, "w1", "sink", "a"), sink}, "w1 reads table locks"},
		"by another worker":         {knowing, []func(*tiny){serial(215, "w2", "locks", "a"), sink}, "w1 reads table locks"},
		"before it was called":      {knowing, []func(*tiny){serial(205, "w1", "locks", "a"), sink}, "w1 reads table locks"},
		"after it was answered":     {knowing, []func(*tiny){serial(225, "w1", "locks", "a"), sink}, "w1 reads table locks"},
		"heartbeats at ONE":         {knowing, []func(*tiny){lock, sink, plainly("w1", "INSERT INTO members (cell, name, nonce) VALUES (?, ?, ?) USING TTL ?", "ONE")}, "INSERT on the table members at ONE: its writes and reads need not meet"},
		"heartbeats read at ONE":    {knowing, []func(*tiny){lock, sink, plainly("w1", "SELECT name, nonce FROM members WHERE cell = ?", "LOCAL_ONE")}, "SELECT on the table members at LOCAL_ONE"},
		"the agreement read at ONE": {knowing, []func(*tiny){lock, sink, plainly("w1", "SELECT value FROM settings WHERE name = 'agreement'", "ONE")}, "SELECT on the table settings at ONE"},
		"the agreement overwritten": {knowing, []func(*tiny){lock, sink, plainly("w1", "UPDATE settings SET value = ? WHERE name = ?", "QUORUM")}, "UPDATE on the table settings, whose rows are written on condition"},
		"an idle inbox read at ONE": {knowing, []func(*tiny){lock, sink, plainly("w1", "SELECT id, nonce, body FROM inbox WHERE queue = ?", "ONE")}, "a read of the fenced table inbox at ONE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.message != "" {
				want = []string{"P13"}
			}
			tinyCheck(t, reading(c.expect, c.carried...), c.message, want...)
		})
	}
}

// LOCAL_SERIAL is consensus where the run agrees in one data centre, and so is the near look at
// what all have agreed on.
func TestReadsInConsensusOfOneDataCentre(t *testing.T) {
	t.Parallel()
	x := history.Expect{Tables: knowing.Tables, Agreement: &local}
	settings := []history.Statement{
		{CQL: "SELECT value FROM settings WHERE name = 'agreement'", Consistency: "LOCAL_QUORUM", Datacenter: "dc1"},
		{CQL: "SELECT value FROM settings WHERE name = 'agreement'", Consistency: "SERIAL", Datacenter: "dc1"},
	}
	tinyCheck(t, statementsExpecting(x, false, append(locally("dc1", real), settings...)...), "")
}

// A statement on a table that the harness does not know, or one that changes tables, cannot be
// judged; of a program that only its author knows nothing else is expected.
func TestUnknownStatements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cql, message string
	}{
		"a known table":         {"SELECT a FROM ks.locks WHERE k = ?", ""},
		"of the database":       {"SELECT a FROM system.local", ""},
		"its schema":            {"SELECT * FROM system_schema.tables WHERE keyspace_name = ?", ""},
		"choosing the keyspace": {`USE "ks"`, ""},
		"another table":         {"SELECT a FROM leases WHERE k = ?", "the link of w1 carried a statement that the harness does not know (SELECT on table leases)"},
		"in a batch":            {"BEGIN BATCH INSERT INTO members (k) VALUES (?); INSERT INTO log (k) VALUES (?); APPLY BATCH", "(INSERT on table log)"},
		"another design's":      {"SELECT id FROM lpj_jobs WHERE id = ?", "(SELECT on table lpj_jobs)"},
		"a table is made":       {"CREATE TABLE IF NOT EXISTS locks (k text PRIMARY KEY)", "(CREATE of table locks)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := history.Statement{CQL: c.cql, Consistency: "QUORUM"}
			var want []string
			if c.message != "" {
				want = []string{property.Validity}
			}
			x := history.Expect{Tables: knowing.Tables}
			r := tinyCheck(t, statementsExpecting(x, false, append(slices.Clone(real), st)...), c.message, want...)
			if c.message != "" && r.Verdict != Invalid {
				t.Errorf("%s: %s", r.Verdict, r.Summary)
			}
			tinyCheck(t, statementsExpecting(history.Expect{}, false, append(slices.Clone(real), st)...), "")
		})
	}
}

var created = regexp.MustCompile(`CREATE TABLE IF NOT EXISTS (\w+)`)

// TestKnownTables: what the checker knows are the tables that the designs create. A new one is
// judged by what is written down of it here, not by what its statements look like.
func TestKnownTables(t *testing.T) {
	t.Parallel()
	tables := func(files ...string) (out []string) {
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range created.FindAllStringSubmatch(string(b), -1) {
				out = append(out, m[1])
			}
		}
		slices.Sort(out)
		return out
	}
	const core, locked = "../core/store/cassandra/schema.cql", "../harness/target/system/lockperjob/rows.go"
	for of, want := range map[string][]string{history.TablesCore: tables(core), history.TablesLockPerJob: tables(core, locked)} {
		if got := property.KnownTables(of); !slices.Equal(got, want) || len(want) < 5 {
			t.Errorf("%s: the checker knows %s, created are %s", of, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
}
