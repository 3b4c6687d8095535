package history

// The objects within events, with what each field means. See object.

var versionObject = newObject(object[Version]{
	name: "version", means: "the whole version of a lock's row, or the stamp of a shard",
	shapes: "fence beat attempt holder ttl_ms [absent]",
	members: []member[Version]{
		boolean("absent", "true: there is no row; the other fields then mean nothing", func(v *Version) *bool { return &v.Absent }),
		bare(whole("fence", 0, most, "the token of the grant", func(v *Version) *int64 { return &v.Fence })),
		bare(whole("beat", 0, most, "what a renewal raises; of a shard its tick", func(v *Version) *int64 { return &v.Beat })),
		wordOrNone("attempt", "unique to the operation that set it; of a shard the nonce", func(v *Version) *string { return &v.Attempt }),
		wordOrNone("holder", "the proc of the holder, empty: free; of a shard always empty", func(v *Version) *string { return &v.Holder }),
		bare(whole("ttl_ms", 0, maxSpan, "the lease time; of a shard 0, as no condition names it", func(v *Version) *int64 { return &v.TTLMS })),
	},
})

var changeObject = newObject(object[Change]{
	name: "change", means: "what a batch, or an update, does to one job, to one schedule, or to the shard",
	by: "do", which: func(c *Change) string { return c.Do },
	kinds: []objectKind{
		{"enqueue", "job [due_ms schedule nominal_ms after]"},
		{"claim retry rescue", "job run attempt [due_ms]"},
		{"complete abandon", "job run attempt"},
		{"dlq cancel", "job [run attempt]"},
		{"redrive hasten", "job [run attempt due_ms]"},
		{"sweep", "job"},
		{"put disable", "schedule last_ms"},
		{"fire", "schedule last_ms [missed]"},
		{"pause resume", ""},
	},
	members: []member[Change]{
		word("job", "the job that is changed", func(c *Change) *string { return &c.Job }),
		oneOf("do", "of a job: enqueue (to pending), claim (to running, as run, its attempt-th), complete, retry (to pending: its run failed), rescue (to pending: its run's owner lost the shard), dlq, cancel, abandon, redrive (dlq to pending, attempts at 0), hasten (due at once), sweep (forgotten); of a schedule: put, fire, disable; of the shard: pause, resume",
			"enqueue claim complete retry rescue dlq cancel abandon redrive hasten sweep put fire disable pause resume", func(c *Change) *string { return &c.Do }),
		whole("run", 0, most, "the run that is claimed or has ended; of a pending job its last", func(c *Change) *int64 { return &c.Run }),
		whole("attempt", 0, maxSpan, "the run's number among the job's claims since it was enqueued or redriven", func(c *Change) *int { return &c.Attempt }),
		whole("due_ms", 0, maxDate, "when the job is due from now on, of a claim when it was; ms since 1970", func(c *Change) *int64 { return &c.DueMS }),
		word("schedule", "the schedule that is changed, or whose nominal time the job is of", func(c *Change) *string { return &c.Schedule }),
		whole("nominal_ms", 0, maxDate, "that nominal time", func(c *Change) *int64 { return &c.NominalMS }),
		word("after", "the job that this one follows in a sequence: the same batch ends it", func(c *Change) *string { return &c.After }),
		whole("last_ms", 0, maxDate, "up to where the schedule's nominal times are decided", func(c *Change) *int64 { return &c.LastMS }),
		whole("missed", 0, maxDate, "how many of them, the first ones, are passed over", func(c *Change) *int64 { return &c.Missed }),
	},
})

var orderObject = newObject(object[Order]{
	name: "order", means: "what a customer asks for",
	shapes: "id item quantity cents",
	members: []member[Order]{
		word("id", "the order", func(o *Order) *string { return &o.ID }),
		word("item", "what is bought", func(o *Order) *string { return &o.Item }),
		whole("quantity", 0, maxSpan, "how much of it", func(o *Order) *int64 { return &o.Quantity }),
		whole("cents", 0, maxSpan, "the price of all of it", func(o *Order) *int64 { return &o.Cents }),
	},
})

