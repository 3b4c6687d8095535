package compose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fencepost/core/service/metrics"
)

const dashboardFile = "grafana/dashboards/job_scheduler_overview.json"

// dashboard is what is known here of Grafana's format.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type, AllValue string
			Datasource           source
			Query                struct{ Query string }
		}
	}
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds struct{ Steps []struct{ Value *float64 } }
		}
	}
	Targets []struct {
		RefID      string `json:"refId"`
		Expr       string
		Datasource source
	}
}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries are those of a dashboard as Grafana would send them, by panel and letter.
func (d dashboard) queries(interval string) map[string]string {
	out := map[string]string{}
	fill := strings.NewReplacer("$__rate_interval", interval, "$instance", ".*")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			out[p.Title+" "+q.RefID] = fill.Replace(q.Expr)
		}
	}
	return out
}

// units that are used, of Grafana's.
var units = []string{"none", "s", "ops", "reqps", "bytes", "percentunit"}

// problems are what Grafana would trip over, or a person.
func (d dashboard) problems(uid string) (out []string) {
	add := func(p panel, what string) { out = append(out, p.Title+": "+what) }
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		out = append(out, "it has no uid, title or version of its schema")
	}
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] {
			add(p, "its id is not its own")
		}
		if p.Title == "" || titles[p.Title+p.Type] {
			add(p, "its title is not its own")
		}
		ids[p.ID], titles[p.Title+p.Type] = true, true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			add(p, "it is not on the grid")
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					add(p, "it lies over "+other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		switch {
		case p.Type != "stat" && p.Type != "timeseries":
			add(p, "its type "+p.Type+" is not one of those that are known here")
		case p.Description == "":
			add(p, "it does not say what it shows")
		case !slices.Contains(units, p.FieldConfig.Defaults.Unit):
			add(p, "its unit is "+p.FieldConfig.Defaults.Unit)
		case len(p.Targets) == 0:
			add(p, "it asks for nothing")
		case p.Datasource.UID != uid || p.Datasource.Type != "prometheus":
			add(p, "its data source is not the provisioned one")
		}
		if steps := p.FieldConfig.Defaults.Thresholds.Steps; len(steps) == 0 || steps[0].Value != nil {
			add(p, "its thresholds have no base")
		}
		letters := map[string]bool{}
		for _, q := range p.Targets {
			if q.RefID == "" || letters[q.RefID] || strings.TrimSpace(q.Expr) == "" || q.Datasource.UID != uid {
				add(p, "query "+q.RefID+" is not its own, or asks for nothing")
			}
			letters[q.RefID] = true
		}
	}
	return out
}

// provisioned is the uid of the data source.
func provisioned(t *testing.T) string {
	t.Helper()
	var file struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "grafana/provisioning/datasources/prometheus.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Datasources) != 1 || file.Datasources[0].Type != "prometheus" || file.Datasources[0].URL != "http://prometheus:9090" {
		t.Fatalf("%+v", file)
	}
	return file.Datasources[0].UID
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	d, uid := loadDashboard(t), provisioned(t)
	for _, p := range d.problems(uid) {
		t.Error(p)
	}
	if v := d.Templating.List; len(v) != 1 || v[0].Name != "instance" || v[0].AllValue != ".*" || v[0].Datasource.UID != uid {
		t.Errorf("%+v", v)
	}
	if n := len(d.queries("1m")); n < 30 {
		t.Errorf("%d queries: too few to be all", n)
	}
	// Each way to be broken is found.
	for name, spoil := range map[string]func(*dashboard){
		"two ids":       func(d *dashboard) { d.Panels[2].ID = d.Panels[1].ID },
		"two titles":    func(d *dashboard) { d.Panels[2].Title = d.Panels[1].Title },
		"over another":  func(d *dashboard) { d.Panels[2].GridPos = d.Panels[1].GridPos },
		"off the grid":  func(d *dashboard) { d.Panels[2].GridPos.X = 23 },
		"another store": func(d *dashboard) { d.Panels[2].Datasource.UID = "mine" },
		"no unit":       func(d *dashboard) { d.Panels[2].FieldConfig.Defaults.Unit = "seconds" },
		"no query":      func(d *dashboard) { d.Panels[2].Targets = nil },
		"empty query":   func(d *dashboard) { d.Panels[2].Targets[0].Expr = " " },
	} {
		d := loadDashboard(t)
		spoil(&d)
		if len(d.problems(uid)) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

var metricRE = regexp.MustCompile(`\b[a-z_]+_(?:total|seconds_bucket|seconds_count|in_progress|configured|owned|bytes)\b`)

// TestNames: the dashboard and the alerts name metrics that there are.
func TestNames(t *testing.T) {
	t.Parallel()
	families, err := metrics.New(nil).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	// Those whose labels' values only come with requests are not gathered yet.
	known := map[string]bool{"http_requests_total": true, "http_request_duration_seconds_bucket": true}
	for _, f := range families {
		known[f.GetName()] = true
		known[f.GetName()+"_bucket"], known[f.GetName()+"_count"] = true, true
	}
	for name, text := range map[string]string{"the dashboard": read(t, dashboardFile), "the alerts": read(t, "prometheus/alerts.yaml")} {
		found := metricRE.FindAllString(text, -1)
		if len(found) < 8 {
			t.Errorf("%s: %d metrics found: too few to be all", name, len(found))
		}
		for _, metric := range found {
			if !known[metric] {
				t.Errorf("%s asks for %s, which no scheduler has", name, metric)
			}
		}
	}
}

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
