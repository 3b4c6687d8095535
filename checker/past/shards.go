package past

import (
	"fmt"
	"strings"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// A shard's header is a fenced row like a lock's, and all that is known of locks
// goes for it: a take is a grant with the next fence, a tick a renewal, a hand-over a
// release. What differs is here. A stamp does not tell its holder: what is under a
// fence belongs to the life that took it. A tick has a nonce of its own. The tokens are run
// ids, whose upper half is the fence.

func IsShard(name string) bool { return strings.HasPrefix(name, "shard/") }

func IsGrant(o history.Op) bool { return o == history.OpAcquire || o == history.OpTake }

func IsRenewal(o history.Op) bool { return o == history.OpRenew || o == history.OpTick }

func IsRelease(o history.Op) bool { return o == history.OpRelease || o == history.OpHandOver }

func (l *Row) Noun() string {
	if l.Shard {
		return "shard"
	}
	return "lock"
}

// Text says a version of the row in words.
func (l *Row) Text(v *Version) string {
	if l.Shard && !v.Absent {
		return fmt.Sprintf("fence %d tick %d (nonce %s)", v.Fence, v.Beat, ShortID(v.Attempt))
	}
	return text(v.Version)
}

// RunFence is the fence under which a run was claimed.
func RunFence(run int64) int64 { return run >> 32 }

// fenceOf is the fence behind a token.
func (l *Row) fenceOf(token int64) int64 {
	if l.Shard && RunFence(token) > 0 {
		return RunFence(token)
	}
	return token
}

// TTL is that of the lease that c grants, in ns.
func (c *CAS) TTL() int64 {
	if c.Kind() == history.OpTake {
		return c.Invoke.TTLMS() * 1e6
	}
	return c.To.TTLMS * 1e6
}

// Mine says whether the grant is proc's. A shard is a process's, whatever the part
// of it that acts.
func (g *Grant) Mine(proc string) bool {
	if g.Row.Shard {
		return history.Life(g.Acquire.Invoke.Proc) == history.Life(proc)
	}
	return g.Acquire.Invoke.Proc == proc
}

// Under is the grant under which the row is at v, as proc sees it.
func (l *Row) Under(v *Version, proc string) *Grant {
	if l.Shard {
		return l.Find(v.Fence, proc)
	}
	return l.ByAttempt[v.Attempt]
}

// Held says whether somebody holds the row after w.
func (w *Write) Held() bool {
	c := w.Main()
	if c.Row.Shard {
		return IsGrant(c.Kind()) || IsRenewal(c.Kind())
	}
	return w.To.Holder != ""
}

// RowNoun is what the run's fenced rows are called.
func (a *Past) RowNoun() string {
	if a.Jobs.Counts.Shards > 0 {
		return "shard"
	}
	return "lock"
}

func (a *Past) CountRows(locks, shards int) string {
	switch {
	case shards == 0:
		return phrase.Plural(locks, "lock")
	case locks == 0:
		return phrase.Plural(shards, "shard")
	}
	return phrase.Plural(locks, "lock") + " and " + phrase.Plural(shards, "shard")
}