var jobObject = &object[Job]{name: "job"} // its Then are jobs

func init() {
	*jobObject = *newObject(object[Job]{
		name: "job", means: "what is enqueued",
		shapes: "queue shard kind max_attempts [resource steps may order due_ms at_most_once then go_on]",
		members: []member[Job]{
			word("queue", "its queue", func(j *Job) *string { return &j.Queue }),
			word("shard", "the issuer of its runs' tokens: its shard, or its lock", func(j *Job) *string { return &j.Shard }),
			word("kind", "its kind", func(j *Job) *string { return &j.Kind }),
			word("resource", "the sink resource of its effects; of a job that follows another, or is a schedule's, the beginning of it, which ends with the job's id", func(j *Job) *string { return &j.Resource }),
			words("steps", "the keys of the effects that it has had exactly once when it is completed", func(j *Job) *[]string { return &j.Steps }),
			words("may", "keys of effects that it may have had instead", func(j *Job) *[]string { return &j.May }),
			one("order", "the order that it is a part of", orderObject, func(j *Job) **Order { return &j.Order }),
			whole("due_ms", 0, maxDate, "when it is due, ms since 1970; absent: at once", func(j *Job) *int64 { return &j.DueMS }),
			whole("max_attempts", 0, maxSpan, "how often it is tried", func(j *Job) *int { return &j.MaxAttempts }),
			boolean("at_most_once", "a run that is cut short is not followed by another", func(j *Job) *bool { return &j.AtMostOnce }),
			objects("then", "the jobs that follow it, one after the other", jobObject, func(j *Job) *[]Job { return &j.Then }),
			boolean("go_on", "its failure does not end its sequence", func(j *Job) *bool { return &j.GoOn }),
		},
	})
}

var scheduleObject = newObject(object[Schedule]{
	name: "schedule", means: "what is asked for of a recurring schedule",
	by: "do", which: func(s *Schedule) string { return s.Do },
	kinds: []objectKind{
		{"put", "queue shard every_ms window_ms job"},
		{"disable", "queue shard"},
	},
	members: []member[Schedule]{
		word("queue", "its queue", func(s *Schedule) *string { return &s.Queue }),
		word("shard", "the key of its shard", func(s *Schedule) *string { return &s.Shard }),
		oneOf("do", "what is asked for", "put disable", func(s *Schedule) *string { return &s.Do }),
		whole("every_ms", 0, maxSpan, "the distance of nominal times, from the instant of the put on", func(s *Schedule) *int64 { return &s.EveryMS }),
		whole("window_ms", 0, maxSpan, "by how much one may be late and still fires", func(s *Schedule) *int64 { return &s.WindowMS }),
		one("job", "what each nominal time's job is", jobObject, func(s *Schedule) **Job { return &s.Job }),
	},
})

var jobRowObject = newObject(object[JobRow]{
	name: "job_row", means: "a row of a shard, or of a job with a lock of its own, when all processes have ended",
	by: "kind", which: func(r *JobRow) string { return r.Kind },
	kinds: []objectKind{
		{"job", "state [attempt run due_ms ended_ms]"},
		{"pending", "[attempt run due_ms]"},
		{"running", "[attempt run due_ms]"},
		{"dlq", "[attempt run due_ms]"},
		{"ended", ""},
		{"inbox", "[due_ms]"},
	},
	members: []member[JobRow]{
		oneOf("kind", "which row: job (the job's state, found by its id), pending, running, ended (by which job rows are swept), dlq, inbox", "job pending running ended dlq inbox", func(r *JobRow) *string { return &r.Kind }),
		oneOf("state", "the job's", "pending running completed dlq cancelled abandoned", func(r *JobRow) *string { return &r.State }),
		whole("attempt", 0, maxSpan, "the number of its last run among its claims", func(r *JobRow) *int { return &r.Attempt }),
		whole("run", 0, most, "its last run", func(r *JobRow) *int64 { return &r.Run }),
		whole("due_ms", 0, maxDate, "when it is due", func(r *JobRow) *int64 { return &r.DueMS }),
		whole("ended_ms", 0, maxDate, "when it ended", func(r *JobRow) *int64 { return &r.EndedMS }),
	},
})

