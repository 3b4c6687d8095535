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

// pausedAt says that worker w stands still at ts, and until when.
func (s *sim) pausedAt(worker string, from, to int64) bool {
	return s.o.Fault == "pause-worker" && worker == s.fault.worker && from < s.fault.to && to >= s.fault.from
}

// cycle is one client's cycle: lock, raise, get, hold, effect, release.
func (s *sim) cycle(c *clientState) {
	if s.o.Fault != "" && c.worker == s.fault.worker && c.free >= s.fault.from && c.free < s.fault.to {
		if s.o.Fault != "lost-replies" {
			c.free = s.fault.to + 2e6 // it stands still; what it held is dealt with in hold
			return
		}
	}
	l := s.locks[s.rng.IntN(len(s.locks))]
	proc := c.proc()
	asked := c.free
	granted, ok := s.acquire(c, l, proc, asked)
	if !ok {
		return
	}
	s.critical(c, l, proc, granted)
}

func (s *sim) acquire(c *clientState, l *lockState, proc string, asked int64) (int64, bool) {
	id := s.newID(proc)
	s.record(history.Event{TS: asked, Proc: proc, ID: id, Type: history.Invoke, Op: history.OpLock, Key: l.name})
	at := max(asked+1e6, l.freeAt+int64(s.rng.IntN(20e6)))
	if asked < l.freeAt && s.rng.Float64() < 0.3 { // a try that is refused, at once
		from := history.Version{Fence: max(l.row.Fence-1, 0), Attempt: s.uuid(), TTLMS: s.o.TTL.Milliseconds()}
		to := history.Version{Fence: from.Fence + 1, Attempt: s.uuid(), Holder: proc, TTLMS: from.TTLMS}
		row := l.row
		s.op(asked+1e6, asked+1e6+s.lwt(asked), history.Event{Proc: proc, Op: history.OpAcquire, Key: l.name, From: &from, To: &to},
			history.Event{Type: history.Fail, Row: &row, Sends: []int64{asked + 2e6}})
	}
	if at >= s.end+int64(time.Second) || s.worker(c, at) {
		s.record(history.Event{TS: max(min(at, s.end), asked), Proc: proc, ID: id, Type: history.Fail, Op: history.OpLock, Key: l.name,
			Error: "timeout while the lock was held by another"})
		c.free = max(at, s.end)
		if s.worker(c, at) {
			c.free = s.fault.to + 3e6
		}
		return 0, false
	}
	from := l.row
	if l.absent {
		from = history.Version{Absent: true}
	}
	to := history.Version{Fence: l.row.Fence + 1, Attempt: s.uuid(), Holder: proc, TTLMS: s.o.TTL.Milliseconds()}
	end := at + s.lwt(at)
	sends := []int64{at + 30_000}
	if s.o.Fault == "lost-replies" && c.worker == s.fault.worker && at > s.fault.from && at < s.fault.to {
		sends = append(sends, at+1e9)
		end = at + 1e9 + s.lwt(at) // the first answer was lost
	}
	s.op(at, end, history.Event{Proc: proc, Op: history.OpAcquire, Key: l.name, From: &from, To: &to, Takeover: l.takeover},
		history.Event{Type: history.OK, Sends: sends})
	s.record(history.Event{TS: end + 20_000, Proc: proc, ID: id, Type: history.OK, Op: history.OpLock, Key: l.name, Token: to.Fence})
	l.row, l.absent, l.takeover = to, false, false
	s.grants++
	return end + 20_000, true
}

// worker says that c's worker is out of action at ts.
func (s *sim) worker(c *clientState, ts int64) bool {
	return (s.o.Fault == "pause-worker" || s.o.Fault == "kill-worker") && c.worker == s.fault.worker && ts >= s.fault.from && ts < s.fault.to
}

