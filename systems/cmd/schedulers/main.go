// Command schedulers is job schedulers, driven through their own libraries as fencepost's contract for
// programs wants it:
//
//	schedulers NAME
//	schedulers look NAME    whether its library is here, if that is another language's
//
// Each is what its library's documentation shows.
package main

import (
	"fmt"
	"os"
	"strings"

	"fencepost/systems/drive"
)

// maxAttempts is above what a job of a run is tried.
const maxAttempts = 1000

var schedulers = map[string]drive.Scheduler{
	"asynq":                {Open: openAsynq},
	"asynq-fenced":         {Open: openAsynq, Fenced: true},
	"gocron":               {Open: openGocron(false)},
	"gocron-by-time":       {Open: openGocron(true)},
	"bullmq":               {Open: through(bullmq)},
	"bullmq-fenced":        {Open: through(bullmq), Fenced: true},
	"celery":               {Open: through(celery)},
	"db-scheduler":         {Setup: setUpDBScheduler, Open: openDBScheduler},
	"db-scheduler-fenced":  {Setup: setUpDBScheduler, Open: openDBScheduler, Fenced: true},
	"river":                {Setup: setUpRiver, Open: openRiver},
	"river-tx":             {Setup: setUpRiver, Open: openRiverTx},
	"river-fenced":         {Setup: setUpRiver, Open: openRiver, Fenced: true},
	"layers":               {Setup: setUpLayers, Open: openLayers(allLayers), Keyed: true},
	"layers-no-lock":       {Setup: setUpLayers, Open: openLayers(allLayers &^ lockLayer), Keyed: true},
	"layers-no-key":        {Setup: setUpLayers, Open: openLayers(allLayers &^ keyLayer), Keyed: true},
	"layers-no-constraint": {Setup: setUpLayers, Open: openLayers(allLayers)},
	"layers-no-ack":        {Setup: setUpLayers, Open: openLayers(allLayers &^ ackLayer), Keyed: true},
	"controller":           {Setup: setUpController, Open: openController(false)},
	"controller-fenced":    {Setup: setUpController, Open: openController(false), Fenced: true},
	"controller-reclaims":  {Setup: setUpController, Open: openController(true)},
	"watcher":              {Setup: setUpWatcher, Open: openWatcher},
	"watcher-fenced":       {Setup: setUpWatcher, Open: openWatcher, Fenced: true},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "look" {
		if _, ok := schedulers[os.Args[2]]; ok {
			look(os.Args[2])
		}
	}
	drive.MainJobs(schedulers)
}

// look says where the library of a scheduler is, or ends with what is missing.
func look(name string) {
	first, _, _ := strings.Cut(name, "-")
	l, ok := libraries[first]
	if !ok {
		os.Exit(0)
	}
	found, err := l.look()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(found)
	os.Exit(0)
}
