package cassandra

import (
	"errors"
	"strings"
	"testing"
)

// TestVersions: which programs may use which keyspaces.
func TestVersions(t *testing.T) {
	t.Parallel()
	if known.version() != SchemaVersion {
		t.Errorf("%d upgrades are known, and SchemaVersion is %d", len(known), SchemaVersion)
	}
	own := map[string]string{settingAgreement: "SERIAL"}
	for _, c := range []struct {
		name            string
		known           int // version
		version, oldest string
		refused         bool
	}{
		{"none yet", 1, "", "", false},
		{"the same", 2, "2", "", false},
		{"older", 3, "1", "", false},
		{"newer, and what was added need not be known", 1, "3", "", false},
		{"newer, with a break that is known", 2, "3", "2", false},
		{"newer, with a break", 2, "3", "3", true},
		{"newer, with a break before", 1, "3", "2", true},
		{"being upgraded with a break", 1, "1", "2", true},
		{"no number", 1, "one", "", true},
		{"no number", 1, "2", "two", true},
		{"negative", 1, "-1", "", true},
	} {
		err := make(knowledge, c.known-1).agree("k", map[string]string{settingVersion: c.version, settingOldest: c.oldest}, own)
		var e *VersionError
		if errors.As(err, &e) != c.refused || c.refused && (e.Known != c.known || !strings.Contains(err.Error(), "use a newer program")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var e *AgreementError
	if err := known.agree("k", map[string]string{settingVersion: "1", settingAgreement: "LOCAL_SERIAL in a"}, own); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
}
