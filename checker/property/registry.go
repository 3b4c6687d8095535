package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Check is one property: what it demands, how it is judged, and how its violations are
// explained. Each is registered by a file of its own, p01_tokens.go and so on.
type Check struct {
	ID    string // "P1"
	title string // what it demands, in one line
	by    string // what it is judged by, for docs/properties.md
	// Of is what a run must have for the property to be judged: jobs, orders, thresholds;
	// "": nothing.
	Of  string
	run func(context.Context, *Judgement, *Property)
	// completeRecord: a finding is conclusive only if the record has lost no events,
	// since a lost renewal or release would look the same.
	completeRecord bool
	// always: no system promises it, and it counts for each: what the scenario demands of
	// the run, and that whatever runs keeps running.
	always bool
	// soFar judges a history that still grows, by the part of run whose findings stay
	// findings whatever comes; nil: there is none. part names that part, "" for all of it.
	// See SoFar.
	soFar func(context.Context, *Judgement, *Property)
	part  string

	// count adds to the counts what the property alone looks at, summary says it in the
	// answer, and unexercised names what a run without certain events cannot show. All may be
	// nil; summary returns "" for a run that has nothing of the kind.
	count       func(*Judgement, *Counts)
	summary     func(*Counts) string
	unexercised func(c *Counts, name func(missing bool, what string))

	rules      []rule      // find suspects where it is violated; in this order
	mechanisms []mechanism // that these rules can name
	accounts   []string    // what they can violate where they do not say; none: this property
	ofRecord   bool        // they are mistakes of the record and the run, not of the system
}

// rule finds suspects. It demands its evidence, and does not know what was planted.
type rule struct {
	// needs is a property that the system must promise, as the evidence is read off the
	// rows' chains of versions, off what tokens have to do with rows, or off what the sink compares;
	// "": none.
	needs string
	find  func(*Inquiry)
}

// mechanism is a mistake that systems have, or harnesses, or runs.
type mechanism struct {
	id        string
	Statement string   // names it in a sentence
	Accounts  []string // the properties that it can violate
	Apart     string   // what would rule it out, among its alternatives
	OfRecord  bool     // a mistake of the record and the run, not of the system
}

// What the mechanisms of locks' rows, of effects, of jobs and of leases can violate.
var (
	ofRows    = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P11"}
	ofTexts   = append([]string{"P13"}, ofRows...)
	ofEffects = []string{"P3", "P4", "P10"}
	ofJobs    = []string{"P2", "P4", "P5", "P6"}
	ofLeases  = []string{"P3", "P4", "P7", "P8", "P9"}
)

var (
	// All in order of id; all run, always: where fence and idempotency mask a
	// bug from end to end, only the lock-level properties show them.
	All           []Check
	MechanismByID = map[string]mechanism{} // by id
)

// register adds a property. It panics on an id that is malformed or taken.
func register(c Check) {
	if number(c.ID) == 0 || slices.ContainsFunc(All, func(d Check) bool { return d.ID == c.ID }) {
		panic("checker: property " + c.ID + " is malformed or taken")
	}
	All = append(All, c)
	slices.SortFunc(All, func(c, d Check) int { return number(c.ID) - number(d.ID) })
	for _, m := range c.mechanisms {
		if _, taken := MechanismByID[m.id]; taken {
			panic("checker: mechanism " + m.id + " is taken")
		}
		m.OfRecord = m.OfRecord || c.ofRecord
		if m.Accounts == nil {
			m.Accounts = c.accounts
		}
		if m.Accounts == nil {
			m.Accounts = []string{c.ID}
		}
		MechanismByID[m.id] = m
	}
}

// number is 12 for "P12", and 0 for what is no id.
func number(id string) int {
	n, err := strconv.Atoi(id[min(1, len(id)):])
	if err != nil || n < 1 || id != fmt.Sprintf("P%d", n) {
		return 0
	}
	return n
}

// CheckByID returns the property of an id. It panics on one that there is not.
func CheckByID(id string) Check {
	return All[slices.IndexFunc(All, func(c Check) bool { return c.ID == id })]
}

// Catalogue is all properties with their titles, in order, without a judgement.
func Catalogue() []Property {
	out := make([]Property, len(All))
	for i, c := range All {
		out[i] = Property{ID: c.ID, Title: c.title}
	}
	return out
}

// Mechanisms are the ids of all mechanisms that can be named.
func Mechanisms() []string { return slices.Sorted(maps.Keys(MechanismByID)) }
