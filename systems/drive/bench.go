package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/google/uuid"
)

// order is a line of `fencepost bench --subject=field`: a client takes a lock, once, or gives it back.
type order struct {
	Client  int    `json:"client"`
	Acquire string `json:"acquire"`
	Release string `json:"release"`
}

// answered is what became of it: done, or somebody else has the lock; an error leaves that open.
type answered struct {
	Client int    `json:"client"`
	Done   bool   `json:"done"`
	Error  string `json:"error,omitempty"`
}

// bench takes and gives back locks as the lines of the standard input say, until it ends. Each client
// has one order at a time. A line without a client says that all are connected.
func bench(l Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTime)
	defer cancel()
	if l.Setup != nil {
		if err := l.Setup(ctx, place()); err != nil {
			return err
		}
	}
	clients := make([]*benched, number("CLIENTS"))
	for i := range clients {
		locker, err := l.open(ctx)
		if err != nil {
			return err
		}
		clients[i] = &benched{locker: locker, orders: make(chan order)}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(answered{Client: -1, Done: true}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range clients {
		wg.Go(func() {
			for o := range c.orders {
				a := c.do(o)
				mu.Lock()
				_ = out.Encode(a) // who reads it is gone, and so is its input
				mu.Unlock()
			}
		})
	}
	err := handOut(json.NewDecoder(os.Stdin), clients)
	for _, c := range clients {
		close(c.orders)
	}
	wg.Wait()
	for _, c := range clients {
		err = errors.Join(err, c.locker.Close())
	}
	return err
}

// handOut gives each client its orders.
func handOut(in *json.Decoder, clients []*benched) error {
	for {
		var o order
		switch err := in.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case o.Client < 0 || o.Client >= len(clients):
			return fmt.Errorf("an order for client %d, and there are %d", o.Client, len(clients))
		}
		clients[o.Client].orders <- o
	}
}

// benched is a client of a benchmark.
type benched struct {
	locker Locker
	orders chan order
	id     string // of what it took last
}

func (c *benched) do(o order) answered {
	ctx, cancel := context.WithTimeout(context.Background(), tryTimeout())
	defer cancel()
	a := answered{Client: o.Client}
	var err error
	if o.Acquire != "" {
		c.id = uuid.NewString()
		_, a.Done, err = c.locker.Acquire(ctx, o.Acquire, c.id, millis("TTL_MS"))
	} else {
		a.Done, err = c.locker.Release(ctx, o.Release, c.id)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
