package checker

func init() {
	register(check{
		id:    "P2",
		title: "lock rows and shards are linearizable",
		by:    "the chain in linear time; Porcupine, open and bounded; the replay of every job's life",
		run:   checkLinearizable,
		rules: []rule{
			{needs: "P2", find: (*inquiry).falseGrants},
			{needs: "P2", find: (*inquiry).falseFailures},
			{needs: "P2", find: (*inquiry).oldStamps},
			{needs: "P2", find: (*inquiry).surfacingWrites},
		},
		mechanisms: []mechanism{
			{id: "unknown-granted", accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				statement: "an acquire that was not answered counts as granted",
				apart:     "a grant that nobody made and that was answered at once would rule it out"},
			{id: "refusal-granted", accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				statement: "an acquire that was refused counts as granted: the answer is not looked at",
				apart:     "a grant that nobody made and whose answer was overdue would rule it out"},
			{id: "unknown-refused", accounts: []string{"P2", "P6", "P11"},
				statement: "an acquire that was not answered counts as refused: its grant is left behind",
				apart:     "another kind of operation that failed and took effect would rule it out"},
			{id: "resend-misread", accounts: []string{"P2", "P5", "P6"},
				statement: "a refusal of a resent request is taken for one of the first copy, which may have been applied"},
			{id: "batch-taken-for-lost", accounts: []string{"P2", "P5", "P6"},
				statement: "a batch that was not answered counts as not done: what it did is done again or forgotten"},
			{id: "request-executed-again", accounts: []string{"P2", "P6", "P5"},
				statement: "a request is executed again when its answer is late, and the second answer is taken for the first"},
			{id: "late-copy-done-again", accounts: ofRows,
				statement: "a late copy of a batch is done again: its condition does not name the version that it replaces"},
			{id: "given-up-write-surfaces", accounts: []string{"P2"},
				statement: "a write that its coordinator gave up took effect later, after reads that did not show it"},
		},
	})
}
