package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/store"
)

// DefaultSchedulers are the numbers of processes by default, as ParseSchedulers reads them:
// those that get a shard each.
const DefaultSchedulers = "1,2,4"

// ParseSchedulers reads numbers with commas between; "" is none.
func ParseSchedulers(s string) ([]int, error) {
	var out []int
	for word := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is no number of processes", word)
		}
		out = append(out, n)
	}
	return out, nil
}

const legendSpread = "jobs in several processes: as many shards are spread over schedulers in that many processes of this machine by their own agreement, as many jobs are in flight in all, and each process enqueues jobs of the shards that it owns, so that none is forwarded; the window begins when every shard has its owner; their baseline is the scheduler in the benchmark's own process"

// spread is the arm of so many processes with the first number of shards between them.
func (s *Suite) spread(processes int) bench.Arm {
	a := s.arm(kindJobs, s.Shards[0])
	a.Baseline = a.ID
	a.ID, a.Processes = fmt.Sprintf("%sx%d", a.ID, processes), processes
	a.Name += fmt.Sprintf(" in %d %s", processes, bench.Plural(processes, "process", "processes"))
	return a
}

// party is a scheduler's part in the agreement of several; nil: there is one.
type party struct {
	env     *bench.Env
	queue   string
	names   []string
	members *member.Group
}

// join makes the part of the env's process among so many, 0 for a scheduler alone. All are
// expected from the start, so that everybody has the same share of the shards at once.
func join(env *bench.Env, queue string, processes int) (*party, error) {
	if processes == 0 {
		return nil, nil
	}
	p := &party{env: env, queue: queue}
	for i := range processes {
		p.names = append(p.names, fmt.Sprintf("process-%d", i+1))
	}
	var err error
	p.members, err = member.New(member.Options{
		Store: env.Members, Cell: queue, Name: p.names[env.Process-1], Expected: p.names, Clock: env.Clock, Logger: env.Logger,
	})
	return p, err
}

func (p *party) group() *member.Group {
	if p == nil {
		return nil
	}
	return p.members
}

// suffix tells the names of schedulers apart.
func (p *party) suffix() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(".%d", p.env.Process)
}

// mine reports whether this process should own a shard.
func (p *party) mine(id store.ShardID) bool { return p == nil || p.members.Rank(id.String()) == 0 }

// settle waits until every process takes part.
func (p *party) settle(ctx context.Context) error {
	if p == nil {
		return nil
	}
	seen := 0
	for {
		there, err := p.env.Members.Members(ctx, p.queue)
		if err == nil {
			seen = len(there)
		}
		if seen == len(p.names) {
			return nil
		}
		if e := clock.Go().Sleep(ctx, 20*time.Millisecond); e != nil {
			return fmt.Errorf("%d of %d schedulers of %s take part: %w", seen, len(p.names), p.queue, errors.Join(e, err))
		}
	}
}

// processBits is how far up in a book's tag the number of its process is.
const processBits = 20

// all are the books of a queue.
func (b *book) all() []*book { return append([]*book{b}, b.others...) }

// entry is a job's in the books of its queue, nil if there is none.
func (b *book) entry(id job.ID) *entry {
	for _, of := range b.all() {
		if n, ok := of.number(id); ok {
			return &of.entries[n]
		}
	}
	return nil
}

// bookLine is what an agent's book says.
type bookLine struct {
	Kind   string `json:"kind"`
	Queue  string `json:"queue"`
	Tag    uint32 `json:"tag"`
	Shards int    `json:"shards"`
	Own    []int  `json:"own"`
	// Entries are the jobs in the order of their numbers, Foreign those of others.
	Entries   []deeds          `json:"entries"`
	Foreign   map[job.ID]deeds `json:"foreign,omitempty"`
	Strangers []job.ID         `json:"strangers,omitempty"`
	Lost      int              `json:"lost,omitempty"`
}

// deeds are what was done with a job: the reply to its enqueue, its runs, those that
// failed, and its completions.
type deeds [4]uint8

func (e *entry) deeds() deeds { return deeds{uint8(e.reply), e.runs, e.failures, e.ends} }

// Export implements bench.Joint.
func (s *Suite) Export() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []bookLine{}
	for _, b := range s.books {
		b.mu.Lock()
		l := bookLine{Kind: b.kind, Queue: b.queue, Tag: b.tag, Shards: b.shards, Own: b.own, Strangers: b.strangers, Lost: b.lost, Foreign: map[job.ID]deeds{}}
		for i := range b.entries {
			l.Entries = append(l.Entries, b.entries[i].deeds())
		}
		for id, e := range b.foreign {
			l.Foreign[id] = e.deeds()
		}
		b.mu.Unlock()
		out = append(out, l)
	}
	return out
}

// Import implements bench.Joint: the books of a queue become one.
func (s *Suite) Import(all []json.RawMessage) error {
	queues := map[string]*book{}
	var lines []bookLine
	for i, raw := range all {
		var of []bookLine
		if err := json.Unmarshal(raw, &of); err != nil {
			return fmt.Errorf("the books of process %d: %w", i+1, err)
		}
		lines = append(lines, of...)
	}
	for _, l := range lines {
		b := l.book()
		if first := queues[l.Queue]; first == nil {
			queues[l.Queue] = b
			s.books = append(s.books, kept{b, l.Kind})
		} else {
			first.others = append(first.others, b)
			first.lost, first.strangers = first.lost+l.Lost, append(first.strangers, l.Strangers...)
		}
	}
	for _, l := range lines {
		first := queues[l.Queue]
		for id, d := range l.Foreign {
			e := first.entry(id)
			if e == nil {
				first.strangers = append(first.strangers, id)
				continue
			}
			e.runs, e.failures, e.ends = e.runs+d[1], e.failures+d[2], e.ends+d[3]
		}
	}
	for _, first := range queues {
		first.ended = 0
		for _, b := range first.all() {
			for _, e := range b.entries {
				first.ended += int(e.ends)
			}
		}
	}
	return nil
}

// book is the inverse of Export.
func (l bookLine) book() *book {
	b := newBook(l.Queue, l.Tag, l.Shards)
	b.own, b.strangers, b.lost = l.Own, l.Strangers, l.Lost
	for _, d := range l.Entries {
		b.entries = append(b.entries, entry{reply: reply(d[0]), runs: d[1], failures: d[2], ends: d[3]})
	}
	return b
}
