package checker

func init() {
	register(check{
		id:    "P11",
		title: "work goes on where a quorum does: what is orphaned is taken over in time",
		by:    "the chain, against everybody who waited meanwhile; what was asked for and done while faults were in force",
		run:   checkRecovery,
		whole: true,
		rules: []rule{
			{needs: "P11", find: (*inquiry).missingTakeovers},
			{needs: "P11", find: (*inquiry).stalls},
			{find: (*inquiry).busyHost},
		},
		mechanisms: []mechanism{
			{id: "no-takeover", accounts: []string{"P5", "P11"},
				statement: "nobody takes over what a dead or silent holder leaves, or much too late"},
			{id: "waits-for-one-node", accounts: []string{"P11"},
				statement: "requests go to one node and wait for it, though others could be asked"},
			{id: "work-stops-in-fault", accounts: []string{"P11"},
				statement: "nothing is asked of the database while a part of it is away, though a quorum is there"},
			{id: "claims-stop", accounts: []string{"P5", "P11"},
				statement: "owners go on to tick and claim nothing, though jobs are due"},
			{id: "host-too-busy", accounts: []string{"P11", "P15"}, ofRecord: true,
				statement: "the machine was too busy for times to say anything about the system"},
		},
	})
}
