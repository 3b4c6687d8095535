package cassandra

import "testing"

// TestReleasesThatForgetTimeouts: by what nodes say that they are, with the neighbours of each
// release that has the fix.
func TestReleasesThatForgetTimeouts(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"2.1.22": false, "2.2.19": false,
		"3.0.23": false, "3.0.24": true, "3.0.31": true,
		"3.10": false, "3.9": false, "3.5.1": false,
		"3.11.1": false, "3.11.9": false, "3.11.10": true, "3.11.19": true,
		"4.0-alpha4": false, "4.0-beta3": false, "4.0-beta4": true, "4.0-rc1": true, "4.0.0": true, "4.0": true, "4.0.19": true,
		"4.1.10": true, "4.1-alpha1": true, "5.0.6": true, "5.0-beta1": true, "6.0-alpha2": true,
		"3.11.9-SNAPSHOT": false, "3.11.10-SNAPSHOT": true, "4.0.11.6837": true, "3.11.9.1": false, "4.0.0.6816": true,
		"10.1.2": true,
		"":       true, "unknown": true,
	} {
		if got := linearizable(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
