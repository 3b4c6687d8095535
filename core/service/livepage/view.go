package livepage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

const (
	// lookEvery is how often processes are asked while somebody looks, readEvery the
	// shards' headers read.
	lookEvery = time.Second
	readEvery = 2 * time.Second
	// askTimeout bounds a question to a process, readTimeout the read of all headers, lookWait
	// for how long a view waits for that.
	askTimeout  = 800 * time.Millisecond
	lookWait    = 200 * time.Millisecond
	readTimeout = 5 * time.Second
	// maxAnswer bounds a process's answer, in bytes.
	maxAnswer = 1 << 20
)

// View is what a page shows.
type View struct {
	At        int64         `json:"at"` // ms since 1970
	Self      string        `json:"self"`
	Processes []ProcessView `json:"processes"`
	Queues    []QueueView   `json:"queues"`
	// States are the jobs that are pending, running and in the dead letter queue, as the
	// owners of shards count them; nil: no owner has said.
	States map[string]engine.Count `json:"states"`
	// Uncounted is how many shards no owner has counted.
	Uncounted int      `json:"uncounted,omitempty"`
	Seconds   []Second `json:"seconds"` // the last minute without the second that is not over
	Runs      []Run    `json:"runs"`
	// Problems is what could not be read.
	Problems []string `json:"problems,omitempty"`
}

// ProcessView is a process that owns shards, or that is asked.
type ProcessView struct {
	Name    string `json:"name"`
	Since   int64  `json:"since,omitempty"`
	Running int    `json:"running"`
	Totals  Counts `json:"totals"`
	Late    int64  `json:"late"` // the worst of the last minute, in ms
	// Unknown is why it could not be asked.
	Unknown string `json:"unknown,omitempty"`
	Shards  int    `json:"shards"`
}

// QueueView is a queue with the owner of each shard, "" for nobody.
type QueueView struct {
	Name   string   `json:"name"`
	Owners []string `json:"owners"`
}

// Reader reads the store; *query.Reader implements it.
type Reader interface {
	Queues() []store.Queue
	ShardsOf(ctx context.Context, queue string) ([]query.Shard, error)
}

// collector makes views.
type collector struct {
	self   *Recorder
	reader Reader
	secret string
	now    func() time.Time
	client *http.Client

	reading lookup
	queues  []QueueView
	addrs   map[string]string // of owners
	readErr error
}

// lookup is done now and then, and waited for a little: a store that does not answer
// must not keep from sight what processes say.
type lookup struct {
	began   time.Time
	pending chan func() // takes the result in; nil: none is on its way
}

// poll begins work if it is time, and takes its result in if that comes soon.
func (l *lookup) poll(ctx context.Context, now time.Time, every time.Duration, work func(context.Context) func()) {
	if l.pending == nil && now.Sub(l.began) >= every {
		pending := make(chan func(), 1)
		l.began, l.pending = now, pending
		go func() {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			pending <- work(ctx)
		}()
	}
	if l.pending == nil {
		return
	}
	select {
	case take := <-l.pending:
		take()
		l.pending = nil
	case <-time.After(lookWait):
	}
}

// end waits for what is on its way, which its context has ended.
func (l *lookup) end() {
	if l.pending != nil {
		<-l.pending
	}
}

// view looks at everything whose time has come.
func (c *collector) view(ctx context.Context) View {
	now := c.now()
	c.reading.poll(ctx, now, readEvery, c.read)
	v := View{At: now.UnixMilli(), Self: c.self.Name(), Queues: c.queues}
	if c.readErr != nil {
		v.Problems = append(v.Problems, "The shards could not be read: "+c.readErr.Error())
	}
	known := c.ask(ctx)
	merge(&v, known, now.Unix())
	v.count(known)
	return v
}

