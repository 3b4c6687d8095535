package fault

import "fencepost/harness/record/history"

func init() {
	register(Kind{
		Name: "sink-lost-replies", On: Worker, Family: FamilyReplies,
		About: "requests of workers to the sink arrive and are executed, the answers are dropped",
		Proof: "*replies lost*",
		Takes: history.TakesSink,
		New:   plain(lostReplies{sink: true}),
	})
}