func (s *sim) critical(c *clientState, l *lockState, proc string, t int64) {
	res, token := "res-"+l.name, l.row.Fence
	t = s.sink(t, proc, history.OpRaise, l.name, token, "", 0, 0)
	v := s.value[res]
	t = s.op(t+10_000, t+10_000+s.lwt(t)/3, history.Event{Proc: proc, Op: history.OpGet, Key: res},
		history.Event{Type: history.OK, Value: &v, Seen: s.seen[res]})
	s.note(t+5000, proc, history.Event{Op: history.NoteStart, Key: l.name, Token: token, DecidedAt: t})
	hold := int64((0.5 + s.rng.Float64()) * float64(s.o.Hold))
	done := t + hold
	s.begin(c.worker, t+hold/2)
	if s.worker(c, done) || s.pausedAt(c.worker, t, done+60e6) {
		s.struck(c, l, proc, t, token, v)
		return
	}
	for at := t + int64(s.o.TTL)/3; at < done; at += int64(s.o.TTL) / 3 {
		s.renew(l, proc, at)
	}
	key := fmt.Sprintf("%s/%s#%d", l.name, proc, s.grants)
	t = s.effect(done, proc, l.name, token, key, v+1, done)
	s.note(t+5000, proc, history.Event{Op: history.NoteFinish, Key: l.name, Token: token})
	s.release(c, l, proc, t+20_000)
}

func (s *sim) renew(l *lockState, proc string, at int64) {
	from, to := l.row, l.row
	to.Beat++
	s.op(at, at+s.lwt(at), history.Event{Proc: proc, Op: history.OpRenew, Key: l.name, From: &from, To: &to},
		history.Event{Type: history.OK, Sends: []int64{at + 30_000}})
	l.row = to
}

func (s *sim) release(c *clientState, l *lockState, proc string, t int64) {
	from, to := l.row, l.row
	to.Holder, to.Attempt, to.Beat = "", s.uuid(), from.Beat+1
	end := s.op(t, t+s.lwt(t), history.Event{Proc: proc, Op: history.OpRelease, Key: l.name, From: &from, To: &to},
		history.Event{Type: history.OK, Sends: []int64{t + 30_000}})
	l.row, l.freeAt = to, end
	c.free = end + int64(s.rng.IntN(20e6))
}

// struck is a holder that the fault hits in its critical section.
func (s *sim) struck(c *clientState, l *lockState, proc string, t int64, token, v int64) {
	orphaned := t + int64(s.o.TTL)
	l.freeAt, l.takeover = orphaned+int64(s.o.TTL)/16, true
	if s.o.Fault == "kill-worker" {
		if c.n == 1 {
			s.note(s.fault.from+1e6, fmt.Sprintf("%s.%d", c.worker, c.life), history.Event{Op: history.NoteCrash, Error: "SIGKILL by fault f1"})
		}
		s.op(min(t+1e6, s.fault.from), 0, history.Event{Proc: proc, Op: history.OpEffect, Key: "res-" + l.name, Issuer: l.name, Token: token,
			EffectKey: "lost", Value: &v, DecidedAt: t}, history.Event{})
		c.life++
		c.free = s.fault.to + 5e6
		return
	}
	// A pause: another takes the lock over while this one sleeps; then it wakes.
	wake := s.fault.to + 1e6
	if orphaned+int64(s.o.TTL)/8 < s.fault.to {
		s.successor(c, l)
	}
	s.note(wake, proc, history.Event{Op: history.NoteLeaseLost, Key: l.name, Token: token,
		Error: "deadline passed while the process stood still"})
	s.effect(wake+2e5, proc, l.name, token, fmt.Sprintf("%s/%s#%d", l.name, proc, s.grants), v+1, t+1e6)
	s.note(wake+30e6, proc, history.Event{Op: history.NoteFinish, Key: l.name, Token: token})
	c.free = wake + 40e6
}

// successor takes the lock over from a holder that stands still.
func (s *sim) successor(c *clientState, l *lockState) {
	for _, o := range s.clients {
		if o.worker != c.worker && !o.done {
			if s.o.Broken == TwoHolders {
				l.freeAt -= int64(s.o.TTL) / 2 // taken long before the holder's right is over
			}
			proc := o.proc()
			at, ok := s.acquire(o, l, proc, max(o.free, l.freeAt-int64(s.o.TTL)/2))
			if ok {
				s.critical(o, l, proc, at)
			}
			return
		}
	}
}

