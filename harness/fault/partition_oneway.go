package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

func init() {
	register(Kind{
		Name: "partition-oneway", On: Node, Family: FamilyLinks,
		About:  "cut one direction between nodes and the others: what the targets send is lost, or what they receive",
		Proof:  "*cut*, *reads*; the other direction of each link carries bytes",
		Params: []string{"mode", "sense"},
		Swarm:  &Draw{Place: 2, Params: func(rng *rand.Rand, s *Spec) { s.Sense = []string{"out", "in"}[rng.IntN(2)] }},
		New:    newOneway,
	})
}

func newOneway(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	if s.Sense != "" && s.Sense != "in" && s.Sense != "out" {
		err = errors.Join(err, fmt.Errorf("unknown sense %q; the senses are out, in", s.Sense))
	}
	return partition{mode: m, out: s.Sense != "in", in: s.Sense == "in"}, err
}
