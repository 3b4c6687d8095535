package property

import (
	"fmt"
	"testing"
)

// What a statement writes and what its condition names.
func TestCQLColumns(t *testing.T) {
	t.Parallel()
	for cql, want := range map[string]string{
		`UPDATE locks SET fence = ?, beat = ? WHERE resource = ? IF fence = ? AND holder = ''`:                                            "[fence beat] if [fence holder]",
		`UPDATE ks.locks USING TTL ? SET "Fence" = ?, beat = beat + 1 WHERE resource = ?`:                                                 "[Fence beat] if []",
		`INSERT INTO locks (resource, fence) VALUES (?, 1) IF NOT EXISTS USING TTL ?`:                                                     "[resource fence] if []",
		`UPDATE sink SET value = ? WHERE resource = ? AND kind = 0 IF last_seq >= ? AND highest != ?`:                                     "[value] if [last_seq highest]",
		`DELETE FROM sink WHERE resource = ? IF fence = 3`:                                                                                "[] if [fence]",
		`SELECT a, b FROM locks WHERE resource = ?`:                                                                                       "[] if []",
		`BEGIN UNLOGGED BATCH UPDATE shards SET fence = ? WHERE q = ? IF tick = ?; INSERT INTO shards (q, at) VALUES (?, ?); APPLY BATCH`: "[fence] if [tick] [q at] if []",
	} {
		stmts, err := ParseCQL(cql)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range stmts {
			if got != "" {
				got += " "
			}
			got += fmt.Sprintf("%v if %v", s.sets, s.names)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", cql, got, want)
		}
	}
}
