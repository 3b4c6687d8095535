package property

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

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
		bad(lintRemote, table, fmt.Sprintf("%s asked a node of data centre %s, and the run's processes agree in %s", past.Sender(s.ev), dc, in.Datacenter))
	}
	if !slices.ContainsFunc(s.stmts, func(st statement) bool { return fenced[st.table] }) {
		return out
	}
	if use := s.serialUse(s.stmts[at]); use != "" && use != in.Serial {
		bad(lintDomain, table, fmt.Sprintf("a statement on the fenced table %s takes part in consensus at %s, and the run's processes agree by %s in %s", table, use, in.Serial, in.Datacenter))
	}
	if in.Serial == "LOCAL_SERIAL" && slices.Contains(quorums, s.consistency()) && !slices.Contains(localQuorums, s.consistency()) {
		bad(lintDomain, table, fmt.Sprintf("a statement on the fenced table %s at %s, which may miss what a quorum of %s alone decided", table, s.consistency(), in.Datacenter))
	}
	return out
}

// rows says that a statement is about rows of the run: not of the database's own keyspaces,
// and not about tables.
func (s statement) rows() bool {
	return slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"}, s.verb) && s.keyspace != "system" && !strings.HasPrefix(s.keyspace, "system_")
}
