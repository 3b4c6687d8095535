package fault

import (
	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "sink-outage", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from the sink, both ways; they still reach the lock store",
		Proof:  "*cut*, *asked*; the links to the lock store carry bytes",
		Params: []string{"mode"},
		Takes:  history.TakesSink,
		Swarm:  &Draw{Place: 3, Params: drawMode},
		New:    cutting(func(m link.Mode) Fault { return clientPartition{mode: m, sink: true} }),
	})
}
