package checker

func init() {
	register(check{
		id:     "P18",
		title:  "no process dies or hangs by itself",
		by:     "what the harness noted of every life; the crash notes of older histories",
		run:    checkLives,
		soFar:  checkLives,
		always: true,
		rules: []rule{
			{find: (*inquiry).fallenLives},
		},
		mechanisms: []mechanism{
			{id: "process-panics", accounts: []string{"P18"},
				statement: "a process panics while it works: an error that nobody handles ends it"},
			{id: "process-panics-ending", accounts: []string{"P18"},
				statement: "a process panics while it ends: an error that nobody handles cuts off what it has to bring to an end"},
			{id: "process-exits", accounts: []string{"P18"},
				statement: "a process ends with an error, or though nobody asked it to"},
			{id: "process-never-ends", accounts: []string{"P18"},
				statement: "a process that is asked to end does not: it hangs"},
			{id: "process-never-ready", accounts: []string{"P18"},
				statement: "a process is started and does not become ready: it hangs"},
			{id: "process-killed-elsewhere", accounts: []string{"P18"},
				statement: "a process is ended by a signal that this harness has not sent"},
		},
	})
}
