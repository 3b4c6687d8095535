package scenario

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
)

// rowProofs read from rows, by the harness's own session, what shows that a fault took hold
// in a worker.
type rowProofs struct {
	// stamps are times that workers wrote by their wall clocks.
	stamps func(ctx context.Context) ([]fault.Stamp, error)
	// stay is who has a lock, or a job.
	stay func(ctx context.Context, key string) (fault.Claim, error)
}

// rowProofs are those of the system's rows.
func (r *runner) rowProofs() rowProofs {
	switch {
	case r.opt.System.Command != nil:
		return rowProofs{stay: r.sinkClaim}
	case r.plan.Queue != "":
		b := r.backlog()
		return rowProofs{stamps: b.stamps, stay: b.claim}
	}
	return rowProofs{stamps: r.lockStamps, stay: r.lockClaim}
}

const (
	lockStampsCQL = "SELECT holder, ttl_ms, expires_hint, WRITETIME(expires_hint) AS written FROM locks WHERE resource IN ?"
	lockClaimCQL  = "SELECT holder, fence, ttl_ms, WRITETIME(beat) AS written FROM locks WHERE resource = ?"
)

// written is what WRITETIME gives: microseconds since 1970, by the clock of the node that
// coordinated the write.
func written(row map[string]any) time.Time {
	us, _ := row["written"].(int64)
	return time.UnixMicro(us)
}

// lockStamps are the expiries of the locks that are held, less the ttl: when they were
// granted or renewed.
func (r *runner) lockStamps(ctx context.Context) ([]fault.Stamp, error) {
	rows, err := r.db.Query(ctx, false, lockStampsCQL, r.plan.Locks)
	if err != nil {
		return nil, err
	}
	var out []fault.Stamp
	for _, row := range rows {
		holder, _ := row["holder"].(string)
		ttl, _ := row["ttl_ms"].(int64)
		if expires, ok := row["expires_hint"].(time.Time); ok && holder != "" {
			out = append(out, fault.Stamp{Life: history.Life(holder), Wall: expires.Add(-time.Duration(ttl) * time.Millisecond), Written: written(row)})
		}
	}
	return out, nil
}

func (r *runner) lockClaim(ctx context.Context, key string) (fault.Claim, error) {
	rows, err := r.db.Query(ctx, false, lockClaimCQL, key)
	if err != nil || len(rows) == 0 {
		return fault.Claim{}, err
	}
	holder, _ := rows[0]["holder"].(string)
	fence, _ := rows[0]["fence"].(int64)
	ttl, _ := rows[0]["ttl_ms"].(int64)
	return fault.Claim{By: holder, Token: fence, Written: written(rows[0]), TTL: time.Duration(ttl) * time.Millisecond}, nil
}

// sinkClaim is what the sink's ledger shows of a lock in rows that nobody here knows: no
// entry comes to it while its holder stays. The number of entries stands for the token.
func (r *runner) sinkClaim(ctx context.Context, key string) (fault.Claim, error) {
	all, err := r.sink.resources(ctx)
	if err != nil {
		return fault.Claim{}, err
	}
	c := fault.Claim{By: "the ledger as it was", Anonymous: true, TTL: r.plan.Spec.Workload.TTL.D()}
	for _, res := range all {
		st, err := r.sink.client.Read(ctx, res)
		if err != nil {
			return c, err
		}
		if st.Issuer == key {
			c.Token += st.Seq
		}
	}
	return c, nil
}

const runStampsCQL = "SELECT worker, ended, WRITETIME(ended) AS written FROM runs WHERE queue = ? AND shard = ? AND day = ?"

// stamps are the ends of runs. The row of one that ended by a clock that is wrong is on
// another day at times.
func (r jobsByShard) stamps(ctx context.Context) ([]fault.Stamp, error) {
	var out []fault.Stamp
	today := store.DayOf(time.Now())
	for _, id := range r.plan.shards() {
		for day := today - 1; day <= today+1; day++ {
			rows, err := r.db.Query(ctx, false, runStampsCQL, id.Queue, id.Shard, day)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				life, _ := row["worker"].(string)
				if ended, ok := row["ended"].(time.Time); ok && life != "" {
					out = append(out, fault.Stamp{Life: life, Wall: ended, Written: written(row)})
				}
			}
		}
	}
	return out, nil
}

const lockedRunStampsCQL = "SELECT holder, started_ms, WRITETIME(started_ms) AS written FROM lpj_runs"

// stamps are the beginnings of runs.
func (r jobsByLock) stamps(ctx context.Context) ([]fault.Stamp, error) {
	rows, err := r.db.Query(ctx, false, lockedRunStampsCQL)
	if err != nil {
		return nil, err
	}
	var out []fault.Stamp
	for _, row := range rows {
		holder, _ := row["holder"].(string)
		if ms, ok := row["started_ms"].(int64); ok {
			out = append(out, fault.Stamp{Life: history.Life(holder), Wall: time.UnixMilli(ms), Written: written(row)})
		}
	}
	return out, nil
}

// claim is a job's run, by its id.
func (r jobsByShard) claim(ctx context.Context, key string) (fault.Claim, error) {
	shard, err := job.ID(key).Shard()
	if err != nil {
		return fault.Claim{}, err
	}
	row, err := cassandra.NewShards(r.db).Row(ctx, store.ShardID{Queue: r.plan.Queue, Shard: shard}, store.Key{Kind: store.KindJob, ID: key})
	if err != nil || row == nil || row.State != string(job.Running) {
		return fault.Claim{}, err
	}
	return runClaim(row.Run), nil
}

const lockedRunCQL = "SELECT state, fence FROM lpj_jobs WHERE id = ?"

func (r jobsByLock) claim(ctx context.Context, key string) (fault.Claim, error) {
	rows, err := r.db.Query(ctx, false, lockedRunCQL, key)
	if err != nil || len(rows) == 0 || rows[0]["state"] != string(job.Running) {
		return fault.Claim{}, err
	}
	run, _ := rows[0]["fence"].(int64)
	return runClaim(run), nil
}

func runClaim(run int64) fault.Claim {
	return fault.Claim{By: fmt.Sprintf("run %d", run), Token: run, Anonymous: true}
}
