package boltsink

import (
	"os"
	"path/filepath"
	"testing"

	"fencepost/core/sink/sinktest"
)

// TestGrowth: effects on resources that nobody will use again leave nothing behind. The file
// is as large as what was in it at once.
func TestGrowth(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sink.db")
	s := open(t, path)
	s.db.NoSync = true // of the disk's time
	sinktest.Grow(t.Context(), t, s, growth)
	all, err := s.Resources()
	if err != nil || len(all) != sinktest.GrowthLeft {
		t.Errorf("%d resources are left, %v; want %d", len(all), err, sinktest.GrowthLeft)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stats := s.db.Stats()
	t.Logf("of %d effects: %d resources, a file of %d kB, %d kB of it free", growth, len(all), file.Size()>>10, stats.FreeAlloc>>10)
	const most = 16 << 20
	if file.Size() > most {
		t.Errorf("the file has %d bytes after %d effects: more than %d", file.Size(), growth, most)
	}
}
