package scenario

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/harness/target/workload"
	"fencepost/internal/choice"
)

// Recurring is a schedule, recurring or not, of a job workload. What is not given has the scheduler's
// default.
type Recurring struct {
	Key     string   `yaml:"key"`               // its name, unique in the list
	Kind    string   `yaml:"kind"`              // now, at, cron, fixed_rate or fixed_delay
	At      Instant  `yaml:"at,omitempty"`      // when it fires, or from when on; from the begin of the run, negative: before that
	Until   Instant  `yaml:"until,omitempty"`   // until when it fires, counted likewise
	Every   Duration `yaml:"every,omitempty"`   // the distance of a rate or delay
	Cron    string   `yaml:"cron,omitempty"`    // the expression
	Zone    string   `yaml:"zone,omitempty"`    // and its time zone; default UTC
	Overlap string   `yaml:"overlap,omitempty"` // allow, skip or queue
	Misfire string   `yaml:"misfire,omitempty"` // skip, once or all
	Grace   Duration `yaml:"grace,omitempty"`   // how late is in time
	Window  Duration `yaml:"window,omitempty"`  // how late a time may be and still fires; of misfire all
	Length  Duration `yaml:"length,omitempty"`  // how long each of its jobs takes; default: as the run's other jobs
	Upset   string   `yaml:"upset,omitempty"`   // change, disable, remove or trigger: what one worker does to it, and undoes or repeats
	Pace    Duration `yaml:"pace,omitempty"`    // so often; default 4s
}

// Instant is one of a run, written as its distance from the run's begin: "6s", or "-6s" of one before.
type Instant time.Duration

// UnmarshalYAML reads an instant.
func (i *Instant) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return lineErr(n, "%q is not an instant of the run (such as 6s, or -6s before it)", n.Value)
	}
	*i = Instant(v)
	return nil
}

// MarshalYAML writes it as it is read.
func (i Instant) MarshalYAML() (any, error) { return time.Duration(i).String(), nil }

// Of is the schedule as a worker has it.
func (r Recurring) Of() workload.Recurring {
	return workload.Recurring{
		Key: r.Key, Kind: schedule.Kind(r.Kind), At: time.Duration(r.At), Until: time.Duration(r.Until), Every: r.Every.D(), Cron: r.Cron, Zone: r.Zone, Overlap: schedule.Overlap(r.Overlap),
		Misfire: schedule.Misfire(r.Misfire), Grace: r.Grace.D(), Window: r.Window.D(), Length: r.Length.D(),
		Upset: workload.Upset(r.Upset), Pace: r.Pace.D(),
	}
}

func upsets() (names []string) {
	for _, u := range workload.Upsets {
		names = append(names, string(u))
	}
	return names
}

// scheduleKinds are all.
var scheduleKinds = []string{string(schedule.Now), string(schedule.At), string(schedule.Cron), string(schedule.FixedRate), string(schedule.FixedDelay)}

// checkSchedules checks the list of schedules.
func (j *Jobs) checkSchedules() error {
	seen := map[string]bool{}
	for _, r := range j.Schedules {
		if err := r.check(seen); err != nil {
			return fmt.Errorf("schedules: %q: %w", r.Key, err)
		}
		seen[r.Key] = true
	}
	return nil
}

func (r Recurring) check(seen map[string]bool) error {
	switch {
	case seen[r.Key]:
		return fmt.Errorf("there are two of that key")
	case !slices.Contains(scheduleKinds, r.Kind):
		return choice.Unknown("kind", r.Kind, scheduleKinds...)
	case r.Upset != "" && !slices.Contains(workload.Upsets, workload.Upset(r.Upset)):
		return choice.Unknown("upset", r.Upset, upsets()...)
	case r.Upset == "" && r.Pace != 0:
		return fmt.Errorf("pace %s is of an upset: give it one", r.Pace.D())
	case r.Length < 0:
		return fmt.Errorf("length %s is negative", r.Length.D())
	}
	_, err := schedule.New(r.Of().Definition("q", job.Job{Kind: workload.JobKind}, time.Now().Truncate(time.Millisecond)), 1)
	return err
}
