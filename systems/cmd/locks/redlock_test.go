package main

import (
	"errors"
	"testing"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
)

// TestMajority: who has the lock is who most of all servers name, not most of those that answer. Where the
// others could still make a majority, nobody knows.
func TestMajority(t *testing.T) {
	const silent = "silent"
	for _, c := range []struct {
		votes [5]string
		id    string
		open  bool
	}{
		{votes: [5]string{}},
		{votes: [5]string{"a", "a", "a", "a", "a"}, id: "a"},
		{votes: [5]string{"a", "b", "a", "", "a"}, id: "a"},
		{votes: [5]string{"a", "a", "b", "b", "b"}, id: "b"},
		{votes: [5]string{"a", "a", "b", "b", ""}},
		{votes: [5]string{"a", "a", "", "", ""}},
		{votes: [5]string{"a", "b", "c", "d", "e"}},
		{votes: [5]string{"a", "a", "a", silent, silent}, id: "a"},
		{votes: [5]string{"a", "a", silent, "b", "b"}, open: true},
		{votes: [5]string{"a", "a", silent, "", ""}, open: true},
		{votes: [5]string{"a", "b", silent, "", ""}},
		{votes: [5]string{"", "", silent, silent, ""}},
		{votes: [5]string{"a", "b", silent, silent, ""}, open: true},
		{votes: [5]string{"", "", silent, silent, silent}, open: true},
		{votes: [5]string{silent, silent, silent, silent, silent}, open: true},
	} {
		var votes []vote
		for _, v := range c.votes {
			if v == silent {
				votes = append(votes, vote{err: errors.New(v)})
			} else {
				votes = append(votes, vote{id: v})
			}
		}
		if id, err := majority(votes); id != c.id || (err != nil) != c.open {
			t.Errorf("%q: %q, %v; want %q, open %t", c.votes, id, err, c.id, c.open)
		}
	}
}

// TestRefusals: as redsync joins what its servers say. Three of five that refuse leave no majority.
func TestRefusals(t *testing.T) {
	taken, over, silent := error(&redsync.ErrNodeTaken{}), redsync.ErrLockAlreadyExpired, error(&redsync.RedisError{Err: errors.New("silent")})
	five := &redlock{pools: make([]redis.Pool, 5)}
	for _, c := range []struct {
		said []error
		open bool
	}{
		{[]error{&redsync.ErrTaken{Nodes: []int{0, 2, 4}}}, false},
		{[]error{taken, over, taken}, false},
		{[]error{silent, over, over, silent, over}, false},
		{[]error{taken, taken}, true}, // three did it, too late
		{[]error{taken, silent, silent, taken}, true},
		{[]error{silent, silent, silent}, true},
		{[]error{redsync.ErrFailed}, true},
		{[]error{redsync.ErrExtendFailed}, true},
		{nil, false},
	} {
		var err error
		for _, e := range c.said {
			err = errors.Join(err, e)
		}
		if len(c.said) == 1 {
			err = c.said[0]
		}
		if got := five.open(err); (got != nil) != c.open {
			t.Errorf("%v: open %v, want %t", c.said, got, c.open)
		}
	}
}
