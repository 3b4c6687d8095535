package checker

func init() {
	register(check{
		id:    "P4",
		title: "every effect is applied at most once, none is lost",
		by:    "ledger, answers as recorded and as the links carried them, values; Porcupine; the steps of completed jobs",
		run:   checkEffects,
		soFar: effectsSoFar,
		part:  "applied twice, lost updates",
		rules: []rule{
			{find: (*inquiry).missingRaises},
			{find: (*inquiry).madeUpAnswers},
			{find: (*inquiry).forgedEntries},
			{find: (*inquiry).lostEffects},
			{find: (*inquiry).repeatedEffects},
		},
		mechanisms: []mechanism{
			{id: "ledger-emptied", accounts: []string{"P3", "P4", "P6", "P10", "P13"},
				statement: "a resource of the sink was emptied while it was in use: what it had seen and accepted is forgotten"},
			{id: "ledger-forged", accounts: ofEffects,
				statement: "the sink's ledger shows another token than the one that came with an effect"},
			{id: "answer-made-up", accounts: []string{"P4", "P10", "P14"},
				statement: "a worker records an answer of the sink that the sink never gave it"},
			{id: "raise-not-done", accounts: ofEffects,
				statement: "a holder reads what it acts on before the sink knows its token: the one before can still write"},
			{id: "acknowledged-before-done", accounts: []string{"P4"},
				statement: "an effect is acknowledged before it is done, and lost with its process"},
			{id: "resend-is-another-effect", accounts: []string{"P4"},
				statement: "a request that is sent again is another effect: its idempotency key does not cover resends"},
			{id: "effects-without-key", accounts: []string{"P4"},
				statement: "effects carry no idempotency key: what an earlier run did is done again",
				apart:     "a repetition that is answered as a duplicate would rule it out"},
			{id: "key-of-the-attempt", accounts: []string{"P4"},
				statement: "the idempotency key contains the attempt: what an earlier one did is done again",
				apart:     "an effect that is applied twice under one token would rule it out"},
		},
	})
}