var bookObject = newObject(object[Book]{
	name: "book", means: "a row of the shop's tables when all processes have ended",
	by: "table", which: func(b *Book) string { return b.Table },
	kinds: []objectKind{
		{"stock", "item [quantity version]"},
		{"move", "item version [delta quantity order]"},
		{"order", "order item quantity cents state"},
		{"payment", "order cents token"},
		{"shipment", "order"},
		{"end", ""},
	},
	members: []member[Book]{
		oneOf("table", "which table; end is no row: all have been noted", "stock move order payment shipment end", func(b *Book) *string { return &b.Table }),
		word("order", "the order; of a move none for a delivery", func(b *Book) *string { return &b.Order }),
		word("item", "what is sold", func(b *Book) *string { return &b.Item }),
		whole("quantity", -most, most, "how much of it: in stock, left after the move, ordered", func(b *Book) *int64 { return &b.Quantity }),
		whole("version", 0, most, "of the stock, one more with each move", func(b *Book) *int64 { return &b.Version }),
		whole("delta", -most, most, "by how much the move changed the stock", func(b *Book) *int64 { return &b.Delta }),
		whole("cents", -most, most, "the price, or what was charged", func(b *Book) *int64 { return &b.Cents }),
		whole("token", 0, most, "of the run that paid", func(b *Book) *int64 { return &b.Token }),
		oneOf("state", "the order's", "reserved paid shipped rejected cancelled", func(b *Book) *string { return &b.State }),
	},
})

var faultObject = newObject(object[Fault]{
	name: "fault", means: "an injection, its end, or the proof that it took effect",
	by: "action", which: func(f *Fault) string { return f.Action },
	kinds: []objectKind{
		{"inject heal", "id name [targets trigger delay_ms]"},
		{"evidence", "id name [targets trigger delay_ms proven text]"},
	},
	members: []member[Fault]{
		word("id", "one injection of one fault of the plan: f1", func(f *Fault) *string { return &f.ID }),
		word("name", "the fault: partition, kill-worker …", func(f *Fault) *string { return &f.Name }),
		oneOf("action", "what happened", "inject heal evidence", func(f *Fault) *string { return &f.Action }),
		words("targets", "nodes, workers or links", func(f *Fault) *[]string { return &f.Targets }),
		text("trigger", "what set it off", func(f *Fault) *string { return &f.Trigger }),
		whole("delay_ms", 0, maxSpan, "of latency: the shortest delay that it gives to a message, one way", func(f *Fault) *int64 { return &f.DelayMS }),
		boolean("proven", "it demonstrably did what its name says", func(f *Fault) *bool { return &f.Proven }),
		text("text", "the evidence in words, with its numbers", func(f *Fault) *string { return &f.Text }),
	},
})

var ledgerObject = newObject(object[LedgerEntry]{
	name: "ledger", means: "a decision of the sink, in its own order",
	by: "kind", which: func(l *LedgerEntry) string { return l.Kind },
	kinds: []objectKind{
		{"raise", "seq issuer token [at]"},
		{"accept", "seq issuer token effect_key value [at]"},
	},
	members: []member[LedgerEntry]{
		whole("seq", 0, most, "its number: 1, 2, 3 …", func(l *LedgerEntry) *int64 { return &l.Seq }),
		oneOf("kind", "what was decided", "raise accept", func(l *LedgerEntry) *string { return &l.Kind }),
		word("issuer", "the lock that issued the token", func(l *LedgerEntry) *string { return &l.Issuer }),
		whole("token", 0, maxToken, "the token that was shown", func(l *LedgerEntry) *int64 { return &l.Token }),
		text("effect_key", "the effect's idempotency key", func(l *LedgerEntry) *string { return &l.EffectKey }),
		bare(number("value", "what was written", func(l *LedgerEntry) **int64 { return &l.Value })),
		whole("at", 0, maxInstant, "when the sink decided, by its own reading of the clock", func(l *LedgerEntry) *int64 { return &l.At }),
	},
})

