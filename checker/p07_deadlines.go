package checker

func init() {
	register(check{
		id:    "P7",
		title: "everything was decided before the holder's own deadline",
		by:    "deadlines derived from the recorded sends",
		run:   checkDeadlines,
		whole: true,
		rules: []rule{
			{needs: "P7", find: (*inquiry).lateDecisions},
		},
		mechanisms: []mechanism{
			{id: "lease-by-wall-clock", accounts: ofLeases,
				statement: "a holder measures its lease by the wall clock, which was set",
				apart:     "a decision beyond what the wall clock allowed would rule it out"},
			{id: "lease-by-awake-clock", accounts: ofLeases,
				statement: "a holder measures its lease by a clock that stands still while the machine sleeps",
				apart:     "a decision later than the sleep explains would rule it out"},
			{id: "lease-counted-from-answer", accounts: ofLeases,
				statement: "a holder counts its lease from the answer of a resent request, not from its first send",
				apart:     "a decision later than answer + ttl - margin would rule it out"},
			{id: "lapsed-lease-revived", accounts: ofLeases,
				statement: "a renewal that was answered after the deadline revives the lease",
				apart:     "a decision later than that renewal's first send + ttl - margin would rule it out"},
			{id: "keep-alive-died", accounts: ofLeases,
				statement: "renewing ended silently, though the store could be reached, and the holder went on",
				apart:     "renewals that are still sent would rule it out"},
			{id: "loss-ignored", accounts: ofLeases,
				statement: "a holder goes on after its lease is lost",
				apart:     "a loss that nobody notes would rule it out"},
			{id: "released-before-done", accounts: ofLeases,
				statement: "the lock is released when the work has begun, not when it is done"},
		},
	})
}
