package broken

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/workload"
)

var variants = map[string]workload.Hooks{
	"sink-no-token-check":   {Sink: sinkNoTokenCheck},
	"hilo-tokens":           {Locker: hiloTokens},
	"takeover-plain-write":  {Locks: takeoverPlainWrite},
	"renew-failure-ignored": {Locker: renewFailureIgnored},
	"recorder-drops":        {Recorder: recorderDrops},
}

// Worker returns the hooks of a variant by its name without "broken/".
func Worker(name string) (workload.Hooks, error) {
	if name == "trust-from-answer" {
		t := newAnswerTrust() // its two hooks share state
		return workload.Hooks{Observer: t.observer, Locker: t.locker}, nil
	}
	if h, ok := variants[name]; ok {
		return h, nil
	}
	names := []string{"trust-from-answer"}
	for n := range variants {
		names = append(names, n)
	}
	slices.Sort(names)
	return workload.Hooks{}, fmt.Errorf("unknown variant %q; there are: %s", name, strings.Join(names, ", "))
}
