package checker

func init() {
	register(check{
		id:     "P15",
		title:  "the run stayed within the scenario's thresholds",
		by:     "latencies, recoveries and lateness of the record",
		of:     "thresholds",
		run:    checkThresholds,
		whole:  true,
		always: true,
		rules: []rule{
			{find: (*inquiry).thresholds},
		},
		mechanisms: []mechanism{
			{id: "threshold-exceeded", accounts: []string{"P15"}, ofRecord: true,
				statement: "the run is beyond a threshold of its scenario"},
			{id: "threshold-not-measured", accounts: []string{"P15"}, ofRecord: true,
				statement: "a threshold of the scenario could not be measured"},
		},
	})
}
