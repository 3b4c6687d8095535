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
		{what: "Close", by: "steady", event: "exit, life", judged: "P18", mutant: "never-ends"},
	},
	"`lock.Lease`": {
		{what: "Release", by: "steady pause-worker", event: "release", judged: "P9", mutant: "release-anyone"},
		{what: "Renew", why: "the lease renews itself by the same steps, in every run whose work outlasts a third of the ttl; no run calls it by hand yet"},
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
		{what: "Depths", why: reads},
		{what: "Owns", why: reads},
		{what: "RunStats", why: reads},
		{what: "Secret", why: reads},
	},
	"`engine.ScheduleCommand`, verbs": {
		{what: "Verb PutSchedule", by: "jobs-recurring jobs-leader-crash", event: "schedule put", judged: "P12", mutant: "jobs-mark-first"},
		{what: "Verb RemoveSchedule", by: "jobs-recurring", event: "schedule remove", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Verb EnableSchedule", by: "jobs-recurring", event: "schedule enable", judged: "P12", why: "no mutant yet; the checker's tests refuse the history of a mistake in it"},
		{what: "Verb DisableSchedule", by: "jobs-recurring jobs-outage", event: "schedule disable", judged: "P12", why: "no mutant yet; the checker's tests refuse the history of a mistake in it"},
		{what: "Verb TriggerSchedule", by: "jobs-recurring", event: "schedule trigger", judged: "P12", mutant: "jobs-trigger-again"},
	},
	"`engine.Retention`": {
		{what: "DedupeWindow", by: "jobs-sweep jobs-steady", event: "tick sweep", judged: "P5", mutant: "jobs-swept-early"},
		{what: "Retire", why: "what is retired is gone from the sink, and with it what a run's effects are judged by; the tests of core/engine and of the sinks have it"},
	},
	"`job.Job`": {
		{what: "ID", by: "jobs-steady", event: "enqueue: key", judged: "P2 P5", mutant: "jobs-claimed-twice"},
		{what: "Queue", by: "jobs-queues", event: "enqueue: queue", judged: "P5", mutant: "jobs-id-without-queue"},
		{what: "Kind", by: "jobs-steady orders-pause-worker", event: "enqueue: kind", judged: "P16", mutant: "orders-pay-before-fence"},
		{what: "Key", by: "jobs-steady jobs-mixture jobs-queues", event: "enqueue: key of the job", judged: "P5", mutant: "jobs-id-without-queue"},
		{what: "Request", why: "a digest that nothing but the API compares: jobs-api uses keys again with other bodies, and nothing judges that they are refused; the API's tests do"},
		{what: "Payload", by: "jobs-steady jobs-mixture", event: "effect", judged: "P4", mutant: "jobs-key-with-attempt"},
		{what: "Due", by: "jobs-due-later jobs-storm", event: "enqueue: due_ms", judged: "P12", mutant: "jobs-early-bird"},
		{what: "Priority", by: "jobs-queues", event: "enqueue: priority", judged: "P12", mutant: "jobs-priority-lost"},
		{what: "MaxAttempts", by: "jobs-poison", event: "tick dlq", judged: "P2", mutant: "jobs-retries-in-memory"},
		{what: "MaxDuration", by: "jobs-mixture", event: "enqueue: overruns", judged: "P12", mutant: "jobs-never-ended"},
		{what: "Rescue", by: "jobs-pause-worker jobs-mixture jobs-sequences", event: "tick abandon, rescue", judged: "P5", mutant: "jobs-rescue-dead-only"},
		{what: "Rescue AtLeastOnce", by: "jobs-pause-worker jobs-kill-worker", event: "tick rescue", judged: "P5", mutant: "jobs-rescue-dead-only"},
		{what: "Rescue AtMostOnce", by: "jobs-mixture jobs-sequences", event: "tick abandon", judged: "P5", why: "hardly one such run is cut short in a run of the harness, so that no directed run would be sure to find a mistake; the checker's tests refuse its history"},
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
		{what: "Delays", why: "the workload's jobs have a base instead; the checker can judge them, and no run has them yet"},
		{what: "Jitter", why: "as for Delays"},
	},
	"`schedule.Definition`": {
		{what: "Queue", by: "jobs-recurring jobs-queues", event: "schedule put: queue", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Key", by: "jobs-recurring", event: "schedule put: key", judged: "P12", mutant: "jobs-removed-returns"},
		{what: "Kind", by: "jobs-recurring jobs-leader-crash", event: "schedule put: kind", judged: "P12", mutant: "jobs-mark-first"},
		{what: "At", why: "no run gives an instant: a schedule of a run begins when it is put. The model of core/schedule's tests has it"},
		{what: "Until", why: "no run gives an instant: a schedule of a run ends when it is disabled. The model of core/schedule's tests has it"},
		{what: "Cron", by: "jobs-calendar jobs-clock-jump jobs-recurring", event: "schedule put: cron", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Zone", by: "jobs-calendar jobs-recurring", event: "schedule put: zone", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Every", by: "jobs-recurring jobs-outage", event: "schedule put: every_ms", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Misfire", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Grace", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Window", by: "jobs-recurring jobs-outage", event: "tick fire: missed", judged: "P12", mutant: "jobs-counts-from-start"},
		{what: "Overlap", by: "jobs-recurring", event: "tick fire: skipped, waiting", judged: "P12", mutant: "jobs-overlap-in-memory"},
		{what: "Job", by: "jobs-recurring", event: "schedule put: job", judged: "P12", mutant: "jobs-trigger-again"},
		{what: "Kind Now", why: "it fires once and is gone: a job with a name. No run has it yet; the model of core/schedule's tests does"},
		{what: "Kind At", why: "it fires once and is gone: a job with a name and a due time. No run has it yet; the model of core/schedule's tests does"},
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
		api("POST /api/v1/dlq/redrive", "command redrive-dead: answers", "P5", "jobs-api-redrive-in-part"),
		api("PUT /api/v1/schedules/{key}", "schedule put", "P12", "jobs-api-schedules-cached"),
		api("DELETE /api/v1/schedules/{key}", "schedule remove", "P12", "jobs-api-schedules-cached"),
		api("POST /api/v1/schedules/{key}/enable", "schedule enable", "P12", "jobs-api-schedules-cached"),
		{what: "POST /api/v1/schedules/{key}/disable", by: byAPI, event: "schedule disable", judged: "P12",
			why: "a run ends by it, and one whose schedules go on would never finish; the checker's tests refuse the history of a mistake in it"},
		api("POST /api/v1/schedules/{key}/trigger", "schedule trigger", "P12", "jobs-api-key-unread"),
		api("POST /api/v1/queues/{queue}/pause", "command pause, with whole", "P5", "jobs-api-pause-first"),
		api("POST /api/v1/queues/{queue}/resume", "command resume, with whole", "P5", "jobs-api-pause-first"),
	},
}

// byAPI are the scenario and the set whose clients ask the API.
const byAPI = "jobs-api jobs-by-api"

// api is an endpoint that these clients ask.
func api(endpoint, event, judged, mutant string) exercise {
	return exercise{what: endpoint, by: byAPI, event: event, judged: judged, mutant: mutant}
}
