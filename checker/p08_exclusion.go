package checker

func init() {
	register(check{
		id:    "P8",
		title: "no two holders of a lock or shard are entitled at once",
		by:    "derived intervals",
		run:   checkExclusion,
		whole: true,
		rules: []rule{
			{needs: "P2", find: (*inquiry).earlyTakeovers},
		},
		mechanisms: []mechanism{
			{id: "expiry-by-wall-clock", accounts: []string{"P4", "P7", "P8"},
				statement: "a lease's expiry, written by one wall clock, is compared with another"},
			{id: "takeover-without-waiting", accounts: []string{"P4", "P7", "P8"},
				statement: "a lease is taken over before it has stood still for its ttl"},
			{id: "silent-owner-is-dead", accounts: []string{"P4", "P7", "P8"},
				statement: "a shard is taken from an owner whose heartbeats are not seen, though it ticks"},
			{id: "given-away-with-runs", accounts: []string{"P4", "P7", "P8"},
				statement: "a shard is given away while its owner's runs are at work"},
		},
	})
}
