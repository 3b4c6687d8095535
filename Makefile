# fencepost: see `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
BIN := bin
# Binaries that run under chaos are built without cgo and without -race, which
# breaks deadlines.
# The commit goes into every run's record.
COMMIT := $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown)
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-X main.builtFrom=$(COMMIT)'

chaos_flags = $(if $(SEED),--seed=$(SEED)) $(if $(SYSTEM),--system=$(SYSTEM)) $(if $(CLUSTER),--cluster=$(CLUSTER)) \
	$(if $(CONTENTION),--contention=$(CONTENTION)) $(if $(WORKERS),--workers=$(WORKERS)) $(if $(CLIENTS),--clients=$(CLIENTS)) \
	$(if $(TTL),--ttl=$(TTL)) $(if $(DURATION),--duration=$(DURATION)) $(if $(KEEP),--keep)

.PHONY: help
help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo
	@echo '  make chaos SCENARIO=partition [SEED=7] [CONTENTION=low|medium|high] [SYSTEM=core|broken/NAME]'
	@echo '             [CLUSTER=auto|local|up] [WORKERS=] [CLIENTS=] [TTL=6s] [DURATION=8s]'
	@echo '  make bench contention=high [CLUSTER=auto|local|up]'

.PHONY: build
build: ## Build the tools into bin/
	@mkdir -p $(BIN)
	$(BUILD) -o $(BIN)/fencepost ./harness/cmd/fencepost
	$(BUILD) -o $(BIN)/worker ./harness/cmd/worker
	$(BUILD) -tags broken -o $(BIN)/worker-broken ./harness/cmd/worker

.PHONY: deps
deps: ## Find or install Java and Maven, fetch Cassandra into the user's cache
	@scripts/ensure-tools
	@scripts/fetch-cassandra

.PHONY: chaos
chaos: build deps ## Run a scenario: make chaos SCENARIO=partition
	@$(BIN)/fencepost chaos $(or $(SCENARIO),$(error SCENARIO is missing: make chaos SCENARIO=partition; bin/fencepost list shows all)) $(chaos_flags)

.PHONY: bench
bench: build deps ## Measure locks against the bare driver: make bench contention=high
	@$(BIN)/fencepost bench --contention=$(or $(contention),$(CONTENTION),medium) $(if $(CLUSTER),--cluster=$(CLUSTER)) \
		$(if $(SEED),--seed=$(SEED)) $(if $(THREADS),--threads=$(THREADS)) $(if $(TTL),--ttl=$(TTL)) $(if $(ROUNDS),--rounds=$(ROUNDS))

.PHONY: bench-checker
bench-checker: ## Check a million events over 1,000 locks in a child: events/s, CPU seconds, peak memory
	$(GO) test -run '^$$' -bench 'Check/1000k-events-1000-locks' -benchtime 1x ./checker

.PHONY: list
list: build ## List scenarios, faults and systems under test
	@$(BIN)/fencepost list

.PHONY: up
up: build deps ## Start a cluster and keep it up for further runs
	@$(BIN)/fencepost up --background

.PHONY: down
down: ## Stop the cluster that is kept up
	@$(BIN)/fencepost down

.PHONY: doctor
doctor: build ## Say what this machine can run, and the remedy for what it cannot
	@$(BIN)/fencepost doctor

# The race detector needs cgo and so a C compiler; everything else needs only Go.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null),-race)

.PHONY: test-unit
test-unit: ## Unit and property tests and simulation, with -race if there is a C compiler: needs nothing but Go
	@$(if $(RACE),,echo 'test-unit: NO RACE DETECTOR: it needs a C compiler (apt-get install gcc libc6-dev)')
	$(GO) test $(RACE) ./...

.PHONY: test
test: build deps test-unit ## Everything: unit, integration on a real cluster, chaos runs good and known-broken
	scripts/test-real

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags broken,integration,e2e ./...
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags broken,integration,e2e ./...

.PHONY: results
results: build ## Keep runs (RUNS="runs/…") in results/ and write RESULTS.md from all that are kept
	@$(BIN)/fencepost results $(RUNS)

.PHONY: clean
clean: ## Remove bin/ (runs/ stays)
	rm -rf $(BIN)
