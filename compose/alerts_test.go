package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// promtool runs it in a directory with the shipped files, after a change of the rules.
func promtool(t *testing.T, change func(string) string, args ...string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("NOT TESTED: the alerts, as promtool is missing: scripts/ensure-tools --prometheus")
	}
	dir := t.TempDir()
	for _, name := range []string{"alerts.yaml", "alerts_test.yaml", "prometheus.yaml"} {
		text := read(t, filepath.Join("prometheus", name))
		if name == "alerts.yaml" {
			text = change(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func asShipped(s string) string { return s }

// TestAlerts: Prometheus takes configuration and rules, and the rules fire when they
// should, and not when they should not.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "config", "prometheus.yaml"}, {"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := promtool(t, asShipped, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cases := read(t, "prometheus/alerts_test.yaml")
	for line := range strings.Lines(read(t, "prometheus/alerts.yaml")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
			if strings.Count(cases, "alertname: "+name+",") == 0 || strings.Count(cases, "alertname: "+name+"\n") == 0 {
				t.Errorf("%s has no case in which it fires, or none in which it does not", name)
			}
		}
	}
}

// TestBrokenAlerts: the cases find a rule that is wrong.
func TestBrokenAlerts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"down":     {`up{job="schedulerd"} == 0`, `up{job="schedulerd"} == 1`},
		"none up":  {`or vector(0)`, ``},
		"shards":   {`sum(shards_owned) > 0`, `sum(shards_owned) > 4`},
		"late":     {`(job_lateness_seconds_bucket[5m]))) > 4`, `(job_lateness_seconds_bucket[5m]))) > 8`},
		"missed":   {`increase(schedule_missed_total[10m])`, `increase(schedule_skipped_total[10m])`},
		"letters":  {`increase(jobs_dlq_total[10m])) > 0`, `increase(jobs_dlq_total[10m])) > 5`},
		"renewals": {`> 0.05`, `> 0.2`},
		"database": {`(lwt_latency_seconds_bucket[5m]))) > 0.5`, `(lwt_latency_seconds_bucket[5m]))) > 1`},
		"at once":  {`for: 2m`, `for: 0m`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := promtool(t, func(s string) string {
				if !strings.Contains(s, change[0]) {
					t.Fatalf("%q is not in the rules", change[0])
				}
				return strings.ReplaceAll(s, change[0], change[1])
			}, "test", "rules", "alerts_test.yaml")
			if err == nil {
				t.Error("the cases pass")
			}
		})
	}
}
