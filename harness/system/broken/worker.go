package broken

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/core/lock"
	"fencepost/harness/workload"
)

// variants make the hooks of a process; those of one variant may share state.
var variants = map[string]func() workload.Hooks{
	// Tokens.
	"hilo-tokens": only(workload.Hooks{Locker: hiloTokens}),
	"token-reset": locksHook(lock.Release, tokenReset),
	"wall-tokens": only(workload.Hooks{Locker: wallTokens}),
	"row-ttl":     locksHook(0, rowTTL),
	// Taking over, renewing, releasing.
	"takeover-plain-write":  only(workload.Hooks{Locks: takeoverPlainWrite}),
	"takeover-ignores-beat": only(workload.Hooks{Locks: takeoverIgnoresBeat}),
	"takeover-never":        only(workload.Hooks{Locks: takeoverNever}),
	"wall-expiry":           wallExpiry,
	"renew-unconditioned":   renewUnconditioned,
	"release-anyone":        locksHook(lock.Release, releaseAnyone),
	"release-plain-write":   locksHook(lock.Release, releasePlainWrite),
	// What the holder believes.
	"renew-failure-ignored": only(workload.Hooks{Locker: renewFailureIgnored}),
	"heartbeat-dies":        heartbeatDies,
	"trust-from-answer":     trustFromAnswer,
	"wall-deadline":         only(workload.Hooks{Clock: wallDeadline}),
	"awake-deadline":        only(workload.Hooks{Clock: awakeDeadline}),
	"early-release":         only(workload.Hooks{Locker: earlyRelease}),
	// Answers and their absence.
	"unknown-acquire-ok":    locksHook(lock.Acquire, unknownAcquireOK),
	"unknown-acquire-fails": locksHook(lock.Acquire, unknownAcquireFails),
	"driver-reexecutes":     locksHook(0, driverReexecutes),
	"applied-ignored":       locksHook(lock.Acquire, appliedIgnored),
	// Statements.
	"read-at-one":        func() workload.Hooks { return readAtOne("ONE") },
	"read-at-one-unsaid": func() workload.Hooks { return readAtOne("QUORUM") },
	"local-serial":       localSerial,
	"remote-coordinator": remoteCoordinator,
	// Progress.
	"pins-coordinator":        pinsCoordinator,
	"stops-when-node-away":    stopsWhenNodeAway,
	"jobs-no-claims-in-fault": noClaimsInFault,
	// The sink.
	"sink-no-token-check":   only(workload.Hooks{Sink: sinkNoTokenCheck}),
	"sink-refuses-equal":    only(workload.Hooks{Sink: sinkRefusesEqual}),
	"sink-check-then-write": only(workload.Hooks{Sink: sinkCheckThenWrite}),
	"sink-token-in-memory":  only(workload.Hooks{Sink: sinkTokenInMemory}),
	"effect-key-per-send":   only(workload.Hooks{Sink: keyPerSend}),
	"no-raise":              noRaise,
	// Batches of shards.
	"jobs-tick-blind":       shardsHook(tickBlind),
	"jobs-unknown-means-no": shardsHook(unknownMeansNo),
	"jobs-plain-header":     only(workload.Hooks{Shards: plainHeader}),
	"jobs-complete-outside": only(workload.Hooks{Handler: completeOutside}),
	"jobs-early-hand-over":  shardsHook(earlyHandOver),
	"jobs-silent-is-dead":   only(workload.Hooks{Shards: silentIsDeadOn}),
	// Rows of jobs.
	"jobs-rescue-dead-only":  shardsHook(rescueDeadOnly),
	"jobs-dlq-lost":          shardsHook(dlqLost),
	"jobs-retries-in-memory": shardsHook(retriesInMemory),
	"jobs-claimed-twice":     shardsHook(claimedTwice),
	"jobs-format-unsaid":     shardsHook(formatUnsaid),
	"jobs-behind-the-mark":   shardsHook(behindTheMark),
	"jobs-swept-early":       only(workload.Hooks{Engine: sweptEarly}),
	"jobs-early-bird":        only(workload.Hooks{Engine: earlyBird}),
	// Schedules.
	"jobs-mark-first":        shardsHook(markFirst),
	"jobs-counts-from-start": shardsHook(countsFromStart),
	"jobs-clock-read-once":   only(workload.Hooks{Engine: clockReadOnce}),
	"jobs-awake-deadline":    only(workload.Hooks{Clock: awakeDeadline}),
	"jobs-follow-later":      shardsHook(followLater),
	// Effects of jobs.
	"jobs-ack-before-effect": only(workload.Hooks{Sink: ackBeforeEffect}),
	"jobs-effect-no-key":     only(workload.Hooks{Sink: effectNoKey}),
	"jobs-key-with-attempt":  only(workload.Hooks{Sink: keyWithAttempt}),
	"jobs-wrong-issuer":      only(workload.Hooks{Tasks: wrongIssuer}),
	"jobs-one-issuer":        only(workload.Hooks{Tasks: oneIssuer}),
	// Orders.
	"orders-pay-before-fence":  only(workload.Hooks{Shop: payBeforeFence}),
	"orders-pay-by-run":        only(workload.Hooks{Shop: payByRun}),
	"orders-stock-unversioned": only(workload.Hooks{Shop: stockUnversioned}),
	// Processes.
	"dies-steady":   only(workload.Hooks{Locker: diesSteady}),
	"dies-draining": only(workload.Hooks{Locker: diesDraining}),
	"exits-1":       only(workload.Hooks{Locker: exitsOne}),
	"never-ends":    only(workload.Hooks{Locker: neverEnds}),
	// The harness itself.
	"recorder-drops":        only(workload.Hooks{Recorder: recorderDrops}),
	"recorder-late-calls":   only(workload.Hooks{Recorder: lateCalls}),
	"recorder-unknown-fail": only(workload.Hooks{Recorder: unknownAsFail}),
	"harness-ledger-reset":  only(workload.Hooks{Sink: ledgerReset}),
}

// only is hooks without shared state.
func only(h workload.Hooks) func() workload.Hooks { return func() workload.Hooks { return h } }

// Names lists the variants of the worker.
func Names() []string { return slices.Sorted(maps.Keys(variants)) }

// Worker returns the hooks of a variant by its name without "broken/".
func Worker(name string) (workload.Hooks, error) {
	if h, ok := variants[name]; ok {
		return h(), nil
	}
	return workload.Hooks{}, fmt.Errorf("unknown variant %q; there are: %s", name, strings.Join(Names(), ", "))
}
