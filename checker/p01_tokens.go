package checker

func init() {
	register(check{
		id:    "P1",
		title: "fencing tokens of a lock or shard rise strictly",
		by:    "the row's chain of versions, real time, the tokens handed out; run ids",
		run:   checkTokens,
		soFar: tokensSoFar,
		rules: []rule{
			{needs: "P6", find: (*inquiry).handedOutTokens},
			{needs: "P2", find: (*inquiry).rowsThatChange},
			{needs: "P2", find: (*inquiry).vanishedRows},
		},
		mechanisms: []mechanism{
			{id: "tokens-from-blocks", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are not the row's: each process hands out a block of ids of its own"},
			{id: "tokens-from-wall-clock", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are not the row's but readings of a wall clock"},
			{id: "tokens-not-from-row", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are handed out that the lock's row does not carry"},
			{id: "release-resets-counter", accounts: ofRows,
				statement: "a release sets the row's token counter back"},
			{id: "grant-keeps-token", accounts: ofRows,
				statement: "a grant does not raise the row's token"},
		},
	})
}