// sink is one call of the sink: a raise, or with a key an effect.
func (s *sim) sink(t int64, proc string, op history.Op, issuer string, token int64, key string, value, decided int64) int64 {
	res := "res-" + issuer
	end := t + s.lwt(t)
	inv := history.Event{Proc: proc, Op: op, Key: res, Issuer: issuer, Token: token, EffectKey: key}
	fin := history.Event{Type: history.OK, Issuer: issuer, Token: token, EffectKey: key, Result: "applied"}
	kind := history.LedgerRaise
	entry := history.LedgerEntry{Issuer: issuer, Token: token, EffectKey: key}
	if op == history.OpEffect {
		kind = history.LedgerAccept
		inv.Value, entry.Value = &value, &value
	}
	if token < s.seen[res] && s.o.Broken != SinkNoTokenCheck {
		fin.Type, fin.Result, fin.Seen = history.Fail, "stale", s.seen[res]
	} else {
		s.seen[res] = max(s.seen[res], token)
		entry.Kind, entry.Seq = kind, int64(len(s.ledger[res])+1)
		s.ledger[res] = append(s.ledger[res], entry)
		fin.Seen, fin.Seq = s.seen[res], entry.Seq
		if op == history.OpEffect {
			s.value[res] = value
		}
	}
	inv.DecidedAt = decided
	return s.op(t, end, inv, fin)
}

func (s *sim) effect(t int64, proc, issuer string, token int64, key string, value, decided int64) int64 {
	return s.sink(t, proc, history.OpEffect, issuer, token, key, value, decided)
}

// WriteJobs makes the directory of a run with jobs below parent: three schedulers own
// four shards, w2 is killed, its shards are taken over and its runs run again.
func WriteJobs(parent string, seed uint64) (dir string, err error) {
	const shards, killAt, end = 4, int64(6 * time.Second), int64(14 * time.Second)
	s := &sim{rng: rand.New(rand.NewPCG(seed, 11)), recs: map[string]*history.Recorder{}, crashed: map[string]bool{},
		start: 5000 * int64(time.Second)}
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
		JobRate: 20, TTL: 2 * time.Second, Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC),
		Ended: time.Date(2025, 1, 2, 3, 4, 19, 0, time.UTC),
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
		at = s.op(at, at+s.lwt(at), history.Event{Proc: life + "/" + key[6:], Op: history.OpTake, Key: key, From: &before, To: &to,
			Details: &history.Details{TTLMS: 2000}}, history.Event{Type: history.OK, Sends: []int64{at}})
	}
	own()
	for at < end {
		job := fmt.Sprintf("%s-%d", key[6:], jobs)
		jobs++
		s.op(at, at+s.lwt(at), history.Event{Proc: life + "/e1", Op: history.OpEnqueue, Key: job,
			Details: &history.Details{Job: &history.Job{Queue: "jobs", Shard: key, Kind: "k", MaxAttempts: 3}}},
			history.Event{Type: history.OK, Result: "applied"})
		before := history.Version{Fence: fence, Beat: beat, Attempt: attempt}
		beat, attempt = beat+1, s.uuid()
		to := history.Version{Fence: fence, Beat: beat, Attempt: attempt}
		run++
		at = s.op(at+30e6, at+30e6+s.lwt(at), history.Event{Proc: life + "/" + key[6:], Op: history.OpTick, Key: key, From: &before, To: &to,
			Details: &history.Details{Changes: []history.Change{{Job: job, Do: history.DoClaim, Run: fence<<32 + run, Attempt: 1}}}},
			history.Event{Type: history.OK, Sends: []int64{at + 30e6}})
		s.note(at, life+"/r1", history.Event{Op: history.NoteStart, Key: job, Issuer: key, Token: fence<<32 + run,
			Details: &history.Details{Attempt: 1, DueMS: wall(at), WallMS: wall(at)}, DecidedAt: at})
		done := s.op(at+5e6, at+5e6+s.lwt(at), history.Event{Proc: life + "/r1", Op: history.OpEffect, Key: "job/" + job, Issuer: key,
			Token: fence<<32 + run, EffectKey: "s1", Value: &one, DecidedAt: at},
			history.Event{Type: history.OK, Issuer: key, Token: fence<<32 + run, EffectKey: "s1", Result: "applied", Seen: fence<<32 + run})
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
