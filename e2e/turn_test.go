//go:build e2e

package e2e

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// turn is the day, counted from 1970-01-01 (UTC), that decides which of a long list a run has:
// TURN, or today. With TURN=all, what differs between even and odd days is all wanted.
func turn(t *testing.T) (day int, all bool) {
	t.Helper()
	today := int(time.Now().Unix() / (24 * 60 * 60))
	switch s := os.Getenv("TURN"); s {
	case "":
		return today, false
	case "all":
		return today, true
	default:
		day, err := strconv.Atoi(s)
		if err != nil || day < 0 {
			t.Fatalf("TURN=%s is neither a number nor all", s)
		}
		return day, false
	}
}
