package checker

func init() {
	register(check{
		id:    "P9",
		title: "only the owner renews or releases",
		by:    "the chain",
		run:   checkOwnership,
		soFar: checkOwnership,
		rules: []rule{
			{needs: "P2", find: (*inquiry).ignoredRenewals},
			{needs: "P2", find: (*inquiry).wrongOwners},
		},
		mechanisms: []mechanism{
			{id: "takeover-ignores-renewals", accounts: ofRows,
				statement: "a takeover names a version that was renewed since: it does not look whether the lease is alive"},
			{id: "release-without-owner", accounts: ofRows,
				statement: "a release frees the row whoever holds it",
				apart:     "a release of a lost lease that is rejected would rule it out"},
			{id: "renewal-changes-more", accounts: ofRows,
				statement: "a renewal changes more than the beat"},
			{id: "foreign-writer", accounts: []string{"P9"},
				statement: "a row is renewed or released by somebody who does not hold it"},
		},
	})
}
