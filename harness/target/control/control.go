// Package control is the channel between the runner and a worker process: JSON
// Lines over a socket pair that the worker inherits as file descriptor 3.
//
// Its purpose is faults triggered by events. The runner arms a point ("the
// holder is inside its critical section", "a CAS is about to be sent"); the
// first client of the worker that reaches it reports a hit and stands still
// until the runner, having injected the fault, says go. So the fault is in place
// when the client goes on, in every run and not by luck. A point that is not
// armed costs one atomic load.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/harness/env/login"
	"fencepost/harness/record/history"
)

// FD is the worker's end of the channel.
const FD = 3

// Point is a place in a client's life that can be armed.
type Point string

// The points. The -sent ones stand immediately before the first copy of the
// request is handed to the driver, after its invocation was recorded and the
// holder's clock was read. The -answered ones stand where the answer to a request that
// was applied has come, before it is recorded and before the client acts on it.
const (
	Holding     Point = "holding"      // lock held, value read, effect not yet decided
	AcquireSent Point = "acquire-sent" // an acquire's CAS
	RenewSent   Point = "renew-sent"   // a renewal's CAS
	ReleaseSent Point = "release-sent" // a release's CAS
	EffectSent  Point = "effect-sent"  // decided to write, the write not yet sent

	AcquireAnswered Point = "acquire-answered"
	RenewAnswered   Point = "renew-answered"
	ReleaseAnswered Point = "release-answered"
	EffectAnswered  Point = "effect-answered"
)

// The points of the job workload; Holding, EffectSent and EffectAnswered are reached by its
// handlers too. The -sent ones stand before the first copy of a shard's batch that
// carries such a change, the -answered ones when the answer that it was applied has come and
// the shard's owner has not looked at it, the -settled ones when it is known to be applied and
// nobody has been told.
const (
	TakeSent        Point = "take-sent"
	TakeSettled     Point = "take-settled"
	EnqueueSent     Point = "enqueue-sent"
	EnqueueSettled  Point = "enqueue-settled"
	ClaimSent       Point = "claim-sent"
	ClaimSettled    Point = "claim-settled"
	EffectDone      Point = "effect-done"
	CompleteSent    Point = "complete-sent"
	CompleteSettled Point = "complete-settled"
	RetrySent       Point = "retry-sent"
	DLQSent         Point = "dlq-sent"
	HandOverSent    Point = "hand-over-sent"
	FireSent        Point = "fire-sent"
	FireSettled     Point = "fire-settled"
	FollowSent      Point = "follow-sent"
	FollowSettled   Point = "follow-settled"
	PaymentSent     Point = "payment-sent"
	OrderPaid       Point = "order-paid"

	LookSent         Point = "look-sent"
	LookAnswered     Point = "look-answered"
	TakeAnswered     Point = "take-answered"
	BatchPlanned     Point = "batch-planned"
	ClaimAnswered    Point = "claim-answered"
	RunBegin         Point = "run-begin"
	RunStart         Point = "run-start"
	RunEnd           Point = "run-end"
	FinishAnswered   Point = "finish-answered"
	HandOverAnswered Point = "hand-over-answered"
)

// Points lists all points with what they mean, for documentation and validation.
var Points = map[Point]string{
	Holding:     "a client holds the lock and has read the value, before it decides to write",
	AcquireSent: "the CAS of an acquire is about to be sent",
	RenewSent:   "the CAS of a renewal is about to be sent",
	ReleaseSent: "the CAS of a release is about to be sent",
	EffectSent:  "a client has decided to write to the sink; the write is not yet sent",

	AcquireAnswered: "the answer to an acquire that was applied has come, its client does not know yet",
	RenewAnswered:   "the answer to a renewal that was applied has come, its client does not know yet",
	ReleaseAnswered: "the answer to a release that was applied has come, its client does not know yet",
	EffectAnswered:  "the answer to an effect that the sink accepted has come, its client does not know yet",

	TakeSent:        "jobs: the takeover of a shard is about to be sent",
	TakeSettled:     "jobs: a shard has been taken, nothing is read from it yet",
	EnqueueSent:     "jobs: a batch that puts a job into a shard is about to be sent",
	EnqueueSettled:  "jobs: a job is in its shard, its client does not know",
	ClaimSent:       "jobs: a batch that claims a run is about to be sent",
	ClaimSettled:    "jobs: a run is claimed and not yet begun",
	EffectDone:      "jobs: a job has had its effects and is not yet completed",
	CompleteSent:    "jobs: a batch that completes a job is about to be sent",
	CompleteSettled: "jobs: a job is completed, its slot not yet free",
	RetrySent:       "jobs: a batch that puts a failed job back is about to be sent",
	DLQSent:         "jobs: a batch that moves a job to the dead letter queue is about to be sent",
	HandOverSent:    "jobs: the batch that gives a shard away is about to be sent",
	FireSent:        "jobs: a batch that fires a schedule is about to be sent",
	FireSettled:     "jobs: a schedule has fired, its job is not yet claimed",
	FollowSent:      "jobs: a batch that ends a job of a sequence and enqueues the next is about to be sent",
	PaymentSent:     "jobs: an order's payment has been decided and is about to be sent",
	OrderPaid:       "jobs: an order is paid, and the job that paid it not yet completed",
	FollowSettled:   "jobs: a job of a sequence has ended and the next is enqueued, nobody has been told",

	LookSent:         "jobs: a look at the header of another owner's shard is about to be sent",
	LookAnswered:     "jobs: the answer to such a look has come, the clock that times the owner is not yet read",
	TakeAnswered:     "jobs: the answer to a takeover that was applied has come, the new owner does not know yet",
	BatchPlanned:     "jobs: a batch is planned by what the clocks showed; its owner has not yet looked whether it may send it",
	ClaimAnswered:    "jobs: the answer to a batch that claims a run has come, its owner does not know yet",
	RunBegin:         "jobs: a claimed run is about to look at the clock, and to start if its claim is good",
	RunStart:         "jobs: a run has looked at the clock, its handler is not yet called",
	RunEnd:           "jobs: a handler has returned, the shard's owner does not know yet",
	FinishAnswered:   "jobs: the answer to a batch that ends a run has come, its owner does not know yet",
	HandOverAnswered: "jobs: the answer to a batch that gives a shard away has come, the old owner does not know yet",
}

