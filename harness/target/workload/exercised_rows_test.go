package workload_test

// Reasons that several rows have.
const (
	reads    = "it reads and changes nothing"
	ofOpen   = "of a scheduler from Open, which a run makes from its parts, to put recorders between them"
	byEngine = "the scheduler sets it"
)

// exercised are the rows by what they are of.
var exercised = map[string][]exercise{
	"`lock.Client`": {
		{what: "Acquire", by: "steady pause-worker kill-worker locks-several", event: "lock, acquire", judged: "P1 P2 P8 P11", mutant: "takeover-plain-write"},
		{what: "TryAcquire", by: "locks-impatient", event: "lock, with try", judged: "P2 P11", mutant: "try-by-memory"},
		{what: "Close", by: "locks-reopening", event: "close; lock: closed; of the last one exit, life", judged: "P11 P18", mutant: "close-without-waiting"},
	},
	"`lock.Lease`": {
		{what: "Release", by: "steady pause-worker", event: "release", judged: "P9", mutant: "release-anyone"},
		{what: "Renew", by: "locks-renewing", event: "extend, renew", judged: "P7", mutant: "renew-throttled"},
		{what: "Token", by: "steady locks-several", event: "raise, effect", judged: "P1 P6", mutant: "one-token-a-client"},
		{what: "Valid", by: "partition-client pause-worker", event: "start, effect: decided_at", judged: "P7", mutant: "renew-failure-ignored"},
		{what: "Context", by: "partition-client lost-replies", event: "lease-lost, start, finish", judged: "P7", mutant: "heartbeat-dies"},
		{what: "Deadline", why: reads + ": Valid compares it with the clock"},
		{what: "Holder", why: reads},
		{what: "Resource", why: reads},
		{what: "TTL", why: reads},
	},
	"`scheduler.Scheduler`": {
		{what: "Submit", by: "jobs-steady jobs-mixture jobs-queues", event: "enqueue", judged: "P5", mutant: "jobs-id-without-queue"},
		{what: "Enqueue", why: "Submit, by an id that it makes, again while the outcome is unknown; runs make the id and ask again themselves, to record each call"},
		{what: "EnqueueMany", why: "Enqueue of each, side by side; runs enqueue many jobs by one request of the API, POST /jobs/batch"},
		{what: "Schedule", by: "jobs-recurring jobs-calendar", event: "schedule", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "PutSchedule", why: "Schedule with put, again while the outcome is unknown; runs ask again themselves, to record each call"},
		{what: "Cancel", by: "jobs-commands jobs-sequences", event: "command cancel", judged: "P5", mutant: "jobs-cancel-told"},
		{what: "Redrive", by: "jobs-commands", event: "command redrive", judged: "P5", mutant: "jobs-redrive-told"},
		{what: "Hasten", by: "jobs-commands", event: "command hasten", judged: "P5", mutant: "jobs-hasten-told"},
		{what: "SetShardPaused", by: "jobs-commands jobs-queues", event: "command pause, resume", judged: "P5", mutant: "jobs-pause-in-part"},
		{what: "SetPaused", by: "jobs-queues", event: "command pause, resume, with whole", judged: "P5", mutant: "jobs-pause-in-part"},
		{what: "Run", by: "jobs-steady jobs-rolling-restart", event: "take, tick, hand-over, exit", judged: "P8 P18", mutant: "jobs-early-hand-over"},
		{what: "Close", why: ofOpen + "; it ends the context of Run"},
		{what: "Wait", why: ofOpen},
		{what: "DB", why: ofOpen},
		{what: "PutQueue", why: "runs raise the number of shards in the store, as another process does: the harness is to be its own witness. The tests of the API and of the scheduler ask for it"},
		{what: "Queue", why: reads},
		{what: "Queues", why: reads},
		{what: "Place", why: reads},
		{what: "Depths", why: reads},
		{what: "Owns", why: reads},
		{what: "RunStats", why: reads},
		{what: "Secret", why: reads},
	},
	"`engine.ScheduleCommand`, verbs": {
		{what: "Verb PutSchedule", by: "jobs-recurring jobs-leader-crash", event: "schedule put", judged: "P12", mutant: "jobs-mark-first"},
		{what: "Verb RemoveSchedule", by: "jobs-recurring", event: "schedule remove", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Verb EnableSchedule", by: "jobs-recurring", event: "schedule enable", judged: "P12", mutant: "jobs-enable-forgotten"},
		{what: "Verb DisableSchedule", by: "jobs-recurring jobs-outage", event: "schedule disable", judged: "P12", mutant: "jobs-disabled-returns"},
		{what: "Verb TriggerSchedule", by: "jobs-recurring", event: "schedule trigger", judged: "P12", mutant: "jobs-trigger-again"},
	},
	"`engine.Retention`": {
		{what: "DedupeWindow", by: "jobs-sweep jobs-steady", event: "tick sweep", judged: "P5", mutant: "jobs-swept-early"},
		{what: "Retire", why: "what is retired is gone from the sink with its ledger, by which a run's effects are judged. The harness would have to copy the ledger of each job after its end and before its window is over, of thousands of them a run, as nobody believes a worker about it. The simulation of core/engine judges each call as it happens, with mutants"},
	},
	"`job.Job`": {
		{what: "ID", by: "jobs-steady jobs-mixture", event: "enqueue: key; random for a job without one", judged: "P2 P5", mutant: "jobs-no-key-is-a-key"},
		{what: "Queue", by: "jobs-queues", event: "enqueue: queue", judged: "P5", mutant: "jobs-id-without-queue"},
		{what: "Kind", by: "jobs-steady orders-pause-worker", event: "enqueue: kind", judged: "P16", mutant: "orders-pay-before-fence"},
		{what: "Key", by: "jobs-steady jobs-mixture jobs-queues", event: "enqueue: key of the job, or none", judged: "P5", mutant: "jobs-id-without-queue"},
		{what: "Request", why: "a digest that nothing but the API compares: jobs-api uses keys again with other bodies, and nothing judges that they are refused; the API's tests do"},
		{what: "Payload", by: "jobs-steady jobs-mixture", event: "effect", judged: "P4", mutant: "jobs-key-with-attempt"},
		{what: "Due", by: "jobs-due-later jobs-storm", event: "enqueue: due_ms", judged: "P12", mutant: "jobs-early-bird"},
		{what: "Priority", by: "jobs-queues", event: "enqueue: priority", judged: "P12", mutant: "jobs-priority-lost"},
		{what: "MaxAttempts", by: "jobs-poison", event: "tick dlq", judged: "P2", mutant: "jobs-retries-in-memory"},
		{what: "MaxDuration", by: "jobs-mixture", event: "enqueue: overruns", judged: "P12", mutant: "jobs-never-ended"},
		{what: "Rescue", by: "jobs-pause-worker jobs-mixture jobs-sequences", event: "tick abandon, rescue", judged: "P5", mutant: "jobs-rescue-dead-only"},
		{what: "Rescue AtLeastOnce", by: "jobs-pause-worker jobs-kill-worker", event: "tick rescue", judged: "P5", mutant: "jobs-rescue-dead-only"},
		{what: "Rescue AtMostOnce", by: "jobs-at-most-once jobs-mixture jobs-sequences", event: "tick abandon", judged: "P5", mutant: "jobs-at-most-twice"},
		{what: "Retry", by: "jobs-poison", event: "tick retry", judged: "P12", mutant: "jobs-retry-at-once"},
		{what: "Then", by: "jobs-sequence jobs-sequences", event: "tick follow", judged: "P5", mutant: "jobs-follow-later"},
		{what: "OnFailure", by: "jobs-sequence jobs-sequences", event: "tick follow, stop", judged: "P5", mutant: "jobs-failure-ignored"},
		{what: "OnFailure Stop", by: "jobs-sequence jobs-sequences", event: "tick stop", judged: "P5", mutant: "jobs-failure-ignored"},
		{what: "OnFailure GoOn", by: "jobs-sequence jobs-sequences", event: "tick follow", judged: "P5", mutant: "jobs-follow-later"},
		{what: "Occurrence", by: "jobs-recurring", event: "tick fire", judged: "P12", mutant: "jobs-trigger-again"},
		{what: "After", by: "jobs-sequence", event: "tick follow", judged: "P5", mutant: "jobs-follow-later"},
		{what: "Trace", why: "it has no effect on the job; the tests of core/service/tracing have it"},
	},
	"`job.RetryPolicy`": {
		{what: "Base", by: "jobs-poison", event: "tick retry", judged: "P12", mutant: "jobs-retry-at-once"},
		{what: "Factor", by: "jobs-poison", event: "tick retry", judged: "P12", mutant: "jobs-retry-at-once"},
		{what: "Max", by: "jobs-poison", event: "tick retry", judged: "P12", mutant: "jobs-retry-at-once"},
		{what: "Delays", by: "jobs-mixture", event: "tick retry", judged: "P12", mutant: "jobs-delays-off-by-one"},
		{what: "Jitter", by: "jobs-mixture", event: "tick retry", judged: "P12", mutant: "jobs-jitter-constant"},
	},
	"`schedule.Definition`": {
		{what: "Queue", by: "jobs-recurring jobs-queues", event: "schedule put: queue", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Key", by: "jobs-recurring", event: "schedule put: key", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Kind", by: "jobs-recurring jobs-leader-crash", event: "schedule put: kind", judged: "P12", mutant: "jobs-mark-first"},
		{what: "At", by: "jobs-once", event: "schedule put: at_ms", judged: "P12", mutant: "jobs-once-again"},
		{what: "Until", by: "jobs-once", event: "schedule put: until_ms", judged: "P12", mutant: "jobs-bounds-ignored"},
		{what: "Cron", by: "jobs-calendar jobs-clock-jump jobs-recurring", event: "schedule put: cron", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Zone", by: "jobs-calendar jobs-recurring", event: "schedule put: zone", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Every", by: "jobs-recurring jobs-outage", event: "schedule put: every_ms", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Misfire", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Grace", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Window", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Overlap", by: "jobs-recurring", event: "tick fire: skipped, waiting", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Job", by: "jobs-recurring", event: "schedule put: job", judged: "P12", mutant: "jobs-trigger-again"},
		{what: "Kind Now", by: "jobs-once", event: "schedule put: kind", judged: "P12", mutant: "jobs-once-again"},
		{what: "Kind At", by: "jobs-once", event: "schedule put: kind", judged: "P12", mutant: "jobs-once-again"},
		{what: "Kind Cron", by: "jobs-calendar jobs-recurring", event: "schedule put: kind", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Kind FixedRate", by: "jobs-recurring jobs-leader-crash", event: "schedule put: kind", judged: "P12", mutant: "jobs-mark-first"},
		{what: "Kind FixedDelay", by: "jobs-recurring", event: "schedule put: kind", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Overlap OverlapAllow", by: "jobs-recurring", event: "schedule put: overlap", judged: "P12", mutant: "jobs-trigger-again"},
		{what: "Overlap OverlapSkip", by: "jobs-recurring", event: "tick fire: skipped", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Overlap OverlapQueue", by: "jobs-recurring", event: "tick fire: waiting", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Misfire MisfireSkip", by: "jobs-recurring", event: "tick fire: missed", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Misfire MisfireOnce", by: "jobs-recurring", event: "tick fire: missed", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Misfire MisfireAll", by: "jobs-recurring jobs-outage", event: "tick fire", judged: "P12", mutant: "jobs-counts-from-start"},
	},
	"`sink.Sink`": {
		{what: "Raise", by: "pause-worker", event: "raise", judged: "P3 P4", mutant: "no-raise"},
		{what: "Accept", by: "pause-worker sink-lost-replies", event: "effect", judged: "P3 P4", mutant: "sink-no-token-check"},
		{what: "Read", by: "steady pause-worker", event: "get", judged: "P4", mutant: "no-raise"},
		{what: "Ledger", by: "steady", event: "ledger", judged: "P3 P4", mutant: "harness-ledger-reset"},
		{what: "Forget", by: "forget-pause-worker", event: "forget, ledger seal", judged: "P3 P4", mutant: "sink-forgets-all"},
	},
	"HTTP API": {
		api("POST /jobs", "enqueue", "P5", "jobs-api-key-unread"), api("POST /jobs/{id}/run", "command run", "P5", "jobs-api-answers-first"),
		api("POST /api/v1/jobs", "enqueue", "P5", "jobs-api-key-unread"), api("POST /api/v1/jobs/{id}/run", "command run", "P5", "jobs-api-answers-first"),
		api("POST /api/v1/jobs/{id}/cancel", "command cancel", "P5", "jobs-api-answers-first"),
		api("POST /api/v1/jobs/{id}/retry", "command redrive", "P5", "jobs-api-answers-first"),
		api("POST /api/v1/dlq/{id}/redrive", "command redrive", "P5", "jobs-api-answers-first"),
		api("POST /jobs/batch", "enqueue", "P5", "jobs-api-batch-in-part"),
		api("POST /api/v1/jobs/batch", "enqueue", "P5", "jobs-api-batch-in-part"),
		api("POST /api/v1/dlq/redrive", "command redrive-dead: answers", "P5", "jobs-api-redrive-in-part"),
		api("PUT /api/v1/schedules/{key}", "schedule put", "P12", "jobs-api-schedules-cached"),
		api("DELETE /api/v1/schedules/{key}", "schedule remove", "P12", "jobs-api-schedules-cached"),
		api("POST /api/v1/schedules/{key}/enable", "schedule enable", "P12", "jobs-api-schedules-cached"),
		{what: "POST /api/v1/schedules/{key}/disable", by: byAPI, event: "schedule disable", judged: "P12",
			why: "a run ends by it, and one whose schedules go on would never finish; the checker's tests refuse the history of a mistake in it"},
		api("POST /api/v1/schedules/{key}/trigger", "schedule trigger", "P12", "jobs-api-key-unread"),
		api("POST /api/v1/queues/{queue}/pause", "command pause, with whole", "P5", "jobs-api-pause-first"),
		{what: "PUT /api/v1/queues/{queue}", why: "Scheduler.PutQueue; see there"},
		api("POST /api/v1/queues/{queue}/resume", "command resume, with whole", "P5", "jobs-api-pause-first"),
	},
}

// byAPI are the scenario and the set whose clients ask the API.
const byAPI = "jobs-api jobs-by-api"

// api is an endpoint that these clients ask.
func api(endpoint, event, judged, mutant string) exercise {
	return exercise{what: endpoint, by: byAPI, event: event, judged: judged, mutant: mutant}
}
