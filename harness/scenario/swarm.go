package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"fencepost/harness/fault"
	"fencepost/harness/target/control"
)

// Swarm draws a plan's faults from its seed: two lanes, one of faults of nodes and
// one of faults of workers, each a sequence of faults with pauses between. Which
// kinds may come is itself drawn (swarm testing: Groce et al., ISSTA 2012): a run
// with some kinds left out reaches states that one with all of them does not. In
// the node lane at least one fault takes the quorum away from everybody and at
// least one pause leaves the cluster healthy.
type Swarm struct {
	// For is the time that the lanes have; default 40s.
	For Duration `yaml:"for"`
}

// Lengths of the faults and of the pauses between them, in ms.
const (
	swarmFaultMin, swarmFaultMax = 2500, 8000
	swarmPauseMin, swarmPauseMax = 500, 3000
	// swarmQuorumLoss: short, as nobody makes progress.
	swarmQuorumLoss = 4 * time.Second
	// swarmRestart is kept free after a node was killed: it takes so long to start.
	swarmRestart = 14 * time.Second
)

// jobPoints are the points of the job workload that stand for those of locks.
var jobPoints = map[control.Point]control.Point{control.AcquireSent: control.ClaimSent, control.ReleaseSent: control.CompleteSent}

// point is a point that this workload reaches.
func (w Workload) point(p control.Point) control.Point {
	if of, ok := jobPoints[p]; ok && w.Jobs != nil {
		return of
	}
	return p
}

// draw returns the steps; node targets are named, so that a plan shows them.
func (s *Swarm) draw(rng *rand.Rand, nodes int, w Workload) []Step {
	steps := s.lane(rng, "nodes", subset(rng, fault.Drawn(fault.Node), 2), func(fault.Kind) []string {
		return []string{fmt.Sprintf("n%d", 1+rng.IntN(nodes))}
	}, &Step{
		Spec: fault.Spec{Fault: "pause-node", Targets: majority(rng, nodes)},
		For:  Duration(swarmQuorumLoss),
	})
	steps = append(steps, s.lane(rng, "workers", subset(rng, fault.Drawn(fault.Worker), 3), func(k fault.Kind) []string {
		if k.Swarm.All {
			return []string{fault.AllWorkers}
		}
		first := rng.IntN(w.Workers)
		targets := []string{fmt.Sprintf("w%d", 1+first)}
		if k.Swarm.Points == nil && w.Workers > 2 && rng.IntN(2) == 0 {
			targets = append(targets, fmt.Sprintf("w%d", 1+(first+1)%w.Workers))
		}
		return targets
	}, nil)...)
	for _, st := range steps {
		if st.On != nil {
			st.On.Point = w.point(st.On.Point)
		}
	}
	return steps
}

// subset leaves kinds out at random but keeps at least the given number.
func subset(rng *rand.Rand, kinds []fault.Kind, least int) []fault.Kind {
	out := make([]fault.Kind, len(kinds))
	for i, at := range rng.Perm(len(kinds)) {
		out[i] = kinds[at]
	}
	return out[:least+rng.IntN(len(kinds)-least+1)]
}

// majority is so many nodes that the rest is no quorum.
func majority(rng *rand.Rand, nodes int) []string {
	var out []string
	for _, at := range rng.Perm(nodes)[:nodes/2+1] {
		out = append(out, fmt.Sprintf("n%d", 1+at))
	}
	return out
}

// lane draws faults until the time is full. One of them, at a drawn place, is the
// one that must come.
func (s *Swarm) lane(rng *rand.Rand, name string, kinds []fault.Kind, targets func(fault.Kind) []string, must *Step) []Step {
	var steps []Step
	at, end := time.Duration(0), s.For.D()
	mustAt := time.Duration(rng.Int64N(int64(end / 3)))
	for n := 0; ; n++ {
		at += time.Duration(swarmPauseMin+rng.IntN(swarmPauseMax-swarmPauseMin)) * time.Millisecond
		if must != nil && at >= mustAt {
			st := *must
			must = nil
			st.Lane, st.At, st.Repeat = name, Duration(at), 1
			steps = append(steps, st)
			at += st.For.D() + time.Second
			continue
		}
		k := kinds[n%len(kinds)]
		st := Step{Spec: fault.Spec{Fault: k.Name, Targets: targets(k)}, Lane: name, Repeat: 1}
		if k.Swarm.Params != nil {
			k.Swarm.Params(rng, &st.Spec)
		}
		st.For = Duration(time.Duration(swarmFaultMin+rng.IntN(swarmFaultMax-swarmFaultMin)) * time.Millisecond)
		st.At = Duration(at)
		if k.Swarm.Points != nil {
			st.On = &Trigger{Point: k.Swarm.Points[rng.IntN(len(k.Swarm.Points))]}
		}
		at += st.For.D()
		if k.Swarm.Restart {
			at += swarmRestart
		}
		if at > end {
			return steps
		}
		steps = append(steps, st)
	}
}
