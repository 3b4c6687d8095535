package compose

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "docker-compose.yaml"

// loadCompose reads a compose file as docker compose does.
func loadCompose(t *testing.T, text string) (*types.Project, error) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: dir, Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, composeFile), Content: []byte(text)}},
	}, func(o *loader.Options) { o.SetProjectName("test", true) })
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCompose: the file is one that docker compose takes, and what it starts waits for
// what it needs, says when it is well, and is reached from this machine only.
func TestCompose(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, read(t, composeFile))
	if err != nil {
		t.Fatal(err)
	}
	settings := read(t, "../docs/settings.md")
	pinned := regexp.MustCompile(`:v?\d+(\.\d+)+$`)
	schedulers := map[string]bool{}
	for name, s := range project.Services {
		once := name == "schema"
		switch {
		case once != (s.HealthCheck == nil || s.HealthCheck.Disable):
			t.Errorf("%s: health checks are for what goes on, all of it", name)
		case s.Build == nil && !pinned.MatchString(s.Image):
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to everybody", name, p.Published)
			}
		}
		for need, how := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if need == "schema" {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if how.Condition != want {
				t.Errorf("%s waits for %s to be %s, want %s", name, need, how.Condition, want)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: %s: %v, read only: %v", name, v.Source, err, v.ReadOnly)
			}
		}
		if s.Image != "fencepost-schedulerd" {
			continue
		}
		for variable := range s.Environment {
			if !strings.Contains(settings, "| `"+variable+"` |") {
				t.Errorf("%s: %s is no setting of schedulerd (docs/settings.md)", name, variable)
			}
		}
		if s.Build == nil {
			t.Errorf("%s is not built", name)
		} else if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !once {
			schedulers[*s.Environment["WORKER_NAME"]] = true
			targets := read(t, "prometheus/prometheus.yaml")
			if !strings.Contains(targets, `"`+name+`:8080"`) {
				t.Errorf("Prometheus does not scrape %s", name)
			}
		}
	}
	cassandras := 0
	for name := range project.Services {
		if strings.HasPrefix(name, "cassandra-") {
			cassandras++
		}
	}
	if len(schedulers) != 3 || cassandras != 3 {
		t.Errorf("%d schedulers with a name of their own and %d nodes, want 3 and 3", len(schedulers), cassandras)
	}
	for _, name := range []string{"postgres", "prometheus", "grafana"} {
		if _, ok := project.Services[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestBrokenCompose: the validator finds what is wrong.
func TestBrokenCompose(t *testing.T) {
	t.Parallel()
	good := read(t, composeFile)
	for name, change := range map[string][2]string{
		"an unknown key":           {"    stop_grace_period: 2m", "    stop_gracefully: 2m"},
		"an unknown condition":     {"condition: service_completed_successfully", "condition: service_done"},
		"an unknown service":       {"      prometheus:\n        condition", "      promotheus:\n        condition"},
		"an unknown network":       {"networks: [stack]", "networks: [stck]"},
		"an unknown volume":        {`["postgres:/var`, `["postgers:/var`},
		"a circle":                 {"  cassandra-1:\n    <<: *cassandra\n", "  cassandra-1:\n    <<: *cassandra\n    depends_on: [cassandra-3]\n"},
		"a port that is none":      {"127.0.0.1:8080:8080", "127.0.0.1:80800:8080"},
		"an interval that is none": {"interval: 10s", "interval: soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := strings.TrimPrefix(change[0], "    ")
			if !strings.Contains(good, old) {
				t.Fatalf("%q is not in the file", old)
			}
			if _, err := loadCompose(t, strings.Replace(good, old, strings.TrimPrefix(change[1], "    "), 1)); err == nil {
				t.Error("it is taken")
			}
		})
	}
}
