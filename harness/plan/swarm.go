package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"fencepost/harness/fault"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
)

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

// drawSwarm returns the steps for so long; node targets are named, so that a plan shows them.
func drawSwarm(rng *rand.Rand, length time.Duration, nodes int, w scenario.Workload) []scenario.Step {
	steps := lane(rng, length, "nodes", subset(rng, fault.Drawn(fault.Node), 2), func(fault.Kind) []string {
		return []string{fmt.Sprintf("n%d", 1+rng.IntN(nodes))}
	}, &scenario.Step{
		Spec: fault.Spec{Fault: "pause-node", Targets: majority(rng, nodes)},
		For:  scenario.Duration(swarmQuorumLoss),
	})
	steps = append(steps, lane(rng, length, "workers", subset(rng, fault.Drawn(fault.Worker), 3), func(k fault.Kind) []string {
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
		if st.On != nil && w.Jobs != nil {
			st.On.Point = cmp.Or(jobPoints[st.On.Point], st.On.Point)
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
func lane(rng *rand.Rand, end time.Duration, name string, kinds []fault.Kind, targets func(fault.Kind) []string,
	must *scenario.Step) (steps []scenario.Step) {
	at := time.Duration(0)
	mustAt := time.Duration(rng.Int64N(int64(end / 3)))
	for n := 0; ; n++ {
		at += time.Duration(swarmPauseMin+rng.IntN(swarmPauseMax-swarmPauseMin)) * time.Millisecond
		if must != nil && at >= mustAt {
			st := *must
			must = nil
			st.Lane, st.At, st.Repeat = name, scenario.Duration(at), 1
			steps = append(steps, st)
			at += st.For.D() + time.Second
			continue
		}
		k := kinds[n%len(kinds)]
		st := scenario.Step{Spec: fault.Spec{Fault: k.Name, Targets: targets(k)}, Lane: name, Repeat: 1}
		if k.Swarm.Params != nil {
			k.Swarm.Params(rng, &st.Spec)
		}
		st.For = scenario.Duration(time.Duration(swarmFaultMin+rng.IntN(swarmFaultMax-swarmFaultMin)) * time.Millisecond)
		st.At = scenario.Duration(at)
		if k.Swarm.Points != nil {
			st.On = &scenario.Trigger{Point: k.Swarm.Points[rng.IntN(len(k.Swarm.Points))]}
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
