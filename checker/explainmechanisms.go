package checker

import (
	"maps"
	"slices"
)

// mechanism is a mistake that systems have, or harnesses, or runs.
type mechanism struct {
	statement string   // names it in a sentence
	accounts  []string // the properties that it can violate
	apart     string   // what would rule it out, among its alternatives
}

// Mechanisms are the ids of all mechanisms that can be named.
func Mechanisms() []string { return slices.Sorted(maps.Keys(mechanisms)) }

// ofTheRecord are those of the record and the run, not of the system.
var ofTheRecord = []string{
	"calls-missing", "calls-dated-late", "unknown-recorded-as-failed", "record-cut-off", "worker-missing", "point-not-kept", "links-not-cut", "process-undisturbed",
	"fault-never-came", "fault-did-not-bite", "too-little-work", "point-not-reached", "end-not-read", "no-expectation",
	"threshold-exceeded", "threshold-not-measured", "check-unfinished", "host-too-busy",
}

// What the mechanisms of locks' rows, of effects and of jobs can violate.
var (
	ofRows    = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P11"}
	ofTexts   = append([]string{"P13"}, ofRows...)
	ofEffects = []string{"P3", "P4", "P10"}
	ofJobs    = []string{"P2", "P4", "P5", "P6"}
	ofLeases  = []string{"P3", "P4", "P7", "P8", "P9"}
	ofLives   = []string{"P18"}
)

