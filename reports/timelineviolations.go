package reports

import (
	"fmt"
	"slices"

	"fencepost/checker"
	"fencepost/harness/record/history"
)

// timelineViolation is a violation as the time line shows it.
type timelineViolation struct {
	ID       string          `json:"id"` // of the element that tells it
	Property string          `json:"property"`
	Heading  string          `json:"heading"`
	Message  string          `json:"message"`
	Key      string          `json:"key"`
	Lane     int             `json:"lane"` // -1: none
	From     int64           `json:"from"`
	To       int64           `json:"to"`
	Tokens   []string        `json:"tokens"`
	Events   []timelineEvent `json:"events"`
}

type timelineEvent struct {
	N  int   `json:"n"`  // its number in the table
	At int64 `json:"at"` // -1: recorded after the run
	Op int   `json:"op"` // its operation's place, -1: none
	// Text says what it is, of one without an operation.
	Text string `json:"text,omitempty"`
}

// violations are those that the page tells, in the same order with the same ids.
func (b *timelineBuilder) violations() []timelineViolation {
	out := []timelineViolation{}
	if b.run.verdict == nil {
		return out
	}
	for _, p := range b.run.verdict.Properties {
		if p.Status == checker.StatusInvalid {
			continue
		}
		for i, v := range p.Violations {
			out = append(out, b.violation(p, i, v))
		}
	}
	return out
}

func (b *timelineBuilder) violation(p checker.Property, i int, v checker.Violation) timelineViolation {
	from, to := window(v)
	clamp := func(ts int64) int64 { return min(max(b.us(ts), 0), b.end) }
	out := timelineViolation{
		ID: violationID(p.ID, i), Property: p.ID, Heading: violationHeading(p, i), Message: sentenceCase(v.Message), Key: v.Key,
		Lane: b.laneOf(v.Key), From: clamp(from), To: clamp(to), Tokens: []string{}, Events: []timelineEvent{},
	}
	if row, ok := b.issuer[v.Key]; ok && out.Lane < 0 {
		out.Lane = b.laneOf(row)
	}
	for n, ref := range v.Events {
		e := ref.Event
		e.File, e.Line = ref.File, ref.Line
		te := timelineEvent{N: n + 1, At: clamp(e.TS), Op: -1}
		if e.Op == history.NoteLedger || e.Op == history.NoteRow {
			te.At = -1
		}
		te.Text = b.run.eventText(e)
		if at, ok := b.at[place(e)]; ok {
			te.Op, te.Text = at, ""
			if out.Lane < 0 {
				out.Lane = b.laneOf(b.row(b.ops[at].Invoke))
			}
		}
		for _, t := range eventTokens(e) {
			if s := tokenText(t); !slices.Contains(out.Tokens, s) {
				out.Tokens = append(out.Tokens, s)
			}
		}
		out.Events = append(out.Events, te)
	}
	return out
}

// eventTokens are the tokens that an event names.
func eventTokens(e history.Event) []int64 {
	switch {
	case e.Token != 0:
		return []int64{e.Token}
	case e.Ledger() != nil:
		return []int64{e.Ledger().Token}
	case e.To != nil && e.To.Fence != 0:
		return []int64{e.To.Fence}
	}
	return nil
}

// tokenText writes a token; a job's run id is its shard's fence and a number under it.
func tokenText(t int64) string {
	if t >= 1<<32 {
		return fmt.Sprintf("%d/%d", t>>32, t&(1<<32-1))
	}
	return fmt.Sprint(t)
}
