// Package systems holds what schedulers in other languages are: their programs, and the lists by which
// scripts/fetch-library fetches their libraries.
package systems

import "embed"

// Files are the programs, and of their libraries the versions and checksums.
//
//go:embed node/bullmq.mjs node/package-lock.json python/celery_worker.py python/requirements.txt
var Files embed.FS
