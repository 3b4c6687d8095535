package checker

import (
	"fmt"
	"strings"

	"fencepost/harness/record/history"
)

// A shard's header is a fenced row like a lock's, and all that is known of locks
// goes for it: a take is a grant with the next fence, a tick a renewal, a hand-over a
// release. What differs is here. A stamp does not tell its holder: what is under a
// fence belongs to the life that took it. A tick has a nonce of its own. The tokens are run
// ids, whose upper half is the fence.

func isShard(name string) bool { return strings.HasPrefix(name, "shard/") }

func isGrant(o history.Op) bool { return o == history.OpAcquire || o == history.OpTake }

func isRenewal(o history.Op) bool { return o == history.OpRenew || o == history.OpTick }

func isRelease(o history.Op) bool { return o == history.OpRelease || o == history.OpHandOver }

func (l *rowLog) noun() string {
	if l.shard {
		return "shard"
	}
	return "lock"
}

// text says a version of the row in words.
func (l *rowLog) text(v *version) string {
	if l.shard && !v.Absent {
		return fmt.Sprintf("fence %d tick %d (nonce %s)", v.Fence, v.Beat, short(v.Attempt))
	}
	return text(v.Version)
}

// runFence is the fence under which a run was claimed.
func runFence(run int64) int64 { return run >> 32 }

// fenceOf is the fence behind a token.
func (l *rowLog) fenceOf(token int64) int64 {
	if l.shard && runFence(token) > 0 {
		return runFence(token)
	}
	return token
}

// ttl is that of the lease that c grants, in ns.
func (c *cas) ttl() int64 {
	if c.kind() == history.OpTake {
		return c.inv.TTLMS() * 1e6
	}
	return c.to.TTLMS * 1e6
}

// mine says whether the grant is proc's. A shard is a process's, whatever the part
// of it that acts.
func (g *grant) mine(proc string) bool {
	if g.log.shard {
		return history.Life(g.acq.inv.Proc) == history.Life(proc)
	}
	return g.acq.inv.Proc == proc
}

// under is the grant under which the row is at v, as proc sees it.
func (l *rowLog) under(v *version, proc string) *grant {
	if l.shard {
		return l.find(v.Fence, proc)
	}
	return l.byAttempt[v.Attempt]
}

// held says whether somebody holds the row after w.
func (w *write) held() bool {
	c := w.main()
	if c.log.shard {
		return isGrant(c.kind()) || isRenewal(c.kind())
	}
	return w.to.Holder != ""
}

// rowNoun is what the run's fenced rows are called.
func (a *past) rowNoun() string {
	if a.jobs.n.Shards > 0 {
		return "shard"
	}
	return "lock"
}

// rowNouns counts the rows that are searched.
func (a *past) rowNouns(parts []*partition) string {
	shards := 0
	for _, pt := range parts {
		if isShard(pt.name) {
			shards++
		}
	}
	return a.countRows(len(parts)-shards, shards)
}

func (a *past) countRows(locks, shards int) string {
	switch {
	case shards == 0:
		return plural(locks, "lock")
	case locks == 0:
		return plural(shards, "shard")
	}
	return plural(locks, "lock") + " and " + plural(shards, "shard")
}
