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
	if r.flawed() {
		return out
	}
	for _, p := range r.beyond(ctx) {
		if slices.Contains(own.Promisable(), p.ID) && !slices.Contains(promised, p.ID) && p.Status == checker.StatusPass && p.Checked > 0 {
			out = append(out, Finding{Check: p.ID, Status: Hint, Do: "promise it only if the lock is made for it", Text: fmt.Sprintf("not promised, though this history keeps it (%d checked): %s", p.Checked, p.Title)})
		}
	}
	return out
}

// kept is about a property that is promised.
func (r *Run) kept(p checker.Property) Finding {
	switch {
	case p.Status == checker.StatusPass:
		return Finding{Status: OK, Text: fmt.Sprintf("%d checked: %s", p.Checked, p.Title)}
	case p.Status != checker.StatusFail && p.ID == "P13" && r.Store != "":
		return Finding{Status: Wrong, Text: "promised, and only statements of Cassandra are read: no run on " + r.Store + " can judge it", Do: "do not promise it"}
	case p.Status != checker.StatusPass && r.flawed():
		return Finding{Status: Unchecked, Text: "nothing can be said of it while the history has mistakes"}
	case p.Status == checker.StatusFail:
		return r.first(Wrong, p.Violations, p.Count, "fencepost explain tells how it came about", true)
	case p.Status == checker.StatusNA:
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
