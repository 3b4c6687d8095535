package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"fencepost/core/job"
	"fencepost/core/service/query"
)

// States of queues.
const (
	queueRunning = "running"
	queuePaused  = "paused"
	queuePartly  = "partly-paused"
)

// queueView is a queue: how much it holds, and who owns its shards.
type queueView struct {
	Queue string `json:"queue"`
	State string `json:"state"`
	// Depth is by state.
	Depth  map[job.State]depthView `json:"depth"`
	Shards []shardView             `json:"shards"`
}

type depthView struct {
	Jobs int `json:"jobs"`
	// More: there may be more.
	More bool `json:"more"`
}

type shardView struct {
	Shard  int    `json:"shard"`
	Owner  string `json:"owner,omitempty"`
	Addr   string `json:"addr,omitempty"`
	Fence  int64  `json:"fence"`
	Ticks  int64  `json:"ticks"`
	Paused bool   `json:"paused"`
	// Since is when a shard that is paused was.
	Since string `json:"paused_since,omitempty"`
}

func queueOf(q query.Queue) queueView {
	v := queueView{Queue: q.Name, State: queueRunning, Depth: map[job.State]depthView{}, Shards: []shardView{}}
	switch q.Paused() {
	case 0:
	case len(q.Shards):
		v.State = queuePaused
	default:
		v.State = queuePartly
	}
	for state, d := range q.Depth {
		v.Depth[state] = depthView(d)
	}
	for _, sh := range q.Shards {
		one := shardView{Shard: sh.Shard, Owner: sh.Owner, Addr: sh.Addr, Fence: sh.Fence, Ticks: sh.Tick, Paused: sh.Pause.On}
		if sh.Pause.On {
			one.Since = stamp(time.UnixMilli(sh.Pause.Since))
		}
		v.Shards = append(v.Shards, one)
	}
	return v
}

func (s *server) listQueues(r *http.Request) (reply, error) {
	if _, err := parameters(r); err != nil {
		return reply{}, err
	}
	out := page[queueView]{Items: []queueView{}}
	for _, q := range s.o.Reader.Queues() {
		known, err := s.o.Reader.Queue(r.Context(), q.Name)
		if err != nil {
			return reply{}, err
		}
		out.Items = append(out.Items, queueOf(known))
	}
	return reply{body: out}, nil
}

// queueAt is the queue of a path.
func (s *server) queueAt(r *http.Request) (string, error) {
	name := r.PathValue("queue")
	if _, err := parameters(r); err != nil {
		return "", err
	}
	if _, err := s.queueOf(r, name); errors.As(err, new(*job.InvalidError)) {
		return "", missing("no-queue", fmt.Sprintf("there is no queue %q here", name))
	}
	return name, nil
}

func (s *server) getQueue(r *http.Request) (reply, error) {
	name, err := s.queueAt(r)
	if err != nil {
		return reply{}, err
	}
	q, err := s.o.Reader.Queue(r.Context(), name)
	return reply{body: queueOf(q)}, err
}

// queueRequest is what PUT asks for.
type queueRequest struct {
	Shards int `json:"shards"`
}

// queueSize is the answer: how many shards a queue has now, and had at first.
type queueSize struct {
	Queue  string `json:"queue"`
	Shards int    `json:"shards"`
	First  int    `json:"first_shards"`
	// Duplicate: it had as many already.
	Duplicate bool `json:"duplicate"`
}

// putQueue creates a queue, or gives it more shards.
func (s *server) putQueue(r *http.Request) (reply, error) {
	var in queueRequest
	if _, err := parameters(r); err != nil {
		return reply{}, err
	}
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	q, duplicate, err := s.o.Scheduler.PutQueue(r.Context(), r.PathValue("queue"), in.Shards)
	return reply{body: queueSize{q.Name, q.Shards, q.First, duplicate}}, err
}

// queueReceipt is the answer to a pause.
type queueReceipt struct {
	Queue string `json:"queue"`
	State string `json:"state"`
	// Duplicate: all shards were so already.
	Duplicate bool `json:"duplicate"`
}

// setPaused has a queue paused, or resumed.
func (s *server) setPaused(on bool) func(*http.Request) (reply, error) {
	state := map[bool]string{true: queuePaused, false: queueRunning}[on]
	return func(r *http.Request) (reply, error) {
		name, err := s.queueAt(r)
		if err != nil {
			return reply{}, err
		}
		duplicate, err := s.o.Scheduler.SetPaused(r.Context(), name, on)
		return reply{body: queueReceipt{Queue: name, State: state, Duplicate: duplicate}}, err
	}
}