var mechanisms = map[string]mechanism{
	// Statements.
	"unconditional-takeover": {"a takeover writes the row without a condition: whoever took it meanwhile is overwritten", ofTexts, "a takeover that is rejected would rule it out"},
	"unconditional-renewal":  {"a renewal writes the row without asking whose it is: it revives a lease that has passed on", ofTexts, "a renewal of a lapsed lease that is rejected would rule it out"},
	"unconditional-release":  {"a release writes the row without a condition: it overwrites whoever has it by then", ofTexts, "a release of a lost lease that is rejected would rule it out"},
	"unconditional-tick":     {"an owner's batch writes the shard's header without a condition: a late one overwrites the next owner's", ofTexts, ""},
	"write-beside-the-tick":  {"rows of jobs are written outside of their owner's conditional batch", ofTexts, ""},
	"unconditional-write":    {"a fenced table is written without a condition", ofTexts, ""},
	"ledger-emptied":         {"a resource of the sink was emptied while it was in use: what it had seen and accepted is forgotten", []string{"P3", "P4", "P6", "P10", "P13"}, ""},
	"rows-expire":            {"rows that carry fencing tokens expire: the counter begins again at 1", ofTexts, ""},
	"row-deleted":            {"rows that carry fencing tokens are deleted: the counter begins again at 1", ofRows, ""},
	"client-timestamps":      {"fenced rows are written with a client's timestamps: the later write can lose", ofTexts, ""},
	"weak-read":              {"fenced rows are read from too few replicas: what was decided may be missed", []string{"P13"}, ""},
	"mixed-serial":           {"one table is used at SERIAL and at LOCAL_SERIAL: two groups decide that do not see each other", []string{"P13"}, ""},
	"weak-condition":         {"a conditional statement is decided or committed at too weak a consistency", []string{"P13"}, ""},
	"statement-unfit":        {"a statement scans the table or cannot be understood", []string{"P13"}, ""},
	"remote-coordinator":     {"rows are asked for through a node of another data centre than the one in which all processes are to agree: what is decided there this one does not see", ofTexts, ""},
	"other-agreement":        {"a statement is decided or read by another quorum than the one by which all processes are to agree", ofTexts, ""},
	"statement-misstated":    {"a worker records its statements at other consistencies than it sends them", []string{"P13"}, ""},
	// Tokens.
	"tokens-from-blocks":     {"fencing tokens are not the row's: each process hands out a block of ids of its own", []string{"P1", "P4", "P6", "P10"}, ""},
	"tokens-from-wall-clock": {"fencing tokens are not the row's but readings of a wall clock", []string{"P1", "P4", "P6", "P10"}, ""},
	"tokens-not-from-row":    {"fencing tokens are handed out that the lock's row does not carry", []string{"P1", "P4", "P6", "P10"}, ""},
	"release-resets-counter": {"a release sets the row's token counter back", ofRows, ""},
	"grant-keeps-token":      {"a grant does not raise the row's token", ofRows, ""},
	// Who writes the row.
	"takeover-ignores-renewals": {"a takeover names a version that was renewed since: it does not look whether the lease is alive", ofRows, ""},
	"release-without-owner":     {"a release frees the row whoever holds it", ofRows, "a release of a lost lease that is rejected would rule it out"},
	"renewal-changes-more":      {"a renewal changes more than the beat", ofRows, ""},
	"foreign-writer":            {"a row is renewed or released by somebody who does not hold it", []string{"P9"}, ""},
	// Answers and their absence.
	"unknown-granted":         {"an acquire that was not answered counts as granted", []string{"P1", "P2", "P3", "P4", "P6", "P8"}, "a grant that nobody made and that was answered at once would rule it out"},
	"refusal-granted":         {"an acquire that was refused counts as granted: the answer is not looked at", []string{"P1", "P2", "P3", "P4", "P6", "P8"}, "a grant that nobody made and whose answer was overdue would rule it out"},
	"unknown-refused":         {"an acquire that was not answered counts as refused: its grant is left behind", []string{"P2", "P6", "P11"}, "another kind of operation that failed and took effect would rule it out"},
	"resend-misread":          {"a refusal of a resent request is taken for one of the first copy, which may have been applied", []string{"P2", "P5", "P6"}, ""},
	"batch-taken-for-lost":    {"a batch that was not answered counts as not done: what it did is done again or forgotten", []string{"P2", "P5", "P6"}, ""},
	"request-executed-again":  {"a request is executed again when its answer is late, and the second answer is taken for the first", []string{"P2", "P6", "P5"}, ""},
	"late-copy-done-again":    {"a late copy of a batch is done again: its condition does not name the version that it replaces", ofRows, ""},
	"given-up-write-surfaces": {"a write that its coordinator gave up took effect later, after reads that did not show it", []string{"P2"}, ""},
	// Taking over.
	"expiry-by-wall-clock":     {"a lease's expiry, written by one wall clock, is compared with another", []string{"P4", "P7", "P8"}, ""},
	"takeover-without-waiting": {"a lease is taken over before it has stood still for its ttl", []string{"P4", "P7", "P8"}, ""},
	"silent-owner-is-dead":     {"a shard is taken from an owner whose heartbeats are not seen, though it ticks", []string{"P4", "P7", "P8"}, ""},
	"given-away-with-runs":     {"a shard is given away while its owner's runs are at work", []string{"P4", "P7", "P8"}, ""},
	"no-takeover":              {"nobody takes over what a dead or silent holder leaves, or much too late", []string{"P5", "P11"}, ""},
	// Leases.
	"lease-by-wall-clock":       {"a holder measures its lease by the wall clock, which was set", ofLeases, "a decision beyond what the wall clock allowed would rule it out"},
	"lease-by-awake-clock":      {"a holder measures its lease by a clock that stands still while the machine sleeps", ofLeases, "a decision later than the sleep explains would rule it out"},
	"lease-counted-from-answer": {"a holder counts its lease from the answer of a resent request, not from its first send", ofLeases, "a decision later than answer + ttl - margin would rule it out"},
	"lapsed-lease-revived":      {"a renewal that was answered after the deadline revives the lease", ofLeases, "a decision later than that renewal's first send + ttl - margin would rule it out"},
	"keep-alive-died":           {"renewing ended silently, though the store could be reached, and the holder went on", ofLeases, "renewals that are still sent would rule it out"},
	"loss-ignored":              {"a holder goes on after its lease is lost", ofLeases, "a loss that nobody notes would rule it out"},
	"released-before-done":      {"the lock is released when the work has begun, not when it is done", ofLeases, ""},
	// The sink.
	"sink-checks-no-token":       {"the sink accepted an effect with a token lower than one it had seen: it does not compare tokens", ofEffects, "any effect that is refused as stale would rule it out"},
	"sink-checks-what-was-read":  {"the sink accepted an effect with a token lower than one it had seen: it compares with what the holder's process had read before", ofEffects, "one that is accepted after its own process had read a higher token would rule it out"},
	"sink-remembers-per-process": {"the sink accepted an effect with a token lower than one it had seen: each process knows only the tokens that it sent itself", ofEffects, "one that is accepted after its own process had sent a higher token would rule it out"},
	"sink-forgets-tokens":        {"the sink accepts a token lower than one it has seen, now and then", ofEffects, ""},
	"sink-refuses-equal":         {"the sink refuses a token that is equal to the highest seen: a holder is refused its own write", ofEffects, ""},
	"sink-refuses-wrongly":       {"the sink refuses with a reason that its ledger does not show", ofEffects, ""},
	"ledger-forged":              {"the sink's ledger shows another token than the one that came with an effect", ofEffects, ""},
	"answer-made-up":             {"a worker records an answer of the sink that the sink never gave it", []string{"P4", "P10", "P14"}, ""},
	"raise-not-done":             {"a holder reads what it acts on before the sink knows its token: the one before can still write", ofEffects, ""},
	"acknowledged-before-done":   {"an effect is acknowledged before it is done, and lost with its process", []string{"P4"}, ""},
	"resend-is-another-effect":   {"a request that is sent again is another effect: its idempotency key does not cover resends", []string{"P4"}, ""},
	"effects-without-key":        {"effects carry no idempotency key: what an earlier run did is done again", []string{"P4"}, "a repetition that is answered as a duplicate would rule it out"},
	"key-of-the-attempt":         {"the idempotency key contains the attempt: what an earlier one did is done again", []string{"P4"}, "an effect that is applied twice under one token would rule it out"},
	// Jobs.
	"attempts-in-memory":       {"attempts are counted in an owner's memory: the next one begins again", ofJobs, ""},
	"claim-leaves-row":         {"a claim leaves the job's pending row, and the job is claimed again", ofJobs, ""},
	"dlq-move-lost":            {"a job that moves to the dead letter queue leaves its old place and does not come to the new one", ofJobs, ""},
	"rows-differ":              {"rows of jobs are not what the batches that took effect made of them", ofJobs, ""},
	"rescue-left-out":          {"a takeover leaves runs of the owner before alone: their jobs stay running for ever", []string{"P5"}, ""},
	"schedule-ahead-of-job":    {"a schedule is marked as fired, and the job of that nominal time is not in its shard: one batch does not do both", append([]string{"P12"}, ofJobs...), ""},
	"schedule-counted-anew":    {"whoever takes a shard over counts the times of its schedules from then on: those that came before are forgotten", []string{"P12"}, ""},
	"end-ahead-of-next":        {"a job of a sequence has ended, and the one that follows it is not in its shard: one batch does not do both", ofJobs, ""},
	"row-behind-the-mark":      {"a job's row lies behind the mark from which its owner reads on: it is never seen", []string{"P5"}, ""},
	"cut-runs-counted":         {"runs that were cut short or never began count as attempts: a job is given up before it has failed as often as it may", []string{"P5"}, ""},
	"row-not-read":             {"an owner cannot read the row of a job that another has written, and gives the job up", []string{"P5"}, ""},
	"job-never-ends":           {"a job that was acknowledged does not come to an end", []string{"P5"}, ""},
	"forgotten-too-early":      {"a job's id is forgotten before its time: an enqueue that comes again runs it again", ofJobs, ""},
	"completed-before-finish":  {"a job is completed before its run has finished", ofJobs, ""},
	"tried-too-often":          {"a job is tried more often than it may be", ofJobs, ""},
	"acknowledged-and-lost":    {"an enqueue is acknowledged before the job is where it must be", ofJobs, ""},
	"run-not-settled":          {"a run starts before its claim is known to have taken effect", ofJobs, ""},
	"step-left-out":            {"a job is completed without one of its effects", ofJobs, ""},
	"fires-by-a-fast-clock":    {"jobs fire by a clock that runs ahead of their worker's own", []string{"P12"}, ""},
	"issuer-of-another-shard":  {"effects name another shard as the issuer of their tokens than their job's", []string{"P3", "P4", "P5", "P6", "P10"}, ""},
	"one-token-for-all-shards": {"effects carry the highest run id of their process, of whatever shard", []string{"P3", "P4", "P6", "P10"}, ""},
	// Orders.
	"paid-before-the-fence": {"an order is paid before the fence is asked, not with it: a run that was fenced off has taken the money", []string{"P16", "P17"}, "a payment by a run that the fence let pass would rule it out"},
	"paid-by-run":           {"the idempotency key of a payment is the run's, not the order's: what an earlier run has paid is paid again", []string{"P4", "P16"}, "two payments under one key would rule it out"},
	"stock-overwritten":     {"stock is written as computed from what was read, though another has changed it since: its sale is lost", []string{"P17"}, "a write that is refused as the stock has moved would rule it out"},
	// Processes.
	"process-panics":           {"a process panics while it works: an error that nobody handles ends it", ofLives, ""},
	"process-panics-ending":    {"a process panics while it ends: an error that nobody handles cuts off what it has to bring to an end", ofLives, ""},
	"process-exits":            {"a process ends with an error, or though nobody asked it to", ofLives, ""},
	"process-never-ends":       {"a process that is asked to end does not: it hangs", ofLives, ""},
	"process-never-ready":      {"a process is started and does not become ready: it hangs", ofLives, ""},
	"process-killed-elsewhere": {"a process is ended by a signal that this harness has not sent", ofLives, ""},
	// Progress.
	"waits-for-one-node":  {"requests go to one node and wait for it, though others could be asked", []string{"P11"}, ""},
	"work-stops-in-fault": {"nothing is asked of the database while a part of it is away, though a quorum is there", []string{"P11"}, ""},
	"claims-stop":         {"owners go on to tick and claim nothing, though jobs are due", []string{"P5", "P11"}, ""},
	// The record and the run.
	"host-too-busy":              {"the machine was too busy for times to say anything about the system", []string{"P11", "P15"}, ""},
	"calls-missing":              {"recorded calls are missing: the recorder loses operations", []string{"P2", "P4", "P6", "P14"}, ""},
	"calls-dated-late":           {"calls are dated after their requests had left: the recorder writes them down too late", []string{"P2", "P14"}, ""},
	"unknown-recorded-as-failed": {"the recorder writes down unknown outcomes as failures", []string{"P2", "P4", "P5", "P6"}, "an operation that is recorded as unknown would rule it out"},
	"record-cut-off":             {"the record of a process ends before the process did", []string{"P14"}, ""},
	"point-not-kept":             {"a client says that it stands before a request which has left already, or which it never sends", []string{"P14"}, ""},
	"worker-missing":             {"a worker that the scenario has never took part", []string{"P14"}, ""},
	"links-not-cut":              {"links were reported as disturbed and never were", []string{"P14"}, ""},
	"process-undisturbed":        {"a process was reported as killed or stopped and went on working", []string{"P14"}, ""},
	"fault-never-came":           {"a fault of the plan was never injected: what should set it off did not happen", []string{"P14"}, ""},
	"fault-did-not-bite":         {"a fault was injected and is not proven to have bitten", []string{"P14"}, ""},
	"too-little-work":            {"too little succeeded, or what must not have succeeded did", []string{"P14"}, ""},
	"point-not-reached":          {"the run did not reach what it was made for", []string{"P14"}, ""},
	"end-not-read":               {"locks, shards or the sink were not sealed and read after the run, so its unknown outcomes stay open", []string{"P14"}, ""},
	"no-expectation":             {"nothing says what the run must contain to count as a test", []string{"P14"}, ""},
	"threshold-exceeded":         {"the run is beyond a threshold of its scenario", []string{"P15"}, ""},
	"threshold-not-measured":     {"a threshold of the scenario could not be measured", []string{"P15"}, ""},
	"check-unfinished":           {"a check did not finish: what it had to find is not known", []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P15"}, ""},
}
