package owncheck

import (
	"context"
	"fmt"
	"slices"

	"fencepost/checker"
	"fencepost/harness/target/own"
)

// promises: which properties hold, which of them was checked on anything, and which the history
// would keep beside.
func (r *Run) promises(ctx context.Context) (out []Finding) {
	promised := r.Trial.Offer.Promises
	for _, p := range r.Result.Properties {
		if !slices.Contains(own.Promisable(), p.ID) || !slices.Contains(promised, p.ID) {
			continue
		}
		f := r.kept(p)
		f.Check = p.ID
		out = append(out, f)
	}
	for _, p := range r.beyond(ctx) {
		if slices.Contains(own.Promisable(), p.ID) && !slices.Contains(promised, p.ID) && p.Status == checker.StatusPass && p.Checked > 0 {
			out = append(out, Finding{Check: p.ID, Status: Hint, Text: fmt.Sprintf("not promised, and this history keeps it (%d checked): %s", p.Checked, p.Title)})
		}
	}
	return out
}

// kept is about a property that is promised.
func (r *Run) kept(p checker.Property) Finding {
	switch p.Status {
	case checker.StatusPass:
		return Finding{Status: OK, Text: fmt.Sprintf("%d checked: %s", p.Checked, p.Title)}
	case checker.StatusFail:
		if len(p.Violations) == 0 {
			return Finding{Status: Wrong, Text: p.Detail}
		}
		f := r.violated(Wrong, p.Violations[0], "fencepost explain tells how it came about", true)
		if p.Count > 1 {
			f.Text += fmt.Sprintf(" (and %d more)", p.Count-1)
		}
		return f
	case checker.StatusNA:
		return Finding{Status: Wrong, Text: "promised, and " + p.Detail, Do: "do not promise it, or have clients come to it: else every run is INVALID"}
	}
	return Finding{Status: Unknown, Text: p.Detail}
}

// beyond are the properties of the same history as if all had been promised.
func (r *Run) beyond(ctx context.Context) []checker.Property {
	h := *r.History
	h.Headers = slices.Clone(h.Headers)
	for i := range h.Headers {
		h.Headers[i].Promises = own.Promisable()
	}
	return checker.Check(ctx, &h, checker.Options{Dir: ""}).Properties
}
