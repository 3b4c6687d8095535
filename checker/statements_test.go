package checker

import (
	"slices"
	"testing"

	"fencepost/harness/history"
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

func statementsRun(stmts ...history.Statement) *history.History {
	y := newTiny("w1.1")
	y.expect(history.Expect{})
	for i := range stmts {
		y.note(1, "w1.1", history.Event{Op: history.NoteStatement, Details: &history.Details{Statement: &stmts[i]}})
	}
	cycle(y, 100, 200, "w1.1/c1", 1)
	return y.end(300)
}

func TestStatements(t *testing.T) {
	t.Parallel()
	r := tinyCheck(t, statementsRun(append(slices.Clone(real), real...)...), "")
	if p := property(r, "P13"); p.Status != StatusPass || p.Checked != len(real) {
		t.Errorf("%s, %d checked", p.Status, p.Checked)
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
		"conditional without serial":     {plain("UPDATE locks SET a = 1 WHERE k = ? IF a = 0", q), "serial consistency (none)"},
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
			r := tinyCheck(t, statementsRun(append(slices.Clone(real), c.st)...), c.message, want...)
			if n := property(r, "P13").Count; n > 1 {
				t.Errorf("%d findings for one mistake", n)
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
	tinyCheck(t, statementsRun(plain), "")
	tinyCheck(t, statementsRun(plain, cas), "an unconditional UPDATE on the fenced table ledgers", "P13")
}

// TestNoStatements: n/a, unless the system promises P13 in so many words.
func TestNoStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		promises []string
		want     Status
		verdict  Verdict
	}{{nil, StatusNA, Pass}, {[]string{"P1"}, StatusNA, Pass}, {[]string{"P1", "P13"}, StatusUnknown, Unknown}} {
		h := statementsRun()
		for i := range h.Headers {
			h.Headers[i].Promises = c.promises
		}
		var bad []string
		if c.want != StatusNA {
			bad = []string{"P13"}
		}
		r := tinyCheck(t, h, "", bad...)
		if p := property(r, "P13"); p.Status != c.want || r.Verdict != c.verdict {
			t.Errorf("promises %v: %s, %s", c.promises, p.Status, r.Verdict)
		}
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
		if stmts, err := parseCQL(cql); err == nil && len(stmts) == 0 {
			t.Errorf("%q: no statement and no error", cql)
		}
	})
}
