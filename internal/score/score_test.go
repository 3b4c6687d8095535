package score

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInterval: where all or none are good, it is z²/(n+z²) wide.
func TestInterval(t *testing.T) {
	t.Parallel()
	for s, want := range map[Share][2]float64{
		{0, 0}:     {0, 1},
		{0, 10}:    {0, 0.2775},
		{10, 10}:   {0.7225, 1},
		{295, 300}: {0.9616, 0.9929},
	} {
		low, high := s.Interval()
		if math.Abs(low-want[0]) > 1e-4 || math.Abs(high-want[1]) > 1e-4 {
			t.Errorf("%v: %.4f to %.4f, want %v", s, low, high, want)
		}
	}
	if text := (Share{295, 300}).Percent(); text != "98.3 % (96.2 to 99.3)" {
		t.Error(text)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scores.jsonl")
	versions, err := Made("abc def")
	if err != nil || versions["fencepost"] != "abc" || versions["tree"] != "def" {
		t.Fatal(versions, err)
	}
	for _, name := range []string{"one", "two"} {
		if err := (Score{Kind: Mutation, Name: name, Share: Share{3, 4}, Versions: versions}).Append(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var s Score
	if err := json.Unmarshal([]byte(lines[1]), &s); err != nil || len(lines) != 3 || s.Name != "two" || s.Good != 3 || s.Of != 4 {
		t.Errorf("%q, %v", text, err)
	}
	if err := (Score{Kind: Mutation, Name: "none", Versions: versions}).Append(file); err == nil {
		t.Error("a score without a trial was kept")
	}
	if _, err := Made("abc"); err == nil {
		t.Error("a commit without a digest was taken")
	}
}
