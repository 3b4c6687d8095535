package broken

import (
	"bytes"

	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() { plant("jobs-format-unsaid", only(workload.Hooks{Shards: formatUnsaid})) }

// formatUnsaid writes jobs in a form of its own and tells nobody: who runs the version
// before cannot read them.
func formatUnsaid(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	const mark = "\x02"
	return mistake.Shards{Shards: inner,
		OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			c.Each(func(op *store.Op) {
				if row := &op.Row; row.Kind != store.KindJob && row.Kind != store.KindSchedule && len(row.Body) > 0 {
					row.Body = append([]byte(mark), row.Body...)
				}
			})
			return c.Send()
		},
		OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
			for i := range rows {
				rows[i].Body = bytes.TrimPrefix(rows[i].Body, []byte(mark))
			}
			return rows
		},
	}
}
