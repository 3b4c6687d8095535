package fault

import (
	"fmt"
	"time"
)

// Param is a parameter that kinds of faults take: a field of Spec.
type Param struct {
	Name, Means string
	// Of says its value in a Spec, "" if it is not given.
	Of func(Spec) string
}

// Params are all there are.
var Params = []Param{
	{"mode", "how a cut treats bytes: stall (hold them and deliver at heal, as TCP does; default) or drop (discard, and close at heal)",
		func(s Spec) string { return text("mode %s", s.Mode) }},
	{"sense", "the sense that is cut: out (what the targets send is lost; default) or in (what they are sent)",
		func(s Spec) string { return text("sense %s", s.Sense) }},
	{"latency", "a delay, one way",
		func(s Spec) string { return text("latency %s", s.Latency) }},
	{"jitter", "the largest deviation from the latency, at most as long; default none",
		func(s Spec) string { return text("jitter %s", s.Jitter) }},
	{"offset", "by how much a wall clock is wrong; it may be negative",
		func(s Spec) string { return text("offset %s", s.Offset) }},
	{"rate_ppm", "by how many millionths a lease clock runs too fast; it may be negative",
		func(s Spec) string { return text("rate %+d ppm", s.RatePPM) }},
}

// text says a value that is given.
func text[T string | time.Duration | int64](format string, v T) string {
	var none T
	if v == none {
		return ""
	}
	return fmt.Sprintf(format, v)
}
