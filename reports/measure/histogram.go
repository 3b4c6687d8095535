package measure

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of every histogram, in µs: 1 µs to 1 h with three significant digits.
// They must be the same everywhere: a merge into narrower bounds drops counts.
const (
	lowestUS  = 1
	highestUS = int64(time.Hour / time.Microsecond)
	digits    = 3
)

// NewHistogram returns an empty histogram of latencies in µs.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowestUS, highestUS, digits) }

// Record records d, rounded up to whole µs and at least 1. A latency beyond the
// bounds is an error and is not recorded.
func Record(h *hdrhistogram.Histogram, d time.Duration) error {
	us := max(int64((d+time.Microsecond-1)/time.Microsecond), lowestUS)
	if err := h.RecordValue(us); err != nil {
		return fmt.Errorf("latency %s is beyond what can be recorded (1 µs to 1 h): %w", d, err)
	}
	return nil
}

// Merge adds from to into. An error says that counts would have been lost, which
// happens only between histograms of different bounds.
func Merge(into, from *hdrhistogram.Histogram) error {
	if dropped := into.Merge(from); dropped != 0 {
		return fmt.Errorf("%d latencies lost in a merge: the histograms have different bounds", dropped)
	}
	return nil
}

// Quantile returns the latency at percent (99 is p99), 0 for an empty histogram.
func Quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	if h == nil || h.TotalCount() == 0 {
		return 0
	}
	return time.Duration(h.ValueAtQuantile(percent)) * time.Microsecond
}
