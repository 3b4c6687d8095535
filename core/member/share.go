package member

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Rank is self's place, from 0, among present for what is called key, by rendezvous
// hashing (Thaler and Ravishankar, 1998): each key has an order of all names of its
// own, so that when one goes, only what it was first for moves. Self counts whether it
// is present or not.
func Rank(key, self string, present []string) int {
	k := hash(key)
	rank, own := 0, score(k, hash(self))
	for _, name := range present {
		if name != self && score(k, hash(name)) > own {
			rank++
		}
	}
	return rank
}

// Share divides groups of keys among names as evenly as it can be done, each key to a name that it
// scores highly (see Rank; bounded loads: Mirrokni, Thorup and Zadimoghaddam, 2018): of each group,
// and of all keys, nobody has two more than another. Of all pairs of a key and a name the one with
// the highest score goes first, unless no name takes some key: then another key makes room. A name takes no more than its share, and who has one key more
// than others is decided by the scores too. So when a name comes or goes, few keys of others
// move. The result is the same for everybody who knows the same keys and names. No key is in two
// groups.
//
// It takes about 10 ms for 1,000 keys and names.
func Share(groups [][]string, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	d := divide(groups, slices.Sorted(slices.Values(names)))
	for len(d.open) > 0 {
		first, stuck := d.first()
		if stuck {
			d.makeRoom(d.open[first])
			d.best(&d.open[first])
		}
		d.give(first)
	}
	out := make(map[string]string, len(d.given))
	for _, c := range d.given {
		out[c.key] = d.names[c.name]
	}
	return out
}

// division is what the names have got so far, each by its place in names.
type division struct {
	names  []string
	hashes []uint64
	all    quota
	groups []quota
	open   []claim
	given  []claim
}

// claim is a key and the name that it scores highest of those that still take keys; -1: none, or
// it is not known yet.
type claim struct {
	key   string
	hash  uint64
	group int
	name  int
	score uint64
}

// divide begins a division. Claims are in the order of their keys, whatever the order of the groups.
func divide(groups [][]string, names []string) *division {
	d := &division{names: names}
	for _, name := range names {
		d.hashes = append(d.hashes, hash(name))
	}
	for g, keys := range groups {
		d.groups = append(d.groups, newQuota(len(keys), len(names)))
		for _, key := range keys {
			d.open = append(d.open, claim{key: key, hash: hash(key), group: g, name: -1})
		}
	}
	d.all = newQuota(len(d.open), len(names))
	slices.SortFunc(d.open, func(a, b claim) int { return strings.Compare(a.key, b.key) })
	return d
}

func (d *division) takes(name, group int) bool {
	return name >= 0 && d.all.takes(name) && d.groups[group].takes(name)
}

// highest is the name that a key scores highest of those that may have it, and how high; -1: none may.
func (d *division) highest(key uint64, may func(name int) bool) (name int, best uint64) {
	name = -1
	for i, h := range d.hashes {
		if s := score(key, h); may(i) && (name < 0 || s > best) {
			name, best = i, s
		}
	}
	return name, best
}

// best finds the name that a key scores highest of those that take it.
func (d *division) best(c *claim) {
	c.name, c.score = d.highest(c.hash, func(name int) bool { return d.takes(name, c.group) })
}

// first finds the open claim with the highest score, or one that is stuck: no name takes its key.
func (d *division) first() (first int, stuck bool) {
	for i := range d.open {
		c := &d.open[i]
		if !d.takes(c.name, c.group) {
			if d.best(c); c.name < 0 {
				return i, true
			}
		}
		if c.score > d.open[first].score {
			first = i
		}
	}
	return first, false
}

// give gives an open key to the name that it claims.
func (d *division) give(i int) {
	c := d.open[i]
	d.all.add(c.name)
	d.groups[c.group].add(c.name)
	d.given = append(d.given, c)
	d.open[i] = d.open[len(d.open)-1]
	d.open = d.open[:len(d.open)-1]
}

// makeRoom has a name that would take another key of c's group, and has its share of all, give a key
// of another group to one that still takes some. There is such a key: the first name has more keys of all
// than the second, and fewer of c's group, so more of some other group; there the two exchange
// their numbers.
func (d *division) makeRoom(c claim) {
	from, _ := d.highest(c.hash, d.groups[c.group].takes)
	moves, to, best := -1, -1, uint64(0)
	for i, g := range d.given {
		if g.name != from {
			continue
		}
		load := d.groups[g.group].load
		name, s := d.highest(g.hash, func(name int) bool { return d.all.takes(name) && load[from] > load[name] })
		if name >= 0 && (moves < 0 || s > best) {
			moves, to, best = i, name, s
		}
	}
	g := &d.given[moves]
	for _, q := range []*quota{&d.all, &d.groups[g.group]} {
		q.remove(from)
		q.add(to)
	}
	g.name = to
}

// quota is how evenly some keys are divided: each name takes at least so many, and so many names
// take one more.
type quota struct {
	least, more int
	load        []int
}

func newQuota(keys, names int) quota {
	return quota{least: keys / names, more: keys % names, load: make([]int, names)}
}

func (q *quota) takes(name int) bool {
	return q.load[name] < q.least || q.load[name] == q.least && q.more > 0
}

func (q *quota) add(name int) {
	if q.load[name] == q.least {
		q.more--
	}
	q.load[name]++
}

func (q *quota) remove(name int) {
	q.load[name]--
	if q.load[name] == q.least {
		q.more++
	}
}

// hash is one whose every bit depends on every byte: names differ in their last.
func hash(s string) uint64 {
	h := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(h[:])
}

// score is how much a key wants a name: the finalizer of SplitMix64 over both hashes.
func score(key, name uint64) uint64 {
	x := key ^ name*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
