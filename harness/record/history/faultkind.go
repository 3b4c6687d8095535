package history

import "strings"

// FaultKind is what a checker has to know of a kind of fault, which a history names alone.
// The zero value is that of a kind of which nothing is known.
type FaultKind struct {
	Links bool // it cuts or slows links and leaves processes alone
	Still bool // its workers do nothing at all
	Holds bool // its workers stay in their critical sections, at work
	Takes Takes
}

// Takes is what a fault takes from its targets.
type Takes string

// What faults take.
const (
	TakesQuorum Takes = ""     // from workers the way to a quorum, or their life; nodes from the quorum
	TakesTime   Takes = "time" // TakesQuorum, if its delay is longer than requests may take
	// TakesTimeOneWay is TakesTime of one direction: a request and its answer are late once, not twice.
	TakesTimeOneWay Takes = "time, one way"
	TakesOneNode    Takes = "one node" // as if one node were gone from the quorum, whichever it is aimed at
	TakesSink       Takes = "sink"     // the way to the sink: workers keep what they hold
	TakesNothing    Takes = "nothing"  // whatever is late of its workers is their own doing
)

// KindOfFault is what is known of the kind with this name. The notes of clocks say how wrong
// they were, so that of their faults, whatever the name, nothing else is taken.
func KindOfFault(name string) FaultKind {
	k, known := faultKinds[name]
	if !known && strings.Contains(name, "clock") {
		k.Takes = TakesNothing
	}
	return k
}
