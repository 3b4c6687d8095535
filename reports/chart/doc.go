// Package chart makes charts of a run's numbers.
//
// Curves (type Curves) are numbers that the page's script draws. What must be there without
// a script is drawn here as SVG, by hand, because it is boxes and labels and not a function
// of x: the strip of phases and faults, the window of a violation, the arms of a benchmark.
//
// Every colour is a name of the palette with a value for light and for dark.
// The SVG refers to it as a CSS variable with the light value as its fallback:
// in the page the page's scheme decides, and a file that is opened by itself
// carries the variables along. Outcomes and faults are never told by colour
// alone: lines differ in dash, marks in shape, bars in pattern and label.
//
// The same input gives the same bytes.
package chart
