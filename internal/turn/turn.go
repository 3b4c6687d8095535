// Package turn says which tests have their turn: what is too long for every run of the tests takes
// turns by the date (docs/ci.md).
package turn

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Today is the turn that TURN names in the environment, in days since 1970-01-01 (UTC), or today's
// without it. With TURN=all everything has its turn, and the day is today's.
func Today() (day int, all bool, err error) {
	today := int(time.Now().Unix() / (24 * 60 * 60))
	switch s := os.Getenv("TURN"); s {
	case "":
		return today, false, nil
	case "all":
		return today, true, nil
	default:
		day, err = strconv.Atoi(s)
		if err != nil || day < 0 {
			return 0, false, fmt.Errorf("TURN=%s is neither a number nor all", s)
		}
		return day, false, nil
	}
}

// stores are those of one day after the other: the servers of some take a minute to build.
var stores = []string{"etcd", "redis", "nats", "postgres", "zookeeper"}

// HasStore reports whether a store has its turn on that day. A store with several rows has one for
// all: redis is also redis-5's.
func HasStore(day int, store string) bool {
	kind, _, _ := strings.Cut(store, "-")
	return kind == stores[day%len(stores)]
}

// Share is what of several things of one store has its turn on a day of that store: so many on one such day, the
// next on the next.
func Share[T any](day, many int, of []T) []T {
	shares := slices.Collect(slices.Chunk(of, many))
	if len(shares) == 0 {
		return nil
	}
	return shares[day/len(stores)%len(shares)]
}
