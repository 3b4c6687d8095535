# fencepost: see `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# PATH= of the command line is the module's new one; programs are found by that of the environment.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell while IFS= read -r -d '' v; do [[ $$v != PATH=* ]] || echo "$${v:5}"; done </proc/$$PPID/environ)
endif

GO ?= go
BIN := bin
# Binaries that run under chaos are built without cgo and without -race, which
# breaks deadlines.
# The commit goes into every run's record.
COMMIT := $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown)
# So does the digest of what decides a verdict (docs/evidence.md).
TREE := $(shell scripts/digest)
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-X main.builtFrom=$(COMMIT) -X main.builtOf=$(TREE)'

# A variable is a flag: SEED=7 is --seed=7, TLS_CA=f is --tls-ca=f; any value switches a
# switch on. ARGS goes to the tool as it is.
variable = $(shell echo $1 | tr a-z- A-Z_)
flags = $(foreach f,$1,$(if $($(call variable,$f)),--$f=$($(call variable,$f))))
switches = $(foreach f,$1,$(if $($(call variable,$f)),--$f))
cluster_flags = $(call flags,cluster image)
# How to reach an external cluster: docs/external-cluster.md. USERNAME counts
# on the command line only: many systems have it in the environment. The password is in
# FENCEPOST_PASSWORD or a file.
external_flags = $(if $(filter external,$(CLUSTER)),$(if $(findstring command,$(origin USERNAME)),$(call flags,username)) \
	$(call flags,contact-points datacenter password-file tls-ca tls-cert tls-key tls-server-name) $(call switches,tls tls-insecure))
