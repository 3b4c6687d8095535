// Package browser tests the pages in headless Chromium (internal/pagetest): that they
// load without an error, that the time line zooms, filters and leads to violations, and
// that they can be used by everybody. It also makes the pictures of docs/img. All of it
// is behind the build tag browser:
//
//	make test-browser
//	make screenshots RUN=runs/…
package browser
