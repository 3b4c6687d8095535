package history

// lifeRest is what a life may have however it ended.
const lifeRest = "pid overdue took_ms bound_ms log log_file file bytes sha256]"

// objects are all kinds of objects: a line of a file is one of the first two, the others are
// within events, in the order in which the docs have them. Of events, forms say more.
var objects = compile(
	&object{of: Event{}, name: "event", means: "a line of a history file, but for the first"},
	&object{of: Header{}, name: "header", means: "the first line of a history file"},
	&object{of: Version{}, name: "version", means: "the whole version of a lock's row, or the stamp of a shard"},
	&object{of: Change{}, name: "change", means: "what a batch, or an update, does to one job, to one schedule, or to the shard",
		by: "do", kinds: []objectKind{
			{"enqueue", "job [due_ms schedule nominal_ms after]"},
			{"claim retry rescue", "job run attempt [due_ms]"},
			{"complete abandon", "job run attempt"},
			{"dlq cancel", "job [run attempt]"},
			{"redrive hasten", "job [run attempt due_ms]"},
			{"sweep", "job"},
			{"put disable", "schedule last_ms"},
			{"fire", "schedule last_ms [missed]"},
			{"pause resume", ""},
		}},
	&object{of: Job{}, name: "job", means: "what is enqueued"},
	&object{of: Order{}, name: "order", means: "what a customer asks for"},
	&object{of: Schedule{}, name: "schedule", means: "what is asked for of a recurring schedule",
		by: "do", kinds: []objectKind{
			{"put", "queue shard every_ms window_ms job"},
			{"disable", "queue shard"},
		}},
	&object{of: JobRow{}, name: "job_row", means: "a row of a shard, or of a job with a lock of its own, when all processes have ended",
		by: "kind", kinds: []objectKind{
			{"job", "state [attempt run due_ms ended_ms]"},
			{"pending", "[attempt run due_ms]"},
			{"running", "[attempt run due_ms]"},
			{"dlq", "[attempt run due_ms]"},
			{"ended", ""},
			{"inbox", "[due_ms]"},
		}},
	&object{of: Book{}, name: "book", means: "a row of the shop's tables when all processes have ended",
		by: "table", kinds: []objectKind{
			{"stock", "item [quantity version]"},
			{"move", "item version [delta quantity order]"},
			{"order", "order item quantity cents state"},
			{"payment", "order cents token"},
			{"shipment", "order"},
			{"end", ""},
		}},
	&object{of: LedgerEntry{}, name: "ledger", means: "a decision of the sink, in its own order",
		by: "kind", kinds: []objectKind{
			{"raise", "seq issuer token [at]"},
			{"accept", "seq issuer token effect_key value [at]"},
		}},
	&object{of: Fault{}, name: "fault", means: "an injection, its end, or the proof that it took effect",
		by: "action", kinds: []objectKind{
			{"inject heal", "id name [targets trigger delay_ms]"},
			{"evidence", "id name [targets trigger delay_ms proven text]"},
		}},
	&object{of: Clock{}, name: "clock", means: "the state of a worker's clocks from this instant on; nothing: they are right"},
	&object{of: ProcessLife{}, name: "life", means: "how a life of a process ended, or that it was still there when the run was over",
		shapes: "kind name [running " + lifeRest + " or kind name [code " + lifeRest + " or kind name [signal " + lifeRest +
			" or kind name asked by [running " + lifeRest + " or kind name asked by [code " + lifeRest + " or kind name asked by [signal " + lifeRest},
	&object{of: Host{}, name: "machine", means: "how busy the machine was in the phase that ends, by the harness's own timer: how late it was, weighed by time"},
	&object{of: Progress{}, name: "progress", means: "what must get done while a fault is in force, by those who can reach a quorum then (P11)"},
	&object{of: Asked{}, name: "asked", means: "what a worker's link carried to the sink"},
	&object{of: Hit{}, name: "hit", means: "a client at a point that a fault waited for, and the request that the point is before"},
	&object{of: Statement{}, name: "statement", means: "the shape of a database statement"},
	&object{of: Expect{}, name: "expect", means: "what the run must contain to count as a test"},
	&object{of: Agreement{}, name: "agreement", means: "in which of several data centres the system is to agree, and how (P13)"},
	&object{of: Success{}, name: "success", means: "an expectation for the releases (or completed jobs) of some workers in a phase, or while a fault is in force",
		shapes: "phase want [workers] or phase want [group] or fault want [workers] or fault want [group]"},
	&object{of: Threshold{}, name: "threshold", means: "a bound on a number of the run",
		shapes: "latency quantile phase max_ms or latency quantile phase times_before or recovery max_ms or lateness max_ms"},
)

var eventObject, headerObject = objects[0], objects[1]
