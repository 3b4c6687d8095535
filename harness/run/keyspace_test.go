package run

import (
	"strings"
	"testing"
)

// TestKeyspaceOf: Cassandra takes it, and runs that differ at their ends only have two.
func TestKeyspaceOf(t *testing.T) {
	t.Parallel()
	long := "20261123-010203-" + strings.Repeat("my-scenario-", 4)
	for run, want := range map[string]string{
		"20261123-010203-partition-1": "fp_20261123_010203_partition_1",
		"20261123-010203-It's mine-1": "fp_20261123_010203_it_s_mine_1",
		long + "1":                    "",
	} {
		if got := keyspaceOf(run); len(got) > 48 || notIdent.ReplaceAllString(got, "_") != got || want != "" && got != want {
			t.Errorf("keyspaceOf(%s) = %s, want %s", run, got, want)
		}
	}
	if a, b := keyspaceOf(long+"1"), keyspaceOf(long+"2"); a == b {
		t.Errorf("two runs share %s", a)
	}
}
