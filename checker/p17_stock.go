package checker

func init() {
	register(check{
		id:    "P17",
		title: "stock is never negative, and what was sold is gone from it",
		by:    "every change of the stock",
		of:    "orders",
		run:   checkStock,
		rules: []rule{
			{find: (*inquiry).overwrittenStock},
		},
		mechanisms: []mechanism{
			{id: "stock-overwritten", accounts: []string{"P17"},
				statement: "stock is written as computed from what was read, though another has changed it since: its sale is lost",
				apart:     "a write that is refused as the stock has moved would rule it out"},
		},
	})
}
