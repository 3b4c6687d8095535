package checker

func init() {
	register(check{
		id:    "P10",
		title: "the sink refuses only what it must",
		by:    "the ledger",
		run:   checkRefusals,
		whole: true,
		rules: []rule{
			{find: (*inquiry).refusedTokens},
		},
		mechanisms: []mechanism{
			{id: "sink-refuses-equal", accounts: ofEffects,
				statement: "the sink refuses a token that is equal to the highest seen: a holder is refused its own write"},
			{id: "sink-refuses-wrongly", accounts: ofEffects,
				statement: "the sink refuses with a reason that its ledger does not show"},
		},
	})
}
