//go:build integration

package main

import (
	"testing"
	"time"
)

// TestShedLock: ShedLock#231. A lock's end is by the clock of the node that took it, and is compared with the clock of the
// node that wants it: one whose clock is three minutes ahead gets a lock that another has for two. With usingDbTime it
// does not, and neither does one whose clock is right.
func TestShedLock(t *testing.T) {
	for _, c := range []struct{ ahead, clock, taken string }{
		{"3", "node", "true"},
		{"3", "db", "false"},
		{"0", "node", "false"},
	} {
		t.Run(c.ahead+" minutes by "+c.clock, func(t *testing.T) {
			server := startPostgres(t).Nodes[0]
			began := time.Now()
			first, _ := javaMain(t, "shedlock", "OneLock.java", server, "0", c.clock)
			if taken := says(t, first); taken != "true" {
				t.Fatalf("the first has it: %s", taken)
			}
			second, _ := javaMain(t, "shedlock", "OneLock.java", server, c.ahead, c.clock)
			if taken := says(t, second); taken != c.taken || time.Since(began) > 2*time.Minute {
				t.Errorf("the second has it too: %s, want %s, %s after the first began to ask", taken, c.taken, time.Since(began))
			}
		})
	}
}
