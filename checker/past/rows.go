package past

import (
	"cmp"
	"fmt"
	"slices"
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

// OfQueue says whether a row is a shard of a queue.
func OfQueue(name, queue string) bool {
	shard, ok := strings.CutPrefix(name, "shard/"+queue+"/")
	return ok && !strings.Contains(shard, "/")
}

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
	return versionText(v.Version)
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

// OwnedBy says whether the grant is proc's. A shard is a process's, whatever the part
// of it that acts.
func (g *Grant) OwnedBy(proc string) bool {
	if g.Row.Shard {
		return history.Life(g.Acquire.Invoke.Proc) == history.Life(proc)
	}
	return g.Acquire.Invoke.Proc == proc
}

// GrantAt is the grant under which the row is at v, as proc sees it.
func (l *Row) GrantAt(v *Version, proc string) *Grant {
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

// Version is a version of a row. A row has one of each, so versions compare as pointers.
type Version struct {
	*history.Version
	Number int32    // among the row's, from 0, no row
	Place  int32    // in the chain, of the write that set it; noRowPlace, NotInChain
	SetBy  []*Write // that set it
	UsedBy []*Write // that name it
	Next   *Write   // the chain's write among UsedBy
	Shown  []Observation
	twin   *Version // another one with the same key
}

// Observation is an answer that showed a version: a SERIAL read's, or a rejection.
type Observation struct {
	*Op
	CAS *CAS // that was rejected; nil: it is a read
}

// Read is a SERIAL read that was answered.
type Read struct {
	*Op
	Version *Version
}

// Places of versions that no write of the chain has set.
const (
	noRowPlace = -1 // before the first
	NotInChain = -2
)

// versionKey tells versions apart but for those of a broken record.
type versionKey struct {
	attempt string
	beat    int64
}

// version is the row's for v.
func (l *Row) version(v *history.Version) *Version {
	v = canonical(v)
	key := versionKey{v.Attempt, v.Beat}
	for x := l.byKey[key]; x != nil; x = x.twin {
		if *x.Version == *v {
			return x
		}
	}
	x := &Version{Version: v, Number: int32(len(l.Versions)), Place: NotInChain, twin: l.byKey[key]}
	if v.Absent {
		x.Place = noRowPlace
	}
	l.byKey[key] = x
	l.Versions = append(l.Versions, x)
	return x
}

// file files a CAS.
func (l *Row) file(o *Op) {
	c := &CAS{Op: *o, Row: l, From: l.version(o.Invoke.From), To: l.version(o.Invoke.To)}
	if row, ok := shownRow(o.End); ok {
		c.Shown = l.version(row)
		if o.Outcome == history.Fail {
			c.Shown.Shown = append(c.Shown.Shown, Observation{&c.Op, c})
		}
	}
	l.CAS = append(l.CAS, c)
}

// fileRead files a SERIAL read.
func (l *Row) fileRead(o *Op) {
	if row, ok := shownRow(o.End); ok {
		v := l.version(row)
		v.Shown = append(v.Shown, Observation{o, nil})
		l.Reads = append(l.Reads, Read{o, v})
	}
}

// inOrder sorts what showed the version by invocation.
func (v *Version) inOrder() {
	slices.SortStableFunc(v.Shown, func(a, b Observation) int { return cmp.Compare(a.Invoke.TS, b.Invoke.TS) })
}

// NoRow is the version of a row that is not there.
var NoRow = history.Version{Absent: true}

// canonical is v in the one form that compares: all absent rows are equal, and so is a
// header that no batch has changed.
func canonical(v *history.Version) *history.Version {
	if v.Absent || *v == (history.Version{Attempt: v.Attempt}) {
		return &NoRow
	}
	return v
}

// shownRow is the row that an end shows, if it shows one. A fail for another
// reason than a rejection (not sent, unavailable) names the reason and shows none.
func shownRow(e *history.Event) (row *history.Version, ok bool) {
	if e == nil || e.Row == nil || (e.Row.Absent && e.Error != "") {
		return nil, false
	}
	return e.Row, true
}

// versionText says a version in words.
func versionText(v *history.Version) string {
	switch {
	case v.Absent:
		return "no row"
	case v.Holder == "":
		return fmt.Sprintf("fence %d beat %d (free)", v.Fence, v.Beat)
	}
	return fmt.Sprintf("fence %d beat %d (%s, attempt %s)", v.Fence, v.Beat, v.Holder, ShortID(v.Attempt))
}

func ShortID(attempt string) string {
	if len(attempt) > 8 {
		return attempt[:8]
	}
	return attempt
}

// shown is the first answer that proves that the row was at v: a read of it, or a
// write that applied to it.
func (v *Version) FirstProof() *Op {
	var first *Op
	earlier := func(o *Op) {
		if first == nil || o.End.TS < first.End.TS {
			first = o
		}
	}
	for _, s := range v.Shown {
		if s.CAS == nil {
			earlier(s.Op)
		}
	}
	for _, w := range v.UsedBy {
		if c := w.OK(); c != nil {
			earlier(&c.Op)
		}
	}
	return first
}
