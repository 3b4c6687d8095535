// Package pagetest opens pages in headless Chromium for tests. All of it is behind the
// build tag browser.
//
// The tests of a package share one browser, which the first page starts and [Main] ends.
// Each page is a window of its own, since a tab behind another is never painted. A page
// fails its test by whatever goes wrong on it: an exception, an error or a warning on the
// console, a request for anything but what it is allowed. [Tab.Axe] finds what keeps
// people from using it, by axe-core (vendored in testdata).
//
// Without Chromium these tests fail; with FENCEPOST_NO_BROWSER=1 they skip.
package pagetest
