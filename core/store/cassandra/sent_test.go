package cassandra

import "testing"

func TestSentByKind(t *testing.T) {
	t.Parallel()
	for _, serial := range []string{Serial, LocalSerial} {
		db := &DB{cfg: Config{Serial: serial, Consistency: Quorum}}
		for range 3 {
			db.count(StatementInfo{CQL: "UPDATE t SET v = ? IF v = ?", Consistency: Quorum, SerialConsistency: serial})
		}
		for range 2 {
			db.count(StatementInfo{CQL: "SELECT v FROM t", Consistency: serial})
		}
		db.count(StatementInfo{CQL: "SELECT v FROM t", Consistency: Quorum})
		if got, want := db.Sent(), (Sent{Conditional: 3, Serial: 2, Plain: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", serial, got, want)
		}
	}
}