// read reads who owns what.
func (c *collector) read(ctx context.Context) func() {
	var queues []QueueView
	addrs := map[string]string{}
	for _, of := range c.reader.Queues() {
		shards, err := c.reader.ShardsOf(ctx, of.Name)
		if err != nil {
			return func() { c.readErr = err }
		}
		q := QueueView{Name: of.Name}
		for _, s := range shards {
			q.Owners = append(q.Owners, s.Owner)
			if s.Owner != "" {
				addrs[s.Owner] = s.Addr
			}
		}
		queues = append(queues, q)
	}
	return func() { c.queues, c.addrs, c.readErr = queues, addrs, nil }
}

// answer is a process's, or why there is none.
type answer struct {
	Process
	err error
}

// ask asks all owners at once, and this process.
func (c *collector) ask(ctx context.Context) []answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	self := c.self.Now()
	out := []answer{{Process: self}}
	for name := range c.addrs {
		if name != self.Name {
			out = append(out, answer{Process: Process{Name: name}})
		}
	}
	var all sync.WaitGroup
	for i := 1; i < len(out); i++ {
		all.Go(func() {
			name := out[i].Name
			p, err := c.fetch(ctx, c.addrs[name])
			if err == nil && p.Name != name {
				err = fmt.Errorf("another process is at its address: %s", p.Name)
			}
			if err != nil {
				out[i].err = err
				return
			}
			out[i].Process = p
		})
	}
	all.Wait()
	return out
}

func (c *collector) fetch(ctx context.Context, addr string) (p Process, err error) {
	if addr == "" {
		return p, errors.New("no address for other processes (WORKER_PEER_PORT=0)")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+PeerPath, nil)
	if err != nil {
		return p, err
	}
	if c.secret != "" {
		req.Header.Set("Authorization", "Bearer "+c.secret)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return p, errors.New("it does not answer")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return p, fmt.Errorf("it answers with status %d", res.StatusCode)
	}
	return p, json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&p)
}

// merge adds up what processes said.
func merge(v *View, known []answer, now int64) {
	shards := map[string]int{}
	for _, q := range v.Queues {
		for _, owner := range q.Owners {
			shards[owner]++
		}
	}
	seconds := map[int64]*Second{}
	for at := now - span + 1; at < now; at++ {
		seconds[at] = &Second{At: at}
	}
	for _, k := range known {
		p := ProcessView{Name: k.Name, Since: k.Since, Running: k.Running, Totals: k.Totals, Shards: shards[k.Name]}
		if k.err != nil {
			p.Unknown = k.err.Error()
		}
		for _, s := range k.Seconds {
			p.Late = max(p.Late, s.Late)
			if sum := seconds[s.At]; sum != nil {
				sum.add(s)
			}
		}
		v.Processes = append(v.Processes, p)
		v.Runs = append(v.Runs, k.Runs...)
	}
	slices.SortFunc(v.Processes, func(a, b ProcessView) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(v.Runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Attempt, b.Attempt))
	})
	v.Runs = v.Runs[:min(len(v.Runs), lastRuns)]
	for at := now - span + 1; at < now; at++ {
		v.Seconds = append(v.Seconds, *seconds[at])
	}
}

// count adds up the jobs that owners know of. Of a shard without an owner, or whose owner
// does not answer, nothing is known.
func (v *View) count(known []answer) {
	shards, counted := 0, 0
	for _, q := range v.Queues {
		shards += len(q.Owners)
	}
	var pending, running, dlq engine.Count
	for _, k := range known {
		for _, d := range k.Depths {
			counted += d.Shards
			pending, running, dlq = pending.Add(d.Pending), running.Add(d.Running), dlq.Add(d.DLQ)
		}
	}
	v.Uncounted = max(shards-counted, 0)
	if counted == 0 {
		return
	}
	v.States = map[string]engine.Count{}
	for state, n := range map[job.State]engine.Count{job.Pending: pending, job.Running: running, job.DLQ: dlq} {
		n.More = n.More || v.Uncounted > 0
		v.States[string(state)] = n
	}
}
