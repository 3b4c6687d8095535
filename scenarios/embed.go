// Package scenarios holds the built-in scenarios: data only, one YAML file each.
package scenarios

import "embed"

// Files are the scenario files.
//
//go:embed *.yaml
var Files embed.FS
