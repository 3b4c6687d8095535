package system

// apiVariants are mistakes of the HTTP API, before the scheduler is asked: only clients that ask it see
// them.
var apiVariants = []System{
	{
		Name: "jobs-api-key-unread", Chapter: inJobs,
		About: "the API does not read the header Idempotency-Key: each request is one of its own",
		Seen:  "a proxy that passes known headers only; a key that is logged and never looked up",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P5", "P12"}, Mechanism: "acknowledged-and-lost"},
	},
	{
		Name: "jobs-api-answers-first", Chapter: inJobs,
		About: "the API answers a command on a job with 200 when it has come, and gives it behind that",
		Seen:  "a handler that hands the work to a goroutine and answers; a 202 that was to become one",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P5"}, Mechanism: "command-not-carried-out"},
	},
	{
		Name: "jobs-api-pause-first", Chapter: inJobs,
		About: "the API answers a pause or a resumption of a queue with 200 when it has come, and asks the owners of its shards behind that",
		Seen:  "a state that is shown as it was asked for, not as it is",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P5"}, Mechanism: "queue-paused-in-part"},
	},
	{
		Name: "jobs-api-redrive-in-part", Chapter: inJobs,
		About: "a redrive of many dead jobs names all that it has selected, and redrives half of them",
		Seen:  "a bulk endpoint that answers with its selection, and works in batches of which the first is the last",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P5"}, Mechanism: "command-not-carried-out"},
	},
	{
		Name: "jobs-api-batch-in-part", Chapter: inJobs,
		About: "an enqueue of many jobs answers 201 for each, and enqueues the first half of them",
		Seen:  "a bulk endpoint that answers when the first page of its insert is done",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P5"}, Mechanism: "acknowledged-and-lost"},
	},
	{
		Name: "jobs-api-schedules-cached", Chapter: inJobs,
		About: "the API changes, enables and removes a schedule that it has put before in its memory, and nowhere else",
		Seen:  "a write-through cache whose second write goes no further",
		Red:   &Red{Scenario: "jobs-api", Contention: "medium", Properties: []string{"P12"}, Mechanism: "command-not-carried-out"},
	},
}
