package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/store"
)

// balance decides which shards a process gives away, so that all processes have as many: of each
// queue, as the shards of one queue have about the same load, and of all.
//
// Who has more than its share, and two more than the one with the fewest, gives away what is
// another's share. It must have been the same other's for 2 ttl, so that a process that comes and
// goes moves nothing. A shard goes to whose share it is, and stays there while the same processes are
// present, so each moves once at most. Queues go first: meanwhile a process may have less than its share
// of all.
type balance struct {
	self  string // among the members
	ttl   time.Duration
	heirs map[store.ShardID]heir
	told  map[store.ShardID]time.Duration // when its owner was told that it is this process's share
}

// heir is whose share a shard is, and since when.
type heir struct {
	name  string
	since time.Duration
}

// view is what a process knows of all.
type view struct {
	now time.Duration
	// shards are all, in order; shares who should own them, and holders who does: the one by the
	// members' names, the other by the owners', of which this process has the name own.
	shards  []store.ShardID
	shares  map[store.ShardID]string
	holders map[store.ShardID]string
	own     string
}

// tally is who has how many shards of one queue, or of all.
type tally struct {
	share int            // this process's
	held  map[string]int // by owners
}

// tooMany reports whether an owner has more than its share and two more than the one with the fewest,
// of so many members.
func (t *tally) tooMany(own string, members int) bool {
	fewest := t.held[own]
	for _, n := range t.held {
		fewest = min(fewest, n)
	}
	if len(t.held) < members {
		fewest = 0 // somebody has none
	}
	return t.held[own] > t.share && t.held[own] >= fewest+2
}

// next is the shard to give away now.
func (b *balance) next(v view) (give store.ShardID, ok bool) {
	const all = "" // is no queue's name
	tallies, members := map[string]*tally{}, map[string]bool{b.self: true}
	for _, id := range v.shards {
		to := v.shares[id]
		members[to] = true
		if b.heirs[id].name != to {
			b.heirs[id] = heir{to, v.now}
		}
		for _, of := range []string{all, id.Queue} {
			t := tallies[of]
			if t == nil {
				t = &tally{held: map[string]int{v.own: 0}}
				tallies[of] = t
			}
			if to == b.self {
				t.share++
			}
			if name := v.holders[id]; name != "" {
				t.held[name]++
			}
		}
	}
	tooMany := func(of string) bool { return tallies[of].tooMany(v.own, len(members)) }
	ripe := func(id store.ShardID) bool {
		h := b.heirs[id]
		return v.holders[id] == v.own && h.name != b.self && v.now-h.since >= 2*b.ttl
	}
	i := slices.IndexFunc(v.shards, func(id store.ShardID) bool { return ripe(id) && tooMany(id.Queue) })
	if i < 0 && len(v.shards) > 0 && tooMany(all) {
		i = slices.IndexFunc(v.shards, ripe)
	}
	if i < 0 {
		return give, false
	}
	return v.shards[i], true
}

// lacks are the shards whose owners are to be told that they are this process's share: once a ttl.
func (b *balance) lacks(v view) (out []store.ShardID) {
	for _, id := range v.shards {
		if v.shares[id] != b.self || v.holders[id] == "" || v.holders[id] == v.own {
			delete(b.told, id)
		} else if at, ok := b.told[id]; !ok || v.now-at >= b.ttl {
			b.told[id] = v.now
			out = append(out, id)
		}
	}
	return out
}

func (s *Scheduler) view() view {
	v := view{now: s.clock.Now(), shards: s.divide(), shares: map[store.ShardID]string{}, holders: s.engine.Holders(), own: s.name}
	shares := s.group.Shares()
	for _, id := range v.shards {
		v.shares[id] = shares[id.String()]
	}
	return v
}

// divide returns all shards. Each process has a share of each queue's.
func (s *Scheduler) divide() (out []store.ShardID) {
	var groups [][]string
	for _, q := range s.engine.Queues() {
		var keys []string
		for n := range q.Shards {
			id := store.ShardID{Queue: q.Name, Shard: n}
			out, keys = append(out, id), append(keys, id.String())
		}
		groups = append(groups, keys)
	}
	if s.group != nil {
		s.group.Divide(groups)
	}
	return out
}

// restTTLs is for how many ttls nothing is given away after runs have kept a shard here.
const restTTLs = 4

// keepEven gives shards away, one at a time, until ctx ends.
func (s *Scheduler) keepEven(ctx context.Context) {
	b := balance{self: s.group.Name(), ttl: s.ttl, heirs: map[store.ShardID]heir{}, told: map[store.ShardID]time.Duration{}}
	for s.clock.Sleep(ctx, s.ttl/8) == nil {
		v := s.view()
		for _, id := range b.lacks(v) {
			s.want(ctx, id)
		}
		for _, some := b.next(v); some; _, some = b.next(v) {
			// Who has left since the last look would be given what nobody had then.
			if s.group.Look(ctx) != nil {
				break
			}
			v = s.view()
			id, ok := b.next(v)
			if !ok {
				break
			}
			if err := s.give(ctx, id, v.shares[id]); err != nil {
				s.logger.Info("a shard stays that should be another process's", "shard", id.String(), "to", v.shares[id], "error", err)
				if errors.Is(err, engine.ErrRunsGoOn) {
					_ = s.clock.Sleep(ctx, restTTLs*s.ttl)
				}
				break
			}
			v = s.view()
		}
	}
}

// want tells the owner of a shard where to find this process, whose share it is. Without that, the shard
// comes to it all the same, a little later.
func (s *Scheduler) want(ctx context.Context, id store.ShardID) {
	addr := s.engine.OwnerAddr(id)
	if addr == "" || s.addr == "" {
		return
	}
	if err := s.client.Want(ctx, addr, id, s.addr); err != nil && ctx.Err() == nil {
		s.logger.Info("the owner of a shard was not told that it should be this process's", "shard", id.String(), "owner", addr, "error", err)
	}
}

// give hands a shard over to the process of that name.
func (s *Scheduler) give(ctx context.Context, id store.ShardID, to string) error {
	addr := s.engine.WantedBy(id)
	if err := s.engine.HandOver(ctx, id, addr); err != nil {
		return err
	}
	s.logger.Info("handed a shard over, so that all processes have as many", "shard", id.String(), "to", to)
	if addr != "" {
		if err := s.client.Glance(ctx, addr, id); err != nil && ctx.Err() == nil {
			s.logger.Info("the next owner of a shard was not told, and will see it by itself", "shard", id.String(), "addr", addr, "error", err)
		}
	}
	return nil
}
