package checker

import (
	"fmt"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// Mistakes that real systems have, as the known-broken variants plant them; what the
// simulation has beside these is in sim_test.go and simjob_test.go.
const (
	bugHiLo          bug = "tokens from blocks of each process"
	bugWallTokens    bug = "tokens are wall clock readings"
	bugRowTTL        bug = "rows expire"
	bugPlainTakeover bug = "a takeover has no condition"
	bugIgnoreBeat    bug = "a takeover does not look at the beat"
	bugWallExpiry    bug = "expiry by wall clocks"
	bugPlainRenew    bug = "a renewal has no condition"
	bugIgnoreLoss    bug = "a holder goes on after its lease is lost"
	bugHeartbeatDies bug = "renewing ends with the first that is not answered"
	bugWallLease     bug = "leases by the wall clock"
	bugAwakeLease    bug = "leases by a clock that sleeps"
	bugEarlyRelease  bug = "a release when the work has begun"
	bugCheckRead     bug = "the sink compares with what the process has read"
	bugProcessMemory bug = "the sink compares with what the process has sent"
	bugSilentRaise   bug = "a raise is answered and not done"
	bugPlainTick     bug = "a tick has no condition"
	bugEarlyHandOver bug = "a shard is given away while runs are at work"
	bugSilentDead    bug = "an owner that is not seen is taken for dead"
	bugOneNode       bug = "requests wait for the node that is away"
	bugStopsInFault  bug = "nothing is asked while a node is away"
	bugNoClaims      bug = "nothing is claimed while a node is away"
	bugAttempts      bug = "attempts are counted in memory"
	bugClaimLeaves   bug = "a claim leaves the pending row"
	bugNotRead       bug = "rows of another owner are not read"
	bugBehindMark    bug = "rows behind the mark are not read"
	bugNoKey         bug = "effects have no key"
	bugKeyAttempt    bug = "the key contains the attempt"
	bugAckEffect     bug = "effects are acknowledged before they are done"
	bugOneToken      bug = "one token for all shards"
	bugOneIssuer     bug = "one issuer for all shards"
)

// planted is what the mistakes remember.
type planted struct {
	ids     map[string]int64           // by life
	written map[string]int64           // by lock: when its row was written last
	expires map[string]int64           // by lock: by the wall clock of its holder, in ns
	first   map[string]history.Version // by lock and client: of a lease
	offset  map[string]int64           // by worker: of its wall clock, in ms
	cut     string                     // the worker whose requests to lock rows are lost
	gone    string                     // the worker whose heartbeats are not seen
	noted   map[string]bool            // by life: a plain statement
	top     map[string]int64           // by life: its highest run
}

func newPlanted() planted {
	return planted{
		ids: map[string]int64{}, written: map[string]int64{}, expires: map[string]int64{}, first: map[string]history.Version{},
		offset: map[string]int64{}, noted: map[string]bool{}, top: map[string]int64{},
	}
}

// disturb is what the fault does for the mistakes that need one; from says that it begins.
func (w *world) disturb(from bool) {
	w.away = from
	set := func(x history.Clock) {
		w.planted.offset["w1"] = x.OffsetMS
		for _, f := range w.files {
			if history.Worker(f.header.Proc) == "w1" && !f.dead {
				w.record(f, history.Event{Proc: f.header.Proc, Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: &x}})
			}
		}
	}
	switch w.cfg.bug {
	case bugWallExpiry:
		set(history.Clock{OffsetMS: map[bool]int64{true: 600_000}[from]})
	case bugWallLease:
		set(history.Clock{OffsetMS: map[bool]int64{true: -600_000}[from]})
	case bugAwakeLease:
		if from {
			set(history.Clock{Suspended: true})
			until := w.now + 2*int64(w.cfg.ttl)
			for _, f := range w.files {
				if history.Worker(f.header.Proc) == "w1" {
					f.asleep = until
				}
			}
			w.at(until, func() { set(history.Clock{}) })
		}
	case bugIgnoreLoss:
		w.planted.cut = map[bool]string{true: "w1"}[from]
	case bugSilentDead:
		w.planted.gone = map[bool]string{true: "w1"}[from]
		point := map[bool]string{true: history.PointMemberGone, false: history.PointMemberCame}[from]
		for _, f := range w.files {
			if !f.dead && f != w.host {
				w.record(f, history.Event{Proc: f.header.Proc, Type: history.Note, Op: history.NotePoint, Details: &history.Details{Point: point}, Key: "w1"})
			}
		}
	}
}

// row is a lock's row as it is read.
func (w *world) row(lock string) history.Version {
	if at, ok := w.planted.written[lock]; ok && w.cfg.bug == bugRowTTL && w.now-at > int64(w.cfg.ttl) {
		return history.Version{Absent: true}
	}
	return w.rows[lock]
}

