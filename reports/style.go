package reports

import (
	"io/fs"

	"fencepost/reports/chart"
)

// Style is the style sheet of every page, with its colours for light and dark.
func Style() (string, error) {
	b, err := fs.ReadFile(assets, "templates/page.css")
	return chart.CSS() + chart.PlotCSS() + string(b), err
}

// Parts is the source of the templates that pages share: icons, icon, badge, facts
// and command.
func Parts() (string, error) {
	b, err := fs.ReadFile(assets, "templates/parts.html")
	return string(b), err
}
