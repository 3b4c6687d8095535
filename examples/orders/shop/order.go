package shop

import (
	"encoding/json"
	"errors"
	"fmt"

	"fencepost/core/job"
)

// Kinds of jobs, in the order in which they follow each other.
const (
	KindReserve = "reserve"
	KindPay     = "pay"
	KindFulfil  = "fulfil"
)

// Order is what a customer asks for.
type Order struct {
	// ID is the customer's own, and the idempotency key: asked for twice, it is one order.
	ID       string `json:"id"`
	Item     string `json:"item"`
	Quantity int64  `json:"quantity"`
	Cents    int64  `json:"cents"` // for all of it
}

// Job is the order as a sequence of jobs, for a queue of so many shards.
func (o Order) Job(queue string, shards int) (job.Job, error) {
	if o.ID == "" || o.Item == "" || o.Quantity < 1 || o.Cents < 1 {
		return job.Job{}, fmt.Errorf("order %+v: it needs an id, an item, a quantity and a price", o)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return job.Job{}, err
	}
	return job.Job{
		ID: job.KeyedID(queue, o.ID, shards), Queue: queue, Key: o.ID, Kind: KindReserve, Payload: body,
		Then: []job.Job{{Kind: KindPay, Payload: body}, {Kind: KindFulfil, Payload: body}},
	}.WithDefaults(), nil
}

// orderOf reads a job's order. A job without one will never have one.
func orderOf(j job.Job) (Order, error) {
	var o Order
	err := json.Unmarshal(j.Payload, &o)
	if err == nil && o.ID == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return o, job.Cancel(fmt.Errorf("payload: want an order: %w", err))
	}
	return o, nil
}

// Keys of an order's effects: the idempotency keys. They name the order and what is
// done, and nothing of the run that does it.
func (o Order) reserveKey() string { return "reserve " + o.ID }
func (o Order) rejectKey() string  { return "reject " + o.ID }
func (o Order) payKey() string     { return "pay " + o.ID }
func (o Order) cancelKey() string  { return "cancel " + o.ID }
func (o Order) shipKey() string    { return "ship " + o.ID }

// Effects are the keys that a job of the order may use: one of them, once.
func (o Order) Effects(kind string) []string {
	switch kind {
	case KindReserve:
		return []string{o.reserveKey(), o.rejectKey()}
	case KindPay:
		return []string{o.payKey(), o.cancelKey()}
	case KindFulfil:
		return []string{o.shipKey()}
	}
	return nil
}