// tickCQL is the conditional statement that an owner's batch should be.
const tickCQL = "UPDATE shards SET fence = ?, tick = ? WHERE queue = ? AND shard = ? IF fence = ? AND tick = ?"

// plainStatement notes a statement without a condition at its first use, and one that has.
func (c *simClient) plainStatement(cql string) {
	if life := history.Life(c.proc); !c.w.planted.noted[life] {
		c.w.planted.noted[life] = true
		c.w.record(c.f, history.Event{Proc: life, Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &history.Statement{CQL: cql, Consistency: "QUORUM"}}})
		c.w.record(c.f, history.Event{Proc: life, Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &history.Statement{CQL: tickCQL, Consistency: "QUORUM", SerialConsistency: "SERIAL"}}})
	}
}

const plainLockCQL = "UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?"

// execute carries out one copy of a compare-and-set.
func (c *simClient) execute(op history.Op, lock string, from, to history.Version) casReply {
	w := c.w
	row := w.row(lock)
	ok := row == from
	takes := op == history.OpAcquire && from.Holder != ""
	plain := false
	switch w.cfg.bug {
	case bugBlindRelease:
		plain = op == history.OpRelease
	case bugPlainTakeover:
		plain = takes
	case bugPlainRenew:
		plain = op == history.OpRenew
	case bugIgnoreBeat:
		ok = ok || takes && row.Fence == from.Fence && row.Holder == from.Holder
	}
	if plain && w.cfg.noted {
		c.plainStatement(plainLockCQL)
	}
	if !ok && !plain {
		return casReply{false, row}
	}
	w.rows[lock], w.planted.written[lock] = to, w.now
	w.planted.expires[lock] = w.now + int64(w.cfg.ttl) + w.planted.offset[history.Worker(c.proc)]*1e6
	return casReply{true, row}
}

// waits says whether a contender still waits for a held row, which it has seen unchanged
// since an instant.
func (c *simClient) waits(lock string, row history.Version, since int64) (history.Version, bool) {
	w := c.w
	switch w.cfg.bug {
	case bugWallExpiry:
		if w.now+w.planted.offset[history.Worker(c.proc)]*1e6 >= w.planted.expires[lock] {
			return row, false
		}
	case bugIgnoreBeat:
		key := lock + c.proc
		if old := w.planted.first[key]; old.Attempt != row.Attempt {
			w.planted.first[key], w.planted.ids[key] = row, w.now
		}
		return w.planted.first[key], w.now-w.planted.ids[key] < row.TTLMS*1e6
	}
	patience := row.TTLMS * 1e6
	switch w.cfg.bug {
	case bugNoWait:
		patience = 0
	case bugSlowTakeover:
		patience *= 3
	}
	return row, w.now-since < patience
}

// token is what is handed out for a grant.
func (c *simClient) token(row history.Version) int64 {
	life := history.Life(c.proc)
	switch c.w.cfg.bug {
	case bugHiLo:
		c.w.planted.ids[life]++
		return 10_000*int64(4-(life[1]-'0')) + c.w.planted.ids[life]
	case bugWallTokens:
		return c.w.wall(life)
	}
	return row.Fence
}

// believes is what a holder with a wrong clock, or none, thinks of its lease.
func (c *simClient) believes(l *lease) bool {
	w := c.w
	switch w.cfg.bug {
	case bugIgnoreLoss, bugHeartbeatDies:
		return true
	case bugWallLease:
		return w.now+(w.planted.offset[history.Worker(c.proc)]-l.offset)*1e6 < l.deadline
	case bugAwakeLease:
		return w.now-min(c.f.asleep-l.since, 2*int64(w.cfg.ttl)) < l.deadline && c.f.asleep > l.since
	}
	return false
}

// stays says whether a job takes longer than its lease, as some must for a mistake to show.
func (c *simClient) stays() time.Duration {
	switch w := c.w; w.cfg.bug {
	case bugWallLease, bugIgnoreLoss:
		if history.Worker(c.proc) == "w1" && (w.planted.offset["w1"] != 0 || w.planted.cut == "w1") {
			return 2 * w.cfg.ttl
		}
	case bugIgnoreBeat:
		if w.chance(0.1) {
			return 2 * w.cfg.ttl
		}
	}
	return 0
}

// lazily answers an effect and does it later, unless its process has died.
func (c *simClient) lazily(e history.Event) {
	w := c.w
	req := e
	w.at(w.now+int64(w.cfg.ttl)/3, func() {
		if !c.f.dead {
			w.sinks[req.Key].call(w.cfg.bug, req)
		}
	})
	e.Type, e.Result, e.Seen, e.DecidedAt, e.Value = history.OK, past.ResultApplied, e.Token, 0, nil
	w.record(c.f, e)
}

// key is under what the sink knows an effect.
func effectKey(b bug, req history.Event) string {
	if b == bugKeyAttempt {
		return fmt.Sprintf("%s#%d", req.EffectKey, req.Token)
	}
	return req.EffectKey
}
