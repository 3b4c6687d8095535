package checker

import (
	"slices"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

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
