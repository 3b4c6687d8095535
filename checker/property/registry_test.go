package property

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/internal/docpage"
)

// TestPropertiesPageIsCurrent: the page's table is what the properties' rows say.
func TestPropertiesPageIsCurrent(t *testing.T) {
	docpage.Check(t, "properties.md", "properties", table())
}

func table() string {
	var b strings.Builder
	b.WriteString("| id | property | judged by | in runs with | before the end |\n|---|---|---|---|---|\n")
	for _, c := range All {
		live := "–"
		if c.soFar != nil {
			live = cmp.Or(c.part, "yes")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.ID, c.title, c.by, cmp.Or(c.Of, "anything"), live)
	}
	return b.String()
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
