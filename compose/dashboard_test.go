package compose

import (
	"encoding/json"
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
