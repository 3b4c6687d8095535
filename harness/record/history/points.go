package history

import "slices"

// derived are the reach points that the checker derives itself from what happened.
var derived = []string{
	"takeover", "stale-refused", "unknown-settled", "lease-lost", "resend", "duplicate", "late-answer",
	"retry", "rescue", "redrive", "hasten", "pause", "dlq", "cancel", "abandon", "sweep", "hand-over", "inbox", "fire", "missed", "follow", "stop", "overlap",
	"order-shipped", "order-rejected", "order-cancelled",
}

// Derived says whether the checker derives a reach point: nobody may note it.
func Derived(point string) bool { return slices.Contains(derived, point) }
