// Package scenarios holds the built-in scenarios and sets of workload parameters: data only,
// one YAML file each.
package scenarios

import "embed"

// Files are the scenario files, and in workloads the sets of parameters.
//
//go:embed *.yaml workloads/*.yaml
var Files embed.FS
