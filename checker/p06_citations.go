package checker

func init() {
	register(check{
		id:    "P6",
		title: "every effect attempt cites a grant that the store made",
		by:    "the chain; the claims in it",
		run:   checkCitations,
		whole: true,
		rules: []rule{
			{find: (*inquiry).foreignIssuers},
			{find: (*inquiry).foreignRuns},
		},
		mechanisms: []mechanism{
			{id: "issuer-of-another-shard", accounts: []string{"P3", "P4", "P5", "P6", "P10"},
				statement: "effects name another shard as the issuer of their tokens than their job's"},
			{id: "one-token-for-all-shards", accounts: []string{"P3", "P4", "P6", "P10"},
				statement: "effects carry the highest run id of their process, of whatever shard"},
		},
	})
}