# Where a run keeps its locks, if not in Cassandra: by STORE, or by the system's name.
STORES := etcd nats postgres redis zookeeper
# Those that nothing fetches or builds but their name, as that takes minutes.
OPT_IN := temporal
# Of a library by the first word of its lock's name.
store_of_asynq := redis
store_of_gocron := redis
store_of_redislock := redis
store_of_redlock := redis
store_of_bullmq := redis
store_of_celery := redis
store_of_db := postgres
store_of_pg := postgres
store_of_river := postgres
store_of_watcher := nats
store_of_layers := postgres
store_of_controller := redis
store_of_zk := zookeeper
# Schedulers whose library is another language's.
LIBRARIES := bullmq celery
# Libraries in Java that a system has in its name.
JAVA := curator db-scheduler
first_word := $(firstword $(subst -, ,$(or $(STORE),$(SYSTEM))))
# What needs all locks of the field, unless it names a system.
whole_field = $(or $(filter field,$(MAKECMDGOALS)),$(filter field,$(SUBJECT)))
# A system on redis-postgres needs the servers of both.
other_store := $(strip $(filter $(STORES) $(OPT_IN),$(or $(store_of_$(first_word)),$(first_word))) $(if $(filter controller redis-postgres,$(first_word) $(STORE)),postgres))
# The releases of Cassandra that a run is on.
releases = $(or $(CASSANDRA),$(if $(filter releases bugs,$(SET)),$(notdir $(basename $(wildcard scripts/cassandra/*.sha256)))),default)
# What a run needs: containers and external clusters bring Java and Cassandra. A rolling
# upgrade needs the previous version too.
run_deps = build $(if $(or $(findstring mixed-versions,$(SCENARIO)$(SCENARIOS)),$(filter all,$(SCENARIO)),$(filter jobs,$(SET))),previous) $(if $(filter bugs,$(SET)),systems) $(if $(other_store),systems,$(if $(filter docker external,$(CLUSTER)),,deps))

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'
	@echo
	@echo '  make chaos SCENARIO=partition [SEED=7] [CONTENTION=low|medium|high] [SYSTEM=core|lock-per-job|redis-set|…|broken/NAME|exec:CMD] [SINK=cassandra|http|postgres]'
	@echo '             [CLUSTER=auto|local|docker|up|external] [WORKLOAD=plain|NAME] [WORKERS=] [CLIENTS=] [TTL=6s] [DURATION=8s]'
	@echo '             [STORE=etcd|nats|postgres|redis|temporal|zookeeper]     (of SYSTEM=exec:CMD: docs/stores.md)'
	@echo '             [CASSANDRA=3.11.9|4.1.10|…] [PAXOS=v1|v2|…]'
	@echo '             [IMAGE=cassandra:5.0.6]     (of CLUSTER=docker: docs/docker.md)'
	@echo '             [CONTACT_POINTS=host,host:port USERNAME= PASSWORD_FILE= DATACENTER= TLS=1 TLS_CA= …]     (of CLUSTER=external: docs/external-cluster.md)'
	@echo '             [JUNIT=junit.xml] [SUMMARY=auto|FILE]     (of evidence too: docs/ci.md)'
	@echo '  make evidence [SET=locks|jobs|orders|smoke|paxos|releases|bugs] [CASSANDRA=] [SEEDS=5] [FIRST=1] [CONTENTION=medium,high] [SCENARIOS=a,b] [SINK=] [RETRY=1] [FRESH=1]'
	@echo '  make power [MUTANT=name,name] [SINK=] [RUNS=2] [SEEDS=1,2] [FRESH=1] [SWARM=20m]'
	@echo '  make replay RUN=runs/… [TIMES=10]    make soak HOURS=8    make nightly [SEEDS=20]    make prune [KEEP=20]'
	@echo '  make bench contention=high [THREADS=1,32] [TTL=6s] [PROCESSES=16x4] [BUDGET=20m] [CLUSTER=auto|local|docker|up]'
	@echo '  make bench subject=jobs [SHARDS=4,1,16] [SCHEDULERS=1,2,4] [STEADY=5m] [RATE=1000] [BUDGET=20m]'
	@echo '  make bench subject=recorder contention=low,high [THREADS=1,32]    make bench subject=checker [OPS=10000,300000]'
	@echo '  make bench subject=effects                    make bench subject=field [LOCKS=redlock,etcd-lease,none]'
	@echo
	@echo "  ARGS='--flag=…' goes to the tool as it is: bin/fencepost help"

.PHONY: build
build: ## Build the tools into bin/
	@mkdir -p $(BIN)
	$(BUILD) -o $(BIN)/fencepost ./cmd/fencepost
	$(BUILD) -o $(BIN)/worker ./cmd/worker
	$(BUILD) -o $(BIN)/schedulerd ./core/cmd/schedulerd
	$(BUILD) -o $(BIN)/httpsinkd ./core/cmd/httpsinkd
	$(BUILD) -o $(BIN)/httpsinkd-lab ./cmd/httpsinkd-lab
	$(BUILD) -tags broken -o $(BIN)/worker-broken ./cmd/worker

.PHONY: previous
previous: ## Build the worker of the previous version, for the scenario jobs-mixed-versions
	@scripts/build-previous

# Releases of libraries that have a bug, or were the first without it; the rest of such a module is as in go.mod.
library_releases := $(basename $(notdir $(wildcard systems/releases/*.mod)))
.PHONY: systems
systems: ## Build the locks and schedulers on other stores, and fetch the servers of one: make systems STORE=etcd
	@mkdir -p $(BIN)
	cd systems && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o ../$(BIN)/ ./cmd/...
	@$(foreach r,$(if $(filter bugs,$(SET)),$(library_releases),$(filter $(patsubst river-tx-0-%,river-0.%.0,$(SYSTEM)),$(library_releases))),(cd systems && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -modfile=releases/$(r).mod -o ../$(BIN)/schedulers-$(r) ./cmd/schedulers) &&) true
	@$(foreach m,$(filter $(OPT_IN),$(other_store)),(cd systems/$(m) && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o ../../$(BIN)/schedulers-$(m) .) &&) true
	@$(foreach s,$(other_store) $(if $(or $(filter bugs,$(SET)),$(if $(SYSTEM),,$(whole_field))),$(STORES)) $(if $(findstring server-clock,$(SCENARIO)),libfaketime),scripts/fetch-store $(s) >/dev/null &&) true
	@$(foreach j,$(JAVA),$(if $(or $(findstring $j,$(SYSTEM)),$(if $(SYSTEM),,$(whole_field))),scripts/build-java $j $(BIN) &&)) true
	@$(foreach l,$(filter $(LIBRARIES),$(first_word) $(if $(SYSTEM),,$(if $(whole_field),$(LIBRARIES)))),scripts/fetch-library $(l) >/dev/null &&) true

.PHONY: deps
deps: ## Find or install Java and Maven, fetch Cassandra into the user's cache
	@scripts/ensure-tools
	@$(foreach r,$(releases),scripts/fetch-cassandra $(firstword $(subst +, ,$(filter-out default,$(r)))) &&) true

# Fail before anything is built.
ifneq ($(filter chaos,$(MAKECMDGOALS)),)
$(if $(SCENARIO),,$(error SCENARIO is missing: make chaos SCENARIO=partition; the scenarios are $(basename $(notdir $(wildcard scenarios/*.yaml)))))
endif
.PHONY: chaos
chaos: $(run_deps) ## Run a scenario: make chaos SCENARIO=partition
	@$(BIN)/fencepost chaos $(SCENARIO) $(if $(SYSTEM),'--system=$(SYSTEM)') $(call flags,seed sink contention workload workers clients ttl duration store cassandra paxos junit summary) $(call switches,keep) $(cluster_flags) $(external_flags) $(ARGS)

# Of benchmarks in small letters too.
SUBJECT := $(or $(subject),$(SUBJECT))
CONTENTION := $(or $(contention),$(CONTENTION))
.PHONY: bench
bench: $(if $(filter checker effects,$(SUBJECT)),build,$(if $(filter field,$(SUBJECT)),build systems deps,$(run_deps))) ## Measure locks or jobs against the bare driver, or the harness: make bench contention=high, make bench subject=jobs|recorder|effects|field|checker
	@$(BIN)/fencepost bench $(call flags,subject system contention seed rounds budget threads ttl processes shards schedulers steady rate ops locks) $(cluster_flags) $(external_flags) $(ARGS)

.PHONY: bench-checker
bench-checker: ## Measure the checker: a million events over 1,000 locks, over 10, and over one hot lock (cpu_s, peak_mb)
	$(GO) test -run '^$$' -bench 'Check/(1000k|hot)' -benchtime 1x ./checker

.PHONY: list
list: build ## List scenarios, faults and systems under test
	@$(BIN)/fencepost list

.PHONY: docs
docs: build ## Write the generated pages and tables of docs/
	@$(BIN)/fencepost list --markdown > docs/scenarios.md.tmp
	@mv docs/scenarios.md.tmp docs/scenarios.md
	@$(BIN)/schedulerd settings > docs/settings.md
	@$(GO) test -count=1 ./core/service/metrics ./reports/serve ./harness/target/sinks -run '^Test(Metrics)?Page$$' -update
	@$(GO) test -count=1 ./harness/record/history -run 'IsCurrent$$' -update
	@$(GO) test -count=1 ./checker/property -run 'IsCurrent$$' -update
	@$(GO) test -count=1 ./harness/target/system ./harness/target/workload ./reports ./reports/evidence -run 'IsCurrent$$' -update
	@$(GO) test -count=1 ./harness/fault -run 'IsCurrent$$' -update

.PHONY: up
up: $(run_deps) ## Start a cluster and three schedulers, and leave them running: make up [SCHEDULERS=0] [PORT=8080] [DATACENTERS=3,1]
	@$(BIN)/fencepost up --background --schedulers=$(or $(SCHEDULERS),$(if $(DATACENTERS),0,3)) $(call flags,datacenters port cassandra paxos) $(cluster_flags) $(ARGS)

.PHONY: down
down: ## Stop what make up started
	@$(BIN)/fencepost down

.PHONY: serve
serve: build ## Browse runs in a web page, including live ones
	@$(BIN)/fencepost serve

.PHONY: doctor
doctor: build ## Show what this machine can run, and how to fix what it cannot
	@$(BIN)/fencepost doctor

# What a cold cache costs most is built without what tests need not have: go vet, which lint runs,
# and the debugger's tables.
TEST_UNIT = $(GO) test -vet=off -ldflags=-w -timeout 20m
# The race detector needs cgo and so a C compiler; everything else needs only Go.
# Packages with tests that skip or do less there, and run again without it (internal/race).
HEAVY = $(patsubst %/,./%,$(sort $(dir $(shell grep -rl --include='*_test.go' '/internal/race"$$' *))))
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null),-race)
# What computes most and starts no goroutines is tested without it alone; the tests of those
# who call it, such as simrun, reports/serve and cmd/fencepost, have it.
SEQUENTIAL = /(checker|reports)$$

.PHONY: test-unit
test-unit: ## Run unit and property tests and simulation; needs only Go, uses -race if there is a C compiler
	@$(if $(RACE),,echo 'test-unit: NO RACE DETECTOR: it needs a C compiler (apt-get install gcc libc6-dev)')
	$(TEST_UNIT) $(RACE) $(if $(RACE),$$($(GO) list ./... | grep -vE '$(SEQUENTIAL)'),./...)
	$(if $(RACE),$(TEST_UNIT) $(HEAVY))

# SCORES=FILE keeps what was found. RESULTS.md takes it of a clean commit alone.
scored = $(if $(SCORES),$1scores '$(abspath $(SCORES))' $1made '$(COMMIT) $(TREE)')
.PHONY: sim
sim: ## Simulate SEEDS clusters of the job engine (default 10000, from seed FIRST), and 24 days of schedules DAYS times (default 50): make sim SEEDS=10000
	$(GO) test ./core/engine -run 'TestSimulation$$' -count=1 -v -timeout 24h -sim.seeds $(or $(SEEDS),10000) -sim.first $(or $(FIRST),1) -sim.lanes $(shell nproc) $(call scored,-sim.)
	$(GO) test ./core/engine -run 'TestCalendar$$' -count=1 -v -timeout 24h -sim.calendars $(or $(DAYS),50) -sim.first $(or $(FIRST),1) -sim.lanes $(shell nproc) $(call scored,-sim.)

.PHONY: mutation
mutation: ## Plant SAMPLE small mistakes (default 300) in a package, drawn by SEED, and count those that its tests find: make mutation PKG=core/lock
	@$(GO) run ./internal/mutation/mutate -pkg $(or $(PKG),$(error PKG is missing: make mutation PKG=core/lock)) -sample $(or $(SAMPLE),300) -seed $(or $(SEED),1) $(call scored,-) $(ARGS)

.PHONY: sink-growth
sink-growth: deps ## Measure what sinks keep after a million effects of short-lived resources (100,000 on Cassandra and PostgreSQL)
	$(GO) test -tags growth -run '^TestGrowth$$' -count=1 -v -timeout 60m ./core/sink/sinktest ./core/sink/bolt
	$(GO) test -tags integration,growth -run '^TestGrowth$$' -count=1 -v -timeout 60m ./core/sink/cassandra ./harness/env/postgres

.PHONY: test-browser
test-browser: ## Test the pages in headless Chromium (FENCEPOST_NO_BROWSER=1 skips this)
	@if [ "$$FENCEPOST_NO_BROWSER" = 1 ]; then echo "SKIPPED: no page is opened in a browser (FENCEPOST_NO_BROWSER=1)"; else scripts/ensure-tools --browser; fi
	$(GO) test -tags browser -count=1 -timeout 5m ./core/service/livepage ./internal/pagetest ./reports/browser ./reports/serve

.PHONY: test
test: ## Run all tests, in half an hour: unit, pages in a browser, a real cluster, chaos runs good and known-broken
	@GO="$(GO)" scripts/test-all

.PHONY: test-tools
test-tools:
	@scripts/ensure-tools --prometheus || echo 'test: NOT TESTED: alerts and dashboard, as Prometheus is missing (the reason is above)'

.PHONY: test-previous
test-previous:
	@scripts/build-previous || echo 'test: NOT TESTED: old and new schedulers side by side (the reason is above)'

.PHONY: test-docker
test-docker: build deps ## Test runs on containers, if there is a Docker daemon
	@scripts/test-docker
	@scripts/with-dockerd "$(GO)" test -tags docker -count=1 -timeout 5m -v -run '^TestImage$$' ./compose; code=$$?; [ $$code = 69 ] || exit $$code

.PHONY: fuzz-api
fuzz-api: build deps ## Send requests made from the API's description to schedulerd on a real cluster: make fuzz-api [FOR=600] [SEED=]
	@SEED=$(SEED) scripts/fuzz-api $(or $(FOR),60)

.PHONY: screenshots
screenshots: build ## Render docs/img from a run's report: make screenshots RUN=runs/…
	@scripts/screenshots $(or $(RUN),$(error RUN is missing: make screenshots RUN=runs/latest))

# Of tests that need more than Go, and of known-broken variants.
TAGS := broken,integration,e2e,docker,browser,growth

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, RESULTS.md and docs/field.md are what results/ gives, no area beyond scripts/budget
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags $(TAGS) ./...
	@scripts/words
	$(GO) tool staticcheck ./...
	$(GO) tool staticcheck -tags $(TAGS) ./...
	cd systems && $(GO) vet ./... && $(shell $(GO) tool -n staticcheck) ./...
	@for m in $(OPT_IN); do if scripts/fetch-store --check $$m >/dev/null 2>&1; then (cd systems/$$m && $(GO) vet ./... && $(shell $(GO) tool -n staticcheck) ./...) || exit; else echo "lint: NOT CHECKED: systems/$$m (scripts/fetch-store $$m)"; fi; done
	$(GO) run ./cmd/fencepost results --check
	$(GO) run ./cmd/fencepost field --check
	$(GO) test -count=1 ./scripts -run '^TestBudget$$'
	$(GO) test -count=1 ./internal/arrows

.PHONY: budget
budget: ## Write today's lines, and half a percent more, to scripts/budget
	$(GO) test -count=1 ./scripts -run '^TestBudget$$' -budget.update

.PHONY: results
results: build ## Keep runs (RUNS="runs/…") as lines in results/ and write RESULTS.md from all that are kept
	@$(BIN)/fencepost results $(RUNS)

.PHONY: evidence
evidence: $(run_deps) ## Run a set at several contentions under many seeds; resumes where it stopped
	@$(BIN)/fencepost evidence --set=$(or $(SET),locks) $(call flags,seeds first contention scenarios sink cassandra junit summary) $(call switches,fresh retry) $(cluster_flags) $(ARGS)

.PHONY: campaign
campaign: ## Make the evidence of a release, all of one digest, into results/; resumes where it stopped: make campaign [HOURS=2.5]
	@scripts/campaign $(HOURS)

.PHONY: power
power: $(if $(and $(MUTANT),$(if $(findstring jobs-format-unsaid,$(MUTANT)),,other)),,previous) $(run_deps) ## Run every known-broken variant under its directed scenario; resumes where it stopped
	@$(BIN)/fencepost power $(call flags,mutant sink seeds swarm) $(if $(RUNS),--times=$(RUNS)) $(call switches,fresh) $(cluster_flags) $(ARGS)

.PHONY: field
field: build systems $(if $(filter-out core,$(SYSTEM)),,deps) ## Run the field, and the core, under the same faults, and write docs/field.md; resumes where it stopped: make field [SYSTEM=redis-set]
	@$(foreach s,$(or $(other_store),$(STORES)) libfaketime,scripts/fetch-store $(s) >/dev/null &&) true
	@$(foreach l,$(if $(SYSTEM),$(filter $(LIBRARIES),$(first_word)),$(LIBRARIES)),scripts/fetch-library $(l) >/dev/null &&) true
	@$(BIN)/fencepost field $(call flags,system scenarios seeds first) $(call switches,fresh retry) $(ARGS)

.PHONY: soak
soak: $(run_deps) ## Random runs for HOURS, until one is not PASS
	@$(BIN)/fencepost soak --hours=$(or $(HOURS),$(error HOURS is missing: make soak HOURS=8)) $(call flags,set seed) $(cluster_flags) $(ARGS)

.PHONY: replay
replay: $(run_deps) ## Repeat a run's plan: make replay RUN=runs/… [TIMES=10]
	@$(BIN)/fencepost replay $(or $(RUN),$(error RUN is missing: make replay RUN=runs/latest)) $(call flags,times) $(cluster_flags) $(external_flags) $(ARGS)

.PHONY: prune
prune: build ## Delete the directories of PASS runs except the newest KEEP
	@$(BIN)/fencepost runs prune $(call flags,keep older) $(if $(DRY),--dry-run) $(ARGS)

.PHONY: nightly
nightly: build previous deps systems ## Run every set with new seeds; resumes where it stopped (runs/nightly/DATE)
	@SEEDS=$(or $(SEEDS),20) scripts/nightly

.PHONY: module
module: ## Give the module another path: make module PATH=example.org/x/fencepost
	@GO="$(GO)" scripts/module $(or $(MODULE),$(error PATH is missing: make module PATH=example.org/x/fencepost))

.PHONY: clean
clean: ## Remove bin/ (runs/ stays)
	rm -rf $(BIN)
