package checker

func init() {
	register(check{
		id:    "P12",
		title: "nothing fires early or is missed",
		by:    "the wall clock of the worker that starts a run or fires; the batches of shards and their rows",
		of:    "jobs",
		run:   checkTimes,
		whole: true,
		rules: []rule{
			{find: (*inquiry).scheduleGaps},
			{find: (*inquiry).jobTimes},
		},
		mechanisms: []mechanism{
			{id: "schedule-ahead-of-job", accounts: append([]string{"P12"}, ofJobs...),
				statement: "a schedule is marked as fired, and the job of that nominal time is not in its shard: one batch does not do " +
					"both"},
			{id: "schedule-counted-anew", accounts: []string{"P12"},
				statement: "whoever takes a shard over counts the times of its schedules from then on: those that came before are " +
					"forgotten"},
			{id: "fires-by-a-fast-clock", accounts: []string{"P12"},
				statement: "jobs fire by a clock that runs ahead of their worker's own"},
		},
	})
}
