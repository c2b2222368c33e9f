# `make help` says what there is. Every target works on all modules of go.work.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Directories of the modules, relative: "core gen …".
MODULES = $(shell sed -n 's|^[[:space:]]*\./||p' go.work)
# Directories of commands, and of those that images hold.
COMMANDS = $(wildcard $(MODULES:%=%/cmd/*))
HELD = $(filter $(shell sed -n 's|^COPY \([^ ]*\) /usr/bin/|%/cmd/\1|p' kind/images/Dockerfile),$(COMMANDS))
# Every package of the workspace. Commands that take packages see all modules at once through go.work.
PACKAGES = $(MODULES:%=./%/...)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

# Tests of these build or read what lies outside their own module, so the go command cannot know when a cached
# result is stale. They run one package at a time: one control plane is enough for a small machine.
WHOLE_TREE = ./hack/... ./e2e/...
GO_TEST = go test -json -race $(TESTFLAGS)
TOOL = $$(GOWORK=off go -C hack/tools tool -n $(1))
# Runs commands that print the events of `go test -json`; ends with the count of all tests.
COUNTED = $(call TOOL,gotestsum) --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --raw-command --
# Packages with benchmarks, but for those that need a cluster.
BENCHED = $(shell git grep -l '^func Benchmark' -- '*_test.go' ':!e2e' | xargs -n1 dirname | sort -u | sed 's|^|./|')

BENCHTIME ?= 1s
COUNT ?= 1
FUZZTIME ?= 30s
STEPS ?= 2000000
SOAK ?= 30m
CROWD ?= 10000
# Of make bench-e2e.
NODES ?= 1000
PODS ?= 1000
ROUNDS ?= 3
RATE ?= 40

.PHONY: help
help: ## Show this help.
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS=$$'\t' read -r target what; do \
		printf '  make %-16s %s\n' "$$target" "$$what"; done

.PHONY: demo
demo: ## Play the scenarios live on a real control plane (KEEP=1 leaves it running, ONLY="3 9" plays some).
	@go run ./e2e/cmd/demo $(ONLY)

# The version of all commands but kubectl-phasegpu is here.
PROCESS := github.com/phasegpu/phasegpu/gen/process

.PHONY: build
build: $(COMMANDS:%=build/%) ## Build all commands into bin/, static but for the device plugin: NVML is a C library.
	@ln -sf kubectl-phasegpu bin/kubectl_complete-phasegpu # the name by which kubectl asks a plugin to complete

.PHONY: $(COMMANDS:%=build/%)
$(COMMANDS:%=build/%): build/%:
	@echo "build $*"
	@CGO_ENABLED=$(if $(filter deviceplugin/%,$*),1,0) CGO_CFLAGS="-O2 -Wno-deprecated-declarations" \
		go build -trimpath -buildvcs=false -ldflags '-s -w $(foreach p,main $(PROCESS),-X $p.version=$(VERSION) -X $p.commit=$(COMMIT))' -o bin/ "./$*"

.PHONY: images
images: $(HELD:%=build/%) ## Put the commands that run on a cluster into container images, without pulling anything.
	@kind/images/build

.PHONY: kind-node-image
kind-node-image: ## Build the kind node image from Debian packages and Go modules, for sites without a registry.
	@kind/offline/build

.PHONY: kind-up
kind-up: images ## Make a kind cluster with phasegpu, or bring the running one up to date.
	@kind/up

.PHONY: kind-down
kind-down: ## Delete the kind cluster and all that was written for it.
	@kind/down

.PHONY: e2e
e2e: kind-up ## Run the end-to-end tests on the kind cluster, making it first when there is none.
	@kind/e2e

.PHONY: test
test: ## Run every test with the race detector; builds the control plane first when it is missing.
	@go run ./e2e/controlplane/cmd/controlplane-build
	@$(COUNTED) bash -c 'failed=0; \
		$(GO_TEST) $(filter-out $(WHOLE_TREE),$(PACKAGES)) || failed=1; \
		$(GO_TEST) -count=1 -p=1 -timeout=40m $(WHOLE_TREE) || failed=1; \
		exit $$failed'

.PHONY: test-page
test-page: ## Try the extender's web UI in a browser; needs Chromium (Debian's package chromium).
	@$(COUNTED) $(GO_TEST) -tags page -count=1 ./extender/internal/ui/browser

.PHONY: screenshot
screenshot: ## Take the pictures of the web UI that the README shows; needs Chromium.
	@go test -tags page -count=1 -run '^TestPictures$$' ./extender/internal/ui/browser -pictures='$(CURDIR)/docs'

.PHONY: verify
verify: ## Check all that is not a test: generated code, modules, imports, manifests, format, lint.
	@hack/verify

.PHONY: generate
generate: ## Write what follows from the declarations of device families.
	@go run ./gen/cmd/classifier-gen --families ./gen/families --out ./gen/classify \
		$$(grep -rl 'BEGIN GENERATED' --include='*.md' --include='*.yaml' .)

.PHONY: tidy
tidy: ## Bring go.mod and go.sum of every module, and go.work.sum, up to date.
	@for module in $(MODULES) hack/tools hack/promql; do GOWORK=off go -C $$module mod tidy || exit 1; done
	@rm -f go.work.sum; go list -m all >/dev/null; go list -deps -test -tags kind,page $(PACKAGES) >/dev/null

.PHONY: format
format: ## Format all Go code.
	@gofmt -l -w .

.PHONY: lint
lint: ## Run gofmt, go vet and staticcheck.
	@failed=0; \
	unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make format:"; echo "$$unformatted"; failed=1; fi; \
	go vet -tags kind,page $(PACKAGES) || failed=1; \
	$(call TOOL,staticcheck) -tags kind,page $(PACKAGES) || failed=1; \
	exit $$failed

.PHONY: bench
bench: ## Run the benchmarks beside their baselines, with tables of ratios and limits (BENCH=pattern, BENCHTIME=1s, COUNT=1).
	@mkdir -p bin/bench; kept=bin/bench/$$(date -u +%Y%m%dT%H%M%SZ).txt; \
	{ printf 'commit: %s\nprocessors: %s\n' '$(VERSION)' "$$(nproc)"; \
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchtime $(BENCHTIME) -count $(COUNT) -benchmem -p 1 -timeout 0 $(BENCHED); } | tee $$kept; \
	$(call TOOL,benchstat) -col /by $$kept; go run ./hack/bench <$$kept; echo "kept in $$kept"

.PHONY: benched
benched:
	@echo $(BENCHED)

.PHONY: bench-e2e
bench-e2e: ## Bind pods with kube-scheduler alone and with the extender, into docs/benchmarks.md (NODES=1000,5000, PODS=1000, ROUNDS=3, RATE=40).
	@go run ./e2e/cmd/bench -nodes $(NODES) -pods $(PODS) -rounds $(ROUNDS) -rate $(RATE) \
		-command 'make bench-e2e NODES=$(NODES) PODS=$(PODS) ROUNDS=$(ROUNDS) RATE=$(RATE)' | go run ./hack/section docs/benchmarks.md end-to-end

.PHONY: soak
soak: ## Have pods come, run again and go at random for SOAK (30m): books stay right and memory flat.
	@SOAK=$(SOAK) go test -v -count=1 -timeout=24h ./e2e/soak

.PHONY: crowd
crowd: ## Have CROWD (10000) pods wait that do not fit, while memory is freed little by little.
	@CROWD=$(CROWD) go test -v -count=1 -timeout=2h -run=TestCrowd ./e2e/scenarios

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME, and the ledger's property test for STEPS steps.
	@FUZZTIME=$(FUZZTIME) LEDGER_STEPS=$(STEPS) hack/fuzz
