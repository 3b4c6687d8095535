// Package chart draws a run's numbers as SVG.
//
// Curves are drawn with gonum/plot, lanes (who held a lock, what happened in a
// violation's window) by hand, because a lane chart is boxes and labels and not
// a function of x. Both share one frame: the same margins and the same time axis,
// so that charts under each other line up.
//
// Every colour is a name of the palette with a value for light and for dark.
// The SVG refers to it as a CSS variable with the light value as its fallback:
// in the page the page's scheme decides, and a file that is opened by itself
// carries the variables along. Outcomes and faults are never told by colour
// alone: lines differ in dash, marks in shape, bars in pattern and label.
//
// The same input gives the same bytes.
package chart
