//go:build browser

package livepage

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/internal/pagetest"
)

var pictures = flag.String("pictures", "", "where pictures of the page go, to look at them")

func init() { runTests = pagetest.Main }

// TestBrowser: the page shows what happens as it happens, finds its way back after the
// connection broke, and anybody can use it, in the light and in the dark.
func TestBrowser(t *testing.T) {
	for name, screen := range map[string]pagetest.Screen{"light": pagetest.Wide, "dark and narrow": {W: 390, H: 800, Dark: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			a, b := NewRecorder("s1.1a2b3c4d", nil), NewRecorder("s2.5e6f7081", nil)
			peer(t, w, b)
			w.owners = []string{a.Name(), b.Name(), "", b.Name(), "s3.00000000", a.Name(), a.Name(), b.Name()}
			depths(a, 4, 4, 0, 0)
			depths(b, 3, 8, 0, 1)
			srv, _ := serve(t, w, Options{Recorder: a, Secret: "0123456789abcdef"}, 0)
			p := pagetest.Open(t, srv.URL+"/", screen, srv.URL+"/")
			p.Until(`document.getElementById('connection').textContent === 'Live' && document.getElementById('n-unowned').textContent === '1 of 8'`)
			for n := range 40 {
				became, err := engine.StepComplete, error(nil)
				switch {
				case n%13 == 12:
					became, err = engine.StepDLQ, errors.New("http: POST http://payments/charge: 402 Payment Required")
				case n%7 == 6:
					became, err = engine.StepRetry, errors.New("it does not answer")
				}
				real(b, n, became, err)
			}
			p.Until(`document.querySelectorAll('#runs .o-dlq').length === 3 && document.querySelectorAll('#c-bars rect').length >= 2`)
			p.Until(`document.querySelectorAll('#processes tr').length === 3 && document.querySelector('#processes .gone').textContent.includes('WORKER_PEER_PORT')`)
			p.Until(`document.querySelectorAll('#shards li').length === 8 && document.querySelector('#shards .nobody').textContent === '2 nobody'`)
			p.Until(`document.getElementById('n-dlq').textContent === '1 or more' && document.getElementById('n-pending').textContent === '12 or more'`)
			if *pictures != "" {
				var png []byte
				p.Do(chromedp.FullScreenshot(&png, 100))
				if err := os.WriteFile(filepath.Join(*pictures, "live-"+strings.ReplaceAll(name, " ", "-")+".png"), png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range p.Axe() {
				t.Error(f)
			}
			srv.CloseClientConnections()
			w.mu.Lock()
			w.owners[2] = a.Name()
			w.mu.Unlock()
			p.Until(`document.getElementById('connection').textContent === 'Live' && document.getElementById('n-unowned').textContent === '0 of 8'`)
			p.Forgive(srv.URL + "/live/events") // the browser tells of the broken connection
			if sideways := pagetest.Eval[bool](p, `document.documentElement.scrollWidth > innerWidth`); sideways {
				t.Error("the page is wider than the screen")
			}
		})
	}
}

// real lets a recorder with the real clock see a run.
func real(r *Recorder, n int, became engine.StepKind, err error) {
	id, run := job.ID(fmt.Sprintf("1-%032x", n)), job.RunID(n+1)
	r.Step(engine.Step{Kind: engine.StepEnqueue, Shard: shard})
	r.Step(engine.Step{Kind: engine.StepStart, Shard: shard, Job: id, Run: run, Attempt: 1, Due: time.Now().UnixMilli() - 40})
	r.Step(engine.Step{Kind: engine.StepFinish, Shard: shard, Job: id, Run: run, Err: err})
	r.Step(engine.Step{Kind: became, Shard: shard, Job: id, Run: run})
}