// OfLocks reports a point that only the lock workload reaches, OfJobs one that only
// the job workload does.
func OfLocks(p Point) bool {
	switch p {
	case AcquireSent, RenewSent, ReleaseSent, AcquireAnswered, RenewAnswered, ReleaseAnswered:
		return true
	}
	return false
}

// OfJobs: see OfLocks.
func OfJobs(p Point) bool { return strings.HasPrefix(Points[p], "jobs: ") }

// Answered reports a point that stands where an answer has come and nobody has acted on it.
func Answered(p Point) bool { return strings.HasSuffix(string(p), "-answered") }

// Message is a line in either direction; Cmd says which fields are set.
type Message struct {
	Cmd   string        `json:"cmd"`
	ID    int           `json:"id,omitempty"`
	Point Point         `json:"point,omitempty"`
	Hold  time.Duration `json:"hold_ns,omitempty"` // go: stay in the critical section for this long
	Proc  string        `json:"proc,omitempty"`    // hit
	Key   string        `json:"key,omitempty"`     // hit; arm: only there
	Stats *Stats        `json:"stats,omitempty"`
	Error string        `json:"error,omitempty"`
	// Clock is how the worker's clocks are to be from now on (to the worker; nil
	// only asks), Reading what they then show (from it).
	Clock   *history.Clock `json:"clock,omitempty"`
	Reading *Reading       `json:"reading,omitempty"`
	// Every is how far apart ticks are by the clock that leases go by; 0 ends them.
	Every time.Duration `json:"every_ns,omitempty"`
	// Load is what the worker enqueues from now on.
	Load *Load `json:"load,omitempty"`
	// Login is what the worker has to show to the cluster; the first message to a
	// worker whose configuration says that it comes.
	Login *login.Login `json:"login,omitempty"`
}

// Commands from the runner: login, arm, disarm, go, drain, clock, tick, load. From the worker:
// ready, hit, late (a client was not told to go on in time and did so by itself), stats,
// stopped, error, unrecorded (its recorder cannot write), clock as the answer, and each
// tick, with its number as ID: the n-th is sent when the clock has gone on by n times Every.
const (
	CmdLogin   = "login"
	CmdArm     = "arm"
	CmdDisarm  = "disarm"
	CmdGo      = "go"
	CmdDrain   = "drain"
	CmdReady   = "ready"
	CmdHit     = "hit"
	CmdLate    = "late"
	CmdStats   = "stats"
	CmdStopped = "stopped"
	CmdError   = "error"
	CmdClock   = "clock"
	CmdTick    = "tick"
	CmdLoad    = "load"

	CmdUnrecorded = "unrecorded"
)

// Stats are a worker's running totals, for live progress only.
type Stats struct {
	Cycles     int64 `json:"cycles"`
	Stale      int64 `json:"stale"`
	Unknown    int64 `json:"unknown"`
	LeasesLost int64 `json:"leases_lost"`
	// Enqueuing is how many enqueues are under way now.
	Enqueuing int64 `json:"enqueuing,omitempty"`
	// Came is how many jobs there were to enqueue.
	Came int64 `json:"came,omitempty"`
	// Operations is how many operations were recorded; only programs of users' own
	// tell it.
	Operations int64 `json:"operations,omitempty"`
	// Goroutines is how many the process has now; only fencepost's own workers tell it.
	Goroutines int64 `json:"goroutines,omitempty"`
}

// Add adds those of another worker, or of another life.
func (s *Stats) Add(o Stats) {
	s.Cycles += o.Cycles
	s.Stale += o.Stale
	s.Unknown += o.Unknown
	s.LeasesLost += o.LeasesLost
	s.Enqueuing += o.Enqueuing
	s.Came += o.Came
	s.Operations += o.Operations
	s.Goroutines += o.Goroutines
}

