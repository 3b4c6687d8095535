package reporttest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// WriteJobs makes the directory of a run with jobs below parent: three schedulers own
// four shards, w2 is killed, its shards are taken over and its runs run again.
func WriteJobs(parent string, seed uint64) (dir string, err error) {
	const shards, killAt, end = 4, int64(6 * time.Second), int64(14 * time.Second)
	s := &sim{rng: rand.New(rand.NewPCG(seed, 11)), recs: map[string]*history.Recorder{}, crashed: map[string]bool{}, start: 5000 * int64(time.Second)}
	name := fmt.Sprintf("20250102-030405-jobs-kill-worker-%d", seed)
	s.dir = filepath.Join(parent, name)
	for _, sub := range []string{rundir.HistoryDir, rundir.LogDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	for i, phase := range []string{"before", "fault", "recover", "seal"} {
		s.note(s.start+int64(i)*end/4, "harness", history.Event{Op: history.NotePhase, Details: &history.Details{Phase: phase}})
	}
	jobs := 0
	for i := range shards {
		jobs += s.shard(fmt.Sprintf("shard/jobs/%d", i), fmt.Sprintf("w%d.1", i%3+1), s.start, s.start+killAt, s.start+end)
	}
	f := history.Fault{ID: "f1", Name: "kill-worker", Targets: []string{"w2"}, Action: history.ActionInject}
	s.note(s.start+killAt, "harness", history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &f}})
	s.note(s.start+killAt, "w2.1", history.Event{Op: history.NoteCrash, Error: "SIGKILL by fault f1"})
	if s.err != nil {
		return "", s.err
	}
	for _, r := range s.recs {
		if err := r.Close(); err != nil {
			return "", err
		}
	}
	if err := rundir.WriteJSON(filepath.Join(s.dir, rundir.InfoFile), rundir.Info{
		Run: name, Scenario: "jobs-kill-worker", Seed: seed, System: "core", Cluster: "local", Contention: "medium", Workers: 3, Shards: shards,
		JobRate: 20, TTL: 2 * time.Second, Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Ended: time.Date(2025, 1, 2, 3, 4, 19, 0, time.UTC),
	}); err != nil {
		return "", err
	}
	return s.dir, rundir.WriteJSON(filepath.Join(s.dir, rundir.VerdictFile), checker.Result{
		Version: 1, Run: name, Verdict: checker.Pass, Summary: fmt.Sprintf("No violation in %d jobs.", jobs),
		Counts: checker.Counts{Jobs: &checker.JobCounts{Enqueued: jobs, Completed: jobs}, Takeovers: 1, Faults: 1},
	})
}

// wall dates an instant of the run: ms since 1970.
func wall(at int64) int64 { return 1_735_787_045_000 + at/1e6 }

// shard is the life of a shard and of its jobs; it returns how many there were.
func (s *sim) shard(key, life string, from, kill, end int64) (jobs int) {
	fence, beat, attempt := int64(0), int64(0), ""
	at, run, one := from+int64(s.rng.IntN(50e6)), int64(0), int64(1)
	own := func() {
		before := history.Version{Absent: fence == 0, Fence: fence, Beat: beat, Attempt: attempt}
		fence, beat, attempt, run = fence+1, beat+1, s.uuid(), 0
		to := history.Version{Fence: fence, Beat: beat, Attempt: attempt}
		at = s.op(at, at+s.lwt(at), history.Event{Proc: life + "/" + key[6:], Op: history.OpTake, Key: key, From: &before, To: &to, Details: &history.Details{TTLMS: 2000}}, history.Event{Type: history.OK, Sends: []int64{at}})
	}
	own()
	for at < end {
		job := fmt.Sprintf("%s-%d", key[6:], jobs)
		jobs++
		s.op(at, at+s.lwt(at), history.Event{Proc: life + "/e1", Op: history.OpEnqueue, Key: job, Details: &history.Details{Job: &history.Job{Queue: "jobs", Shard: key, Kind: "k", MaxAttempts: 3}}}, history.Event{Type: history.OK, Result: "applied"})
		before := history.Version{Fence: fence, Beat: beat, Attempt: attempt}
		beat, attempt = beat+1, s.uuid()
		to := history.Version{Fence: fence, Beat: beat, Attempt: attempt}
		run++
		at = s.op(at+30e6, at+30e6+s.lwt(at), history.Event{Proc: life + "/" + key[6:], Op: history.OpTick, Key: key, From: &before, To: &to, Details: &history.Details{Changes: []history.Change{{Job: job, Do: history.DoClaim, Run: fence<<32 + run, Attempt: 1}}}}, history.Event{Type: history.OK, Sends: []int64{at + 30e6}})
		s.note(at, life+"/r1", history.Event{Op: history.NoteStart, Key: job, Issuer: key, Token: fence<<32 + run, Details: &history.Details{Attempt: 1, DueMS: wall(at), WallMS: wall(at)}, DecidedAt: at})
		done := s.op(at+5e6, at+5e6+s.lwt(at), history.Event{Proc: life + "/r1", Op: history.OpEffect, Key: "job/" + job, Issuer: key, Token: fence<<32 + run, EffectKey: "s1", Value: &one, DecidedAt: at}, history.Event{Type: history.OK, Issuer: key, Token: fence<<32 + run, EffectKey: "s1", Result: "applied", Seen: fence<<32 + run})
		if life == "w2.1" && done > kill-60e6 { // killed before the run's end
			at, life = kill+int64(2400*time.Millisecond), "w3.1"
			own()
			continue
		}
		failed := ""
		if s.rng.Float64() < 0.08 {
			failed = "the handler failed"
		}
		s.note(done+20e6, life+"/r1", history.Event{Op: history.NoteFinish, Key: job, Issuer: key, Token: fence<<32 + run, Error: failed})
		at = done + int64(50e6+s.rng.IntN(60e6))
	}
	return jobs
}
