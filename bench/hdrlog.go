package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports/measure"
)

// HDRLog is the name of the file with the latencies of each window, in µs, tagged by arm: an
// HdrHistogram log, which other programs read too.
const HDRLog = "latencies.hlog"

// WriteHDRLog writes the latencies of each window to dir.
func (r *Result) WriteHDRLog(dir string) error {
	f, err := os.Create(filepath.Join(dir, HDRLog))
	if err != nil {
		return err
	}
	defer f.Close()
	w := hdrhistogram.NewHistogramLogWriter(f)
	begin := r.Started.UnixMilli()
	errs := []error{
		w.OutputLogFormatVersion(), w.OutputComment("[latencies in us; a line a window, tagged by arm]"),
		w.OutputStartTime(begin), w.OutputLegend(),
	}
	w.SetBaseTime(begin)
	for _, s := range r.Samples {
		h := measure.NewHistogram() // the sample's own has no tag
		errs = append(errs, measure.Merge(h, s.Latency))
		h.SetTag(s.Arm)
		h.SetStartTimeMs(s.Started.UnixMilli())
		h.SetEndTimeMs(s.Started.UnixMilli() + int64(1000*s.Seconds))
		errs = append(errs, w.OutputIntervalHistogram(h))
	}
	if err := errors.Join(append(errs, f.Close())...); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}
