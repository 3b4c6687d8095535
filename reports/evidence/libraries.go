package evidence

// Libraries are bugs of libraries of locks and schedulers.
var Libraries = []Bug{
	{
		Name: "etcd#22082", About: "the Mutex of etcd's client library is unlocked by its session's key, whichever grant made that: an unlock that is sent again, as its answer was lost, ends the grant that the same session has by then",
		Source: "etcd-io/etcd #22082: open, with a fix proposed in #22115; so in 3.7.3",
		Red:    []BugRun{{Scenario: "late-unlock", System: "etcd-mutex-one-session"}},
		Green:  []BugRun{{Scenario: "late-unlock", System: "etcd-mutex-new-session"}, {Scenario: "late-unlock", System: "etcd-mutex"}},
	},
	{
		Name: "gocron#841", About: "gocron's lock is of a job's name and is given back when the run ends: a process that is late by more than that runs the same occurrence again",
		Source: "go-co-op/gocron #841: closed by #848, which documents it; so in 2.21.2",
		Red:    []BugRun{{Scenario: "latency", System: "gocron"}},
		Green:  []BugRun{{Scenario: "latency", System: "gocron-by-time"}},
	},
	{
		Name: "river#1302", About: "River's rescuer takes a job that ran for too long by its id: one that is completed between its look and its write is run again",
		Source: "riverqueue/river #1302, fixed by #1373 in 0.48.0",
		Red:    []BugRun{{Scenario: "long-job", System: "river-tx-0-47"}},
		Green:  []BugRun{{Scenario: "long-job", System: "river-tx-0-48"}, {Scenario: "long-job", System: "river-tx"}},
	},
	{
		Name: "redsync#149", About: "with redsync's option WithSetNXOnExtend a lock that has expired is extended as if it had never been lost, though another had it in between",
		Source: "go-redsync/redsync #149, which added the option; off by default, so in 4.18.1",
		Red:    []BugRun{{Scenario: "late-renewal", System: "redlock-nx-extend"}},
		Green:  []BugRun{{Scenario: "late-renewal", System: "redlock-extend"}},
	},
	{
		Name: "celery#5935", About: "Celery's visibility timeout on Redis gives a task that is still being run to another worker",
		Source: "celery/celery #5935, and celery/kombu #337 for tasks that wait: open; documented; so in 5.7.0",
		Red:    []BugRun{{Scenario: "slow-job", System: "celery"}},
		Green:  []BugRun{{Scenario: "steady", System: "celery"}},
	},
	{
		Name: "bull#308", About: "BullMQ gives a job whose lock was not renewed in time to another worker, and the first one's effect comes all the same",
		Source: "OptimalBits/bull #308, of the library before BullMQ: closed; BullMQ documents it as stalled jobs; so in 6.7.0",
		Red:    []BugRun{{Scenario: "pause-worker", System: "bullmq"}},
		Green:  []BugRun{{Scenario: "pause-worker", System: "bullmq-fenced"}},
	},
}
