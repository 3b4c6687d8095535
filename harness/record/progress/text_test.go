package progress

import (
	"fmt"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/internal/terminal"
)

// story is a run in a few events.
var story = []Event{
	Step("cluster: local"),
	{Seq: 1, Kind: KindRun, Run: &Run{Scenario: "partition", Seed: 7, System: "core", Contention: "high", About: "A cut."}},
	{Seq: 2, T: 0.5, Kind: KindPhase, Phase: "fault"},
	{Seq: 3, T: 1.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 12, PerSecond: 12}},
	{Seq: 4, T: 2, Kind: KindFault, Fault: &history.Fault{ID: "f1", Name: "partition", Action: history.ActionInject, Targets: []string{"n1", "n2"}, Trigger: "at 1s"}},
	{Seq: 5, T: 2.1, Kind: KindFault, Fault: &history.Fault{ID: "f1", Name: "partition", Action: history.ActionEvidence, Text: "no byte passed"}},
	{Seq: 6, T: 2.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 13, PerSecond: 1, Active: []string{"partition n1,n2"}}},
	{Seq: 7, T: 3, Kind: KindViolation, Violation: &Violation{Property: "P3", Text: "token 5 after 6", File: "history/w1.1.jsonl", Line: 9}},
	{Seq: 8, T: 6.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 20, PerSecond: 2, Detail: "nearly there"}},
	{Seq: 9, T: 7, Kind: KindProblem, Text: "a worker died"},
	{Seq: 10, T: 8, Kind: KindChecking},
	{Kind: KindResult, Result: &Result{N: 2, Total: 3, Name: "steady high seed 1", Verdict: "FAIL", Fired: []string{"P3"}, Took: 61, Left: 90, Dir: "runs/x", File: "results/x.json"}},
}

func told(s terminal.Style) string {
	var out strings.Builder
	text := NewText(&out, s)
	for _, e := range story {
		text.Show(e)
	}
	fmt.Fprintln(text, "the end")
	return out.String()
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	want := `cluster: local
scenario partition, seed 7, system core, contention high
  A cut.
   0.5s  fault   
   2.0s     f1 inject  partition n1,n2 (at 1s)
   2.1s     f1 NOT PROVEN: no byte passed
   3.0s  VIOLATION so far  P3: token 5 after 6
   3.0s     history/w1.1.jsonl:9
   6.5s  fault       20 cycles     2/s  0 leases lost  0 refused  0 unknown  nearly there
   7.0s  !  a worker died
checking …
[2/3] steady high seed 1  FAIL  1m1s  by P3  (about 2m0s left)
  runs/x is kept; stored as results/x.json
the end
`
	if got := told(terminal.Style{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextOnATerminal(t *testing.T) {
	t.Parallel()
	got := told(terminal.Style{Live: true, Color: true})
	for _, want := range []string{
		"\x1b[31mNOT PROVEN\x1b[0m", "\x1b[31mVIOLATION so far  P3: token 5 after 6\x1b[0m\n", "[2/3] steady high seed 1  \x1b[31mFAIL\x1b[0m",
		// The live line stands alone until something else is shown, and is cut.
		"12 cycles    12/s  0 leases lost  0 refused  0 unknown\r\x1b[2K   2.0s     f1 inject",
		"  […\r\x1b[2K", "n…\r\x1b[2K   7.0s  \x1b[33m!  a worker died\x1b[0m\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if lines := told(terminal.Style{Live: true}); strings.Contains(lines, "\x1b[3") {
		t.Errorf("colours in %q", lines)
	}
}

func TestJSONIsOneEventALine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := JSON(&out)
	for _, e := range story {
		show(e)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(story) || !strings.Contains(lines[7], `"violation":{"property":"P3"`) || strings.Contains(lines[0], `"at":""`) {
		t.Errorf("%q", lines)
	}
}