var statementObject = newObject(object[Statement]{
	name: "statement", means: "the shape of a database statement",
	shapes: "cql consistency [serial_consistency datacenter]",
	members: []member[Statement]{
		text("cql", "its text", func(s *Statement) *string { return &s.CQL }),
		text("consistency", "its consistency level", func(s *Statement) *string { return &s.Consistency }),
		text("serial_consistency", "that of its condition", func(s *Statement) *string { return &s.SerialConsistency }),
		word("datacenter", "of the node to which the link leads, in a cluster of several data centres", func(s *Statement) *string { return &s.Datacenter }),
	},
})

var agreementObject = newObject(object[Agreement]{
	name: "agreement", means: "in which of several data centres the system is to agree, and how (P13)",
	shapes: "datacenter nodes serial consistency",
	members: []member[Agreement]{
		word("datacenter", "the data centre; no node of another may be asked", func(a *Agreement) *string { return &a.Datacenter }),
		words("nodes", "its nodes, which decide", func(a *Agreement) *[]string { return &a.Nodes }),
		oneOf("serial", "the consistency of conditional statements, and of reads that take part in consensus", "SERIAL LOCAL_SERIAL", func(a *Agreement) *string { return &a.Serial }),
		oneOf("consistency", "the consistency of commits and other reads", "QUORUM LOCAL_QUORUM", func(a *Agreement) *string { return &a.Consistency }),
	},
})

var clockObject = newObject(object[Clock]{
	name: "clock", means: "the state of a worker's clocks from this instant on; nothing: they are right",
	members: []member[Clock]{
		whole("offset_ms", -maxSpan, maxSpan, "by how much the wall clock is wrong", func(c *Clock) *int64 { return &c.OffsetMS }),
		whole("rate_ppm", -999_999, maxRate, "by how much the lease clock runs too fast, in parts per million; negative: too slow", func(c *Clock) *int64 { return &c.RatePPM }),
		boolean("suspended", "the machine sleeps: the lease clock goes on, timers stand still", func(c *Clock) *bool { return &c.Suspended }),
	},
})

var askedObject = newObject(object[Asked]{
	name: "asked", means: "what a worker's link carried to the sink",
	shapes: "op worker sent",
	members: []member[Asked]{
		oneOf("op", "what it was", "raise get effect", func(a *Asked) *Op { return &a.Op }),
		word("worker", "whose link", func(a *Asked) *string { return &a.Worker }),
		whole("sent", 0, maxInstant, "when the first byte of the request had come from the worker", func(a *Asked) *int64 { return &a.Sent }),
	},
})

var hitObject = newObject(object[Hit]{
	name: "hit", means: "a client at a point that a fault waited for, and the request that the point is before",
	shapes: "proc [*]",
	members: []member[Hit]{
		word("proc", "the client", func(h *Hit) *string { return &h.Proc }),
		whole("id", 0, most, "of the operation that it had recorded and not ended", func(h *Hit) *int64 { return &h.ID }),
		whole("go", 0, maxInstant, "when it was let go", func(h *Hit) *int64 { return &h.Go }),
		whole("sent", 0, maxInstant, "when the request first came to a link of its worker", func(h *Hit) *int64 { return &h.Sent }),
	},
})

// lifeRest is what a life may have however it ended.
const lifeRest = "pid overdue took_ms bound_ms log log_file file bytes sha256]"

