//go:build browser

package pagetest

import (
	_ "embed"

	"github.com/chromedp/chromedp"
)

// axe-core 4.14.1, as npm has it.
//
//go:embed testdata/axe-core/axe.min.js
var axeSource string

// Axe lists what axe-core finds serious or critical on the page.
func (p *Tab) Axe() []string {
	p.T.Helper()
	p.Do(chromedp.Evaluate(axeSource+";true", nil))
	return Eval[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(function (r) {
		return r.violations.filter(function (v) { return v.impact === 'serious' || v.impact === 'critical'; }).map(function (v) {
			return v.impact + ': ' + v.help + ' (' + v.id + '): ' + v.nodes.slice(0, 3).map(function (n) {
				return n.target.join(' ') + ' ' + n.html.slice(0, 160) + ' ' + n.failureSummary;
			}).join(' | ');
		});
	})`)
}
