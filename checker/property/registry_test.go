package property

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

var update = flag.Bool("update", false, "write the table of docs/properties.md")

const page = "../../docs/properties.md"

// TestPropertiesPageIsCurrent: the page's table is what the properties' rows say.
func TestPropertiesPageIsCurrent(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	have := string(b)
	begin, end := "<!-- properties: written by make docs from checker/property/p*.go -->\n", "<!-- /properties -->"
	before, rest, ok := strings.Cut(have, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place between %q and %q", page, begin, end)
	}
	switch want := before + begin + table() + end + after; {
	case have == want:
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the properties' rows say: make docs", page)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| id | property | judged by | in runs with | before the end |\n|---|---|---|---|---|\n")
	for _, c := range All {
		live := "–"
		if c.soFar != nil {
			live = cmp.Or(c.part, "yes")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.ID, c.title, c.by, cmp.Or(c.Of, "anything"), live)
	}
	return b.String() + "\n"
}

// TestRowsAreComplete: every property can be judged, told of and explained.
func TestRowsAreComplete(t *testing.T) {
	t.Parallel()
	for i, c := range All {
		if c.ID != fmt.Sprintf("P%d", i+1) || c.title == "" || c.by == "" || c.run == nil || len(c.rules) == 0 || len(c.mechanisms) == 0 {
			t.Errorf("%s: %+v", c.ID, c)
		}
		// What no system promises, none can; that of the run itself was promised once.
		if can := slices.Contains(history.Promisable, c.ID); can == c.always && c.ID != Validity {
			t.Errorf("%s: history.Promisable has it: %t", c.ID, can)
		}
	}
	for _, id := range inquiryOrder {
		if !slices.ContainsFunc(All, func(c Check) bool { return c.ID == id }) {
			t.Errorf("inquired: there is no property %s", id)
		}
	}
}