var lifeObject = newObject(object[ProcessLife]{
	name: "life", means: "how a life of a process ended, or that it was still there when the run was over",
	shapes: "kind name [running " + lifeRest + " or kind name [code " + lifeRest + " or kind name [signal " + lifeRest +
		" or kind name asked by [running " + lifeRest + " or kind name asked by [code " + lifeRest + " or kind name asked by [signal " + lifeRest,
	members: []member[ProcessLife]{
		oneOf("kind", "worker, program: of a user's own, task: one of a user's that ends when it is done, sink, node", "worker program task sink node", func(l *ProcessLife) *string { return &l.Kind }),
		word("name", "the life's: w1.2, sink, n1, seal", func(l *ProcessLife) *string { return &l.Name }),
		whole("pid", 0, most, "its process id; absent: it cannot be seen from the host", func(l *ProcessLife) *int { return &l.PID }),
		text("asked", "the signal by which the harness asked it to end; a process that was found dead when it was to be asked was not", func(l *ProcessLife) *string { return &l.Asked }),
		word("by", "for whom: the id of a fault, or runner", func(l *ProcessLife) *string { return &l.By }),
		text("overdue", "what it had not done in its time, for which it was killed", func(l *ProcessLife) *string { return &l.Overdue }),
		boolean("running", "it was there when the run was over; else it has code or signal, or neither if nobody can tell how it ended", func(l *ProcessLife) *bool { return &l.Running }),
		bare(number("code", "its exit status", func(l *ProcessLife) **int { return &l.Code })),
		text("signal", "what ended it: SIGKILL …", func(l *ProcessLife) *string { return &l.Signal }),
		whole("took_ms", 0, maxSpan, "the time from asking to the end", func(l *ProcessLife) *int64 { return &l.TookMS }),
		whole("bound_ms", 0, maxSpan, "how long that may take; absent: not said", func(l *ProcessLife) *int64 { return &l.BoundMS }),
		lines("log", "if it did not end as planned: what it printed, from the first line that tells of an error, and the last lines", func(l *ProcessLife) *[]string { return &l.Log }),
		text("log_file", "in the logs of the run's directory", func(l *ProcessLife) *string { return &l.LogFile }),
		text("file", "its history file", func(l *ProcessLife) *string { return &l.File }),
		whole("bytes", 0, most, "what was in it when the life had ended; a file that is another is malformed", func(l *ProcessLife) *int64 { return &l.Bytes }),
		text("sha256", "of these bytes", func(l *ProcessLife) *string { return &l.SHA256 }),
	},
})

var successObject = newObject(object[Success]{
	name: "success", means: "an expectation for the releases (or completed jobs) of some workers in a phase, or while a fault is in force",
	shapes: "phase want [workers] or phase want [group] or fault want [workers] or fault want [group]",
	members: []member[Success]{
		word("phase", "the phase, or else", func(s *Success) *string { return &s.Phase }),
		word("fault", "the fault, by name or id: all its windows from inject to heal", func(s *Success) *string { return &s.Fault }),
		words("workers", "which workers, or else", func(s *Success) *[]string { return &s.Workers }),
		oneOf("group", "targets: those at which the fault (of a phase: any fault) is aimed; others: all other workers", "targets others", func(s *Success) *string { return &s.Group }),
		oneOf("want", "how many of their releases must be ok", "some none any", func(s *Success) *string { return &s.Want }),
	},
})

var thresholdObject = newObject(object[Threshold]{
	name: "threshold", means: "a bound on a number of the run",
	shapes: "latency quantile phase max_ms or latency quantile phase times_before or recovery max_ms or lateness max_ms",
	members: []member[Threshold]{
		oneOf("latency", "the operation whose latency is bounded; start: the wait for a job's first run; run: a run of a job", "lock acquire renew release enqueue take tick start run raise get effect", func(t *Threshold) *string { return &t.Latency }),
		oneOf("quantile", "which quantile of it", "p50 p95 p99 max", func(t *Threshold) *string { return &t.Quantile }),
		word("phase", "in which phase", func(t *Threshold) *string { return &t.Phase }),
		oneOf("recovery", "the time from each heal to the first success of any lock or shard, or of each", "first slowest", func(t *Threshold) *string { return &t.Recovery }),
		oneOf("lateness", "a quantile of how late runs started outside of faults", "p50 p99 max", func(t *Threshold) *string { return &t.Lateness }),
		whole("max_ms", 0, maxSpan, "the most that is allowed", func(t *Threshold) *int64 { return &t.MaxMS }),
		real("times_before", 1e9, "the same as a multiple of the quantile in phase before", func(t *Threshold) *float64 { return &t.TimesBefore }),
	},
})

