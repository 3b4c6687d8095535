package checker

func init() {
	register(check{
		id:    "P16",
		title: "every order ends paid once and shipped, or not paid at all",
		by:    "the shop's tables, the clients' calls",
		of:    "orders",
		run:   checkMoney,
		whole: true,
		count: (*analysis).countOrders,
		tell:  tellOrders,
		blind: blindToOrders,
		rules: []rule{
			{find: (*inquiry).payments},
		},
		mechanisms: []mechanism{
			{id: "paid-before-the-fence", accounts: []string{"P16", "P17"},
				statement: "an order is paid before the fence is asked, not with it: a run that was fenced off has taken the money",
				apart:     "a payment by a run that the fence let pass would rule it out"},
			{id: "paid-by-run", accounts: []string{"P4", "P16"},
				statement: "the idempotency key of a payment is the run's, not the order's: what an earlier run has paid is paid again",
				apart:     "two payments under one key would rule it out"},
		},
	})
}
