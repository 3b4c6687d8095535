//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// mistakes are those of redislock.py that a check must report, each by the line that turns red.
var mistakes = []struct{ how, check, text string }{
	{"setup-fails", "setup", "no such table"},
	{"bad-json", "setup", "messages belong to standard error"},
	{"no-event", "history", "has no op"},
	{"skips-ids", "history", "2 ids are missing"},
	{"other-clock", "clock", "after the harness's clock when it read the line"},
	{"slow-clock", "clock", "before the line was there"},
	{"late-invoke", "store", "before its invoke was recorded"},
	{"late-sends", "store", "before the first of its sends"},
	{"secret-get", "sink", "which no operation of it recorded"},
	{"never-asks", "release-sent", "no client came to it"},
	{"does-not-wait", "effect-sent", "its request"},
	{"works-short", "holding", "was told to work for 3.5 s"},
	{"promises-too-much", "P13", "no run on redis can judge it"},
	{"dies", "ready", "out of ideas"},
	{"deaf", "stop", "did not end"},
	{"expires-late", "takeover", "at most 14.8 s are allowed"},
	{"no-exit-note", "stop", "wrote no exit note"},
	{"no-seal", "seal", "no seal of"},
}

// nearMisses are sound, if not as most programs are.
var nearMisses = []struct{ how, check, status string }{
	{"sound", "takeover", "ok"}, {"no-points", "points", "hint"},
}

type ownReport struct {
	Findings []struct{ Check, Status, Text string }
	Suit     []string
}

// has says whether a check found that.
func (r ownReport) has(check, status, text string) bool {
	for _, f := range r.Findings {
		if f.Check == check && f.Status == status && strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

// ownCheck checks a program.
func ownCheck(t *testing.T, program, store string) (code int, r ownReport, out string) {
	t.Helper()
	code, out = fencepost(t, "own", "check", "--json", "--store="+store, "--runs="+t.TempDir(), program)
	_, report, ok := strings.Cut("\n"+out, "\n{") // behind what the start of servers says
	if err := json.Unmarshal([]byte("{"+report), &r); !ok || err != nil {
		t.Fatalf("exit code %d, no report: %v\n%s", code, err, out)
	}
	return code, r, out
}

// TestOwnCheck: sound programs pass, and each mistake turns the line that is about it. The mistakes
// take turns by the date.
func TestOwnCheck(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts servers of its own: scripts/test-real runs it before it brings the shared cluster up")
	}
	needsPython(t)
	fetchStore(t, "redis")
	const program = "python3 testdata/redislock.py "
	day, all := today(t)
	t.Run("redis-set", func(t *testing.T) {
		code, r, out := ownCheck(t, "../bin/locks redis-set", "redis")
		if code != 0 || !slices.Contains(r.Suit, "pause-worker") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	for i, c := range nearMisses {
		if !all && i != day%len(nearMisses) {
			continue
		}
		t.Run(c.how, func(t *testing.T) {
			code, r, out := ownCheck(t, program+c.how, "redis")
			if code != 0 || !r.has(c.check, c.status, "") {
				t.Errorf("exit code %d, %s is not %s\n%s", code, c.check, c.status, out)
			}
		})
	}
	for i, c := range mistakes {
		if !all && i%6 != day%6 {
			continue
		}
		t.Run(c.how, func(t *testing.T) {
			code, r, out := ownCheck(t, program+c.how, "redis")
			if code != 1 || !r.has(c.check, "wrong", c.text) {
				t.Errorf("exit code %d, %s is not wrong by %q\n%s", code, c.check, c.text, out)
			}
		})
	}
}