// Load is what a worker with jobs enqueues, in place of its workload's own rate; the zero value
// is that rate again.
type Load struct {
	// Open is how many enqueues are to be under way, whatever their answers: a closed loop.
	Open int `json:"open,omitempty"`
	// Rate is how many jobs a second come, and go away again if they are refused: an open loop.
	Rate float64 `json:"rate,omitempty"`
}

// Reading is what a worker's clocks show at one instant.
type Reading struct {
	At    int64         `json:"at"`       // the true clock, history.Now
	Wall  int64         `json:"wall"`     // wall clock, Unix ns
	Lease time.Duration `json:"lease_ns"` // lease clock
	Awake time.Duration `json:"awake_ns"` // what timers go by
}

// Conn is one end of the channel. Send is safe for concurrent use.
type Conn struct {
	file *os.File
	dec  *json.Decoder
	mu   sync.Mutex
}

// Pair returns the runner's end and the file to hand to the worker.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("control: socketpair: %w", err)
	}
	return NewConn(os.NewFile(uintptr(fds[0]), "control")), os.NewFile(uintptr(fds[1]), "control-worker"), nil
}

// Inherited returns the worker's end.
func Inherited() (*Conn, error) {
	if err := unix.SetNonblock(FD, true); err != nil {
		return nil, fmt.Errorf("control: file descriptor %d: %w (a worker is started by the runner)", FD, err)
	}
	return NewConn(os.NewFile(FD, "control")), nil
}

// NewConn wraps a file.
func NewConn(f *os.File) *Conn { return &Conn{file: f, dec: json.NewDecoder(f)} }

// Send writes one message.
func (c *Conn) Send(m Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.file.Write(append(b, '\n'))
	return err
}

// Receive waits for a message; io.EOF when the other side is gone.
func (c *Conn) Receive() (Message, error) {
	var m Message
	err := c.dec.Decode(&m)
	return m, err
}

// Close closes this end.
func (c *Conn) Close() error { return c.file.Close() }

// GoTimeout bounds how long a client stands at a point without a go, by the time in which
// its process runs. The runner answers in milliseconds; a missing answer means that it is
// gone, or that the fault cannot be put in force: that run is worth nothing.
const GoTimeout = 30 * time.Second

// Gate is the worker's side of armed points.
type Gate struct {
	send  func(Message) error
	armed atomic.Int32 // fast path: number of armed points
	mu    sync.Mutex
	by    map[Point][]arming
	wait  map[int]chan Message
	limit time.Duration // GoTimeout, or less in tests
}

// arming is a point that is armed for one hit, at one key only if there is one.
type arming struct {
	id  int
	key string
}

// NewGate reports hits through send.
func NewGate(send func(Message) error) *Gate {
	return &Gate{send: send, by: map[Point][]arming{}, wait: map[int]chan Message{}, limit: GoTimeout}
}

// Arm arms a point for the first client that reaches it at a lock or resource; key "": at any.
func (g *Gate) Arm(id int, p Point, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.by[p] = append(g.by[p], arming{id, key})
	g.armed.Add(1)
}

// Disarm takes back what has not been hit.
func (g *Gate) Disarm(id int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, all := range g.by {
		if i := slices.IndexFunc(all, func(a arming) bool { return a.id == id }); i >= 0 {
			g.take(p, i)
			return
		}
	}
}

// take removes an arming; g.mu is held.
func (g *Gate) take(p Point, i int) {
	all := g.by[p]
	g.by[p] = append(all[:i:i], all[i+1:]...)
	g.armed.Add(-1)
}

// Go lets the client that hit id go on.
func (g *Gate) Go(m Message) {
	g.mu.Lock()
	ch := g.wait[m.ID]
	delete(g.wait, m.ID)
	g.mu.Unlock()
	if ch != nil {
		ch <- m // buffered, one message an id
	}
}

// Reach is called by a client at a point. If the point is armed it reports the
// hit and waits for go, whose Hold it returns; hit is false if it was not armed. A client
// that waited in vain says so.
func (g *Gate) Reach(ctx context.Context, p Point, proc, key string) (hold time.Duration, hit bool) {
	if g == nil || g.armed.Load() == 0 {
		return 0, false
	}
	g.mu.Lock()
	i := slices.IndexFunc(g.by[p], func(a arming) bool { return a.key == "" || a.key == key })
	if i < 0 {
		g.mu.Unlock()
		return 0, false
	}
	id := g.by[p][i].id
	g.take(p, i)
	ch := make(chan Message, 1)
	g.wait[id] = ch
	g.mu.Unlock()
	at := Message{Cmd: CmdHit, ID: id, Point: p, Proc: proc, Key: key}
	if g.send(at) != nil {
		return 0, false
	}
	// A process that is stopped here finds its go when it runs again, and a ticker that
	// missed many ticks meanwhile has one.
	const parts = 20
	tick := time.NewTicker(g.limit / parts)
	defer tick.Stop()
	for range parts {
		select {
		case m := <-ch:
			return m.Hold, true
		case <-ctx.Done():
			return 0, true
		case <-tick.C:
		}
	}
	at.Cmd = CmdLate
	_ = g.send(at) // who does not hear it is gone
	return 0, true
}