var progressObject = newObject(object[Progress]{
	name: "progress", means: "what must get done while a fault is in force, by those who can reach a quorum then (P11)",
	shapes: "fault longest_gap_ms [*]",
	members: []member[Progress]{
		word("fault", "the fault, by name or id; any: from the first fault to the last", func(p *Progress) *string { return &p.Fault }),
		oneOf("group", "whose successes min_cycles counts: the fault's targets, or all others; absent: everybody's", "targets others", func(p *Progress) *string { return &p.Group }),
		whole("min_cycles", 0, maxSpan, "the least number of successes between inject and heal, over all of the fault's injections", func(p *Progress) *int { return &p.MinCycles }),
		whole("longest_gap_ms", 0, maxSpan, "for how long a lock or shard may be asked for without a success", func(p *Progress) *int64 { return &p.LongestGapMS }),
	},
})

var hostObject = newObject(object[Host]{
	name: "machine", means: "how busy the machine was in the phase that ends, by the harness's own timer: how late it was, weighed by time",
	shapes: "phase lag_p50_ms lag_p99_ms lag_max_ms [*]",
	members: []member[Host]{
		word("phase", "the phase", func(h *Host) *string { return &h.Phase }),
		bare(real("lag_p50_ms", 1e9, "how late a sleep of 10 ms was", func(h *Host) *float64 { return &h.LagP50MS })),
		bare(real("lag_p99_ms", 1e9, "the same; above 500 bounds of time are not judged", func(h *Host) *float64 { return &h.LagP99MS })),
		bare(real("lag_max_ms", 1e9, "the same", func(h *Host) *float64 { return &h.LagMaxMS })),
		real("steal", 1.001, "the part of the processors' time that was stolen", func(h *Host) *float64 { return &h.Steal }),
		boolean("cold", "of the warmup: latencies had not settled when its time was over", func(h *Host) *bool { return &h.Cold }),
	},
})

var expectObject = newObject(object[Expect]{
	name: "expect", means: "what the run must contain to count as a test",
	members: []member[Expect]{
		numbers("min_cycles", "by phase, the least number of releases that are ok, or of jobs completed", func(e *Expect) *map[string]int { return &e.MinCycles }),
		words("faults", "ids of faults that must have been injected and proven", func(e *Expect) *[]string { return &e.Faults }),
		objects("success", "which workers must succeed when", successObject, func(e *Expect) *[]Success { return &e.Success }),
		words("must", "points that must have been reached", func(e *Expect) *[]string { return &e.Must }),
		words("sometimes", "points that need not be reached in every run, but in one of the last 20", func(e *Expect) *[]string { return &e.Sometimes }),
		reasons("exempt", "by property, why nothing of it can be checked in this run; of any other that is promised something must be", func(e *Expect) *map[string]string { return &e.Exempt }),
		boolean("rows_end", "the rows of each shard, or of all jobs with a lock each, end with a rows-end note: without one they were not read", func(e *Expect) *bool { return &e.RowsEnd }),
		whole("workers", 0, maxSpan, "how many workers must have recorded operations", func(e *Expect) *int { return &e.Workers }),
		whole("drain_bound_ms", 0, maxSpan, "for how long the run waited, when nothing was enqueued any more, for its jobs to end", func(e *Expect) *int64 { return &e.DrainBoundMS }),
		whole("recovery_bound_ms", 0, maxSpan, "what P11 allows beyond ttl + ttl/8; absent: 5 s + ttl/2", func(e *Expect) *int64 { return &e.RecoveryBoundMS }),
		objects("progress", "what must get done while faults are in force (P11)", progressObject, func(e *Expect) *[]Progress { return &e.Progress }),
		whole("nodes", 0, maxSpan, "how many nodes the lock store has; absent: 3", func(e *Expect) *int { return &e.Nodes }),
		one("agreement", "of a cluster of several data centres, in which of them the system is to agree", agreementObject, func(e *Expect) **Agreement { return &e.Agreement }),
		objects("thresholds", "bounds on the run's numbers (P15)", thresholdObject, func(e *Expect) *[]Threshold { return &e.Thresholds }),
	},
})
