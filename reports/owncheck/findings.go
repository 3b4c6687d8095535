package owncheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/own"
)

// Status is what a check found.
type Status string

// Statuses.
const (
	OK        Status = "ok"
	Wrong     Status = "wrong"
	Unchecked Status = "not checked" // the program gave no occasion for it, and may do so
	Unknown   Status = "unknown"     // the check could not be carried out
	Hint      Status = "hint"        // allowed, and worth a thought
)

// Finding is what a check says, in a line.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	// Do is what to do about it.
	Do string `json:"do,omitempty"`
	// File, below the run's directory, and Line show it; "" and 0: it is nowhere in a history.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Run is a run in which a program was tried out.
type Run struct {
	Dir     string
	History *history.History
	Result  *checker.Result
	Trial   own.Trial
	Clock   *Clock
	TTL     time.Duration
	// Store is whose servers it ran on, "" for Cassandra's.
	Store string
}

// checks are all there are, in the order in which they are told.
var checks = []struct {
	name string
	// timed: it compares times of the program with others, so that it says nothing if they are of
	// another clock.
	timed bool
	find  func(*Run) []Finding
}{
	{"setup", false, setup},
	{"ready", false, ready},
	{"history", false, lint},
	{"clock", false, clock},
	{"store", true, store},
	{"sink", true, sink},
	{"points", true, points},
	{"takeover", true, takeover},
	{"stop", false, stop},
	{"seal", false, seal},
	{"run", true, rest},
}

// Findings are those of all checks, and of the properties.
func (r *Run) Findings(ctx context.Context) (out []Finding) {
	astray := r.Clock.astray()
	for _, c := range checks {
		all := one(Unchecked, "its times are not the harness's: mend the clock first")
		if !c.timed || !astray {
			all = c.find(r)
		}
		for _, f := range all {
			if f.Check == "" {
				f.Check = c.name
			}
			out = append(out, f)
		}
	}
	if astray {
		return out
	}
	return append(out, r.promises(ctx)...)
}

// remedies are what to do about a mistake that ended the run.
var remedies = map[string]string{
	own.MistakeSetup:   "print one JSON object on standard output, or nothing; messages belong to standard error; exit with 0",
	own.MistakeReady:   "make the request POST $FENCEPOST_CONTROL/ready when the process can work, within 45 s of its start",
	own.MistakeHistory: "append to $FENCEPOST_HISTORY one line of JSON an event, each by one write call (docs/history-format.md)",
	own.MistakeSeal:    "record only seal, read and the notes statement and exit in the task seal",
}

// OfMistake is what is known of a program whose own mistake ended its run in dir.
func OfMistake(dir string, m *own.Mistake, t own.Trial) (out []Finding) {
	if t.Offer != nil {
		out = append(out, named("setup", setup(&Run{Trial: t}))...)
	}
	if t.Ready > 0 {
		out = append(out, named("ready", ready(&Run{Trial: t}))...)
	}
	f := Finding{Check: m.About, Status: Wrong, Text: m.Error(), Do: remedies[m.About]}
	if bad := (*history.FormatError)(nil); errors.As(m, &bad) {
		f.File, f.Line, f.Text = below(dir, bad.File), bad.Line, strings.Replace(f.Text, bad.Error(), bad.Reason, 1)
	}
	return append(out, f)
}

func named(check string, all []Finding) []Finding {
	for i := range all {
		all[i].Check = check
	}
	return all
}

// Worst is the status that decides about all: wrong, else unknown, else ok.
func Worst(all []Finding) Status {
	worst := OK
	for _, f := range all {
		if f.Status == Wrong || f.Status == Unknown && worst == OK {
			worst = f.Status
		}
	}
	return worst
}

// Print writes the findings for people.
func Print(w io.Writer, all []Finding) {
	const below = "\n                           "
	for _, f := range all {
		text := strings.TrimRight(f.Text, "\n")
		if f.Line > 0 {
			text = fmt.Sprintf("%s:%d: %s", f.File, f.Line, text)
		}
		if f.Do != "" {
			text += "\n-> " + f.Do
		}
		status := string(f.Status)
		if f.Status == Wrong {
			status = strings.ToUpper(status)
		}
		fmt.Fprintf(w, "%-14s %-11s %s\n", f.Check, status, strings.ReplaceAll(text, "\n", below))
	}
}

// below names a file from the run's directory.
func below(dir, name string) string {
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

// at points a finding at an event.
func (r *Run) at(f Finding, e *history.Event) Finding {
	if e != nil && e.Line > 0 {
		f.File, f.Line = below(r.Dir, e.File), e.Line
	}
	return f
}

// violated is a finding of the checker's.
func (r *Run) violated(status Status, v checker.Violation, do string, last bool) Finding {
	f := Finding{Status: status, Text: v.Message, Do: do}
	if n := len(v.Events); n > 0 {
		e := v.Events[0]
		if last {
			e = v.Events[n-1]
		}
		f.File, f.Line = e.File, e.Line // relative already
	}
	return f
}

// first is a finding of the first of several violations.
func (r *Run) first(status Status, all []checker.Violation, more int, do string, last bool) Finding {
	f := r.violated(status, all[0], do, last)
	if more > 1 {
		f.Text += fmt.Sprintf(" (and %d more)", more-1)
	}
	return f
}

func one(status Status, format string, args ...any) []Finding {
	return []Finding{{Status: status, Text: fmt.Sprintf(format, args...)}}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if one, ok := strings.CutSuffix(noun, "life"); ok {
		return fmt.Sprintf("%d %slives", n, one)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ms is a time in a person's units.
func ms(ns int64) string {
	if d := time.Duration(ns).Abs(); d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return seconds(time.Duration(ns).Abs())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
