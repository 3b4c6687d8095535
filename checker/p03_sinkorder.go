package checker

func init() {
	register(check{
		id:    "P3",
		title: "the sink accepts no token lower than one it has seen",
		by:    "the sink's ledger; whose the tokens are",
		run:   checkSinkOrder,
		soFar: checkSinkOrder,
		rules: []rule{
			{find: (*inquiry).acceptedTokens},
		},
		mechanisms: []mechanism{
			{id: "sink-checks-no-token", accounts: ofEffects,
				statement: "the sink accepted an effect with a token lower than one it had seen: it does not compare tokens",
				apart:     "any effect that is refused as stale would rule it out"},
			{id: "sink-checks-what-was-read", accounts: ofEffects,
				statement: "the sink accepted an effect with a token lower than one it had seen: it compares with what the holder's " +
					"process had read before",
				apart: "one that is accepted after its own process had read a higher token would rule it out"},
			{id: "sink-remembers-per-process", accounts: ofEffects,
				statement: "the sink accepted an effect with a token lower than one it had seen: each process knows only the tokens that" +
					" it sent itself",
				apart: "one that is accepted after its own process had sent a higher token would rule it out"},
			{id: "sink-forgets-tokens", accounts: ofEffects,
				statement: "the sink accepts a token lower than one it has seen, now and then"},
		},
	})
}
