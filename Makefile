# Everything a developer needs. CONTRIBUTING.md lists what a machine needs.

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
# All but two about spelled-out selectors and negations, which are a matter of taste.
CHECKS = all,-QF1001,-QF1008
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2

# Stamped into `bursar version`.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The version of the embedded API server and kubectl: that of their Kubernetes, and Bursar's.
COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
KUBERNETES = $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)
SERVER_VERSION = -X k8s.io/component-base/version.gitVersion=$(KUBERNETES)+bursar.$(VERSION) -X k8s.io/component-base/version.gitCommit=$(COMMIT)

LDFLAGS = -X main.version=$(VERSION) $(SERVER_VERSION)

.PHONY: help
help: ## Show what can be made.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/bursar, bin/bursar-operator and bin/kubectl-bursar.
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

# The Go of releases, also to scan for vulnerabilities: that of go.mod, also where another one is installed.
TOOLCHAIN = $(shell awk '$$1 == "toolchain" {print $$2}' go.mod)

# What to release: PLATFORMS=linux-amd64,darwin-arm64, BINARIES=kubectl-bursar, PARTS=archives,chart,image.
PLATFORMS ?= all
BINARIES ?= all
PARTS ?= archives,chart,image
DIST ?= dist
RELEASE = GOTOOLCHAIN=$(TOOLCHAIN) $(GO) run ./hack/release build -dist $(DIST) -ldflags "$(LDFLAGS)" -platforms "$(PLATFORMS)" -binaries "$(BINARIES)"

.PHONY: release
release: ## Build what a version publishes, in dist: VERSION=v1.2.3; docs/contributing/releasing.md.
	$(RELEASE) -parts "$(PARTS)" $(VERSION)

.PHONY: image
image: ## Build the container image with ko: VERSION=v1.2.3; pushed to KO_DOCKER_REPO if that is set.
	$(RELEASE) -parts image $(VERSION)

.PHONY: verify-reproducible
verify-reproducible: ## Build a binary in two folders and compare all bytes; BINARIES=all PLATFORMS=all for everything.
	hack/verify-reproducible

.PHONY: prose
prose: ## Measure the language of pages, comments and help texts, and fail beyond the bounds of docs/contributing/language.md.
	$(GO) run ./hack/prose

.PHONY: licenses
licenses: ## Check that all code in the binaries has a licence that is allowed.
	$(GO) run ./hack/release licenses

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in the code that the binaries call, or SCAN=./cmd/bursar-operator: bursar takes 12 GB.
	GOTOOLCHAIN=$(TOOLCHAIN) hack/vulncheck $(SCAN)

.PHONY: quickstart
quickstart: ## See the whole idea at work on a scratch server.
	@test -e bin/bursar || echo "Building bin/bursar. The first build takes some minutes, without output; later ones take seconds."
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/bursar
	@examples/quickstart/run.sh bin/bursar

# Packages that no campaign owns. Every package is one of them, or in the folder of a campaign: test/targets checks it.
TESTED = $(foreach package,$(shell $(GO) list ./...),$(if $(findstring /test/campaign/,$(package)),,$(package)))

# Packages whose tests link the API server. With the race detector, linking takes a minute and the tests twice as long.
MODULE = $(shell $(GO) list -m)
SERVERS = $(MODULE)/test/e2e $(MODULE)/test/bench $(MODULE)/internal/standalone/apiserver

.PHONY: test
test: ## Run all tests but the campaigns, with the race detector; RACE=all also on API servers.
	@echo "$(GO) test -race (all packages without an API server)"
	@CGO_ENABLED=1 $(GO) test -race -timeout 20m $(filter-out $(SERVERS),$(TESTED))
	$(if $(filter all,$(RACE)),CGO_ENABLED=1) $(GO) test $(if $(filter all,$(RACE)),-race) -timeout 40m $(SERVERS)

.PHONY: test-quick
test-quick: ## Run the tests that need no server.
	$(GO) test -short ./...

CAMPAIGNS = $(notdir $(patsubst %/,%,$(wildcard test/campaign/*/)))

# Without the race detector: what they test are processes, and their binaries are built without it.
CAMPAIGN_TARGETS = $(CAMPAIGNS:%=campaign-%)
.PHONY: $(CAMPAIGN_TARGETS)
$(CAMPAIGN_TARGETS): campaign-%:
	$(GO) test -timeout 20m ./test/campaign/$*/...

.PHONY: campaigns
campaigns: ## Run campaigns beside each other: all, or CAMPAIGNS="faults replicas".
	$(GO) test -timeout 40m $(CAMPAIGNS:%=./test/campaign/%/...)

.PHONY: kubernetes-versions
kubernetes-versions: ## Test with every minor version of Kubernetes, or MINORS="1.32 1.37", and write the columns of the table.
	$(GO) run ./hack/kubernetesversions docs/reference/kubernetes.md $(MINORS)

.PHONY: screenshots
screenshots: ## Make the screenshots of the documentation again, in Chromium.
	$(GO) test -timeout 20m -count 1 ./test/campaign/browser -run TestFromDeniedToRunning -images docs/images

.PHONY: site
site: ## Build the documentation as a site in bin/site, and check its links.
	@hack/site/install || echo "SKIPPED: the site has no search and no diagrams, because their scripts cannot be fetched"
	$(GO) run ./hack/site -out bin/site

.PHONY: site-serve
ADDRESS ?= localhost:8000
site-serve: ## Serve the site while you write pages, at ADDRESS=localhost:8000.
	@hack/site/install || echo "SKIPPED: the site has no search and no diagrams, because their scripts cannot be fetched"
	$(GO) run ./hack/site -serve $(ADDRESS)

.PHONY: simulate
SEEDS ?= 2000
simulate: ## Run SEEDS=2000 simulated worlds, or replay one with its trace: SEED=17.
	$(GO) run ./test/simulation/simulate $(if $(SEED),-seed $(SEED),-seeds $(SEEDS))

.PHONY: planted
planted: ## Plant faults in the code, one by one, and show which seed or test finds each.
	$(GO) run ./test/simulation/simulate -planted .

.PHONY: bench
bench: build ## Measure a standalone server as a client would.
	$(GO) run ./test/bench -bursar bin/bursar

.PHONY: generate
generate: ## Generate deep copies, CRDs and the reference in docs/reference.
	$(GO) generate ./...

.PHONY: lint
lint: ## Check formatting, vet and lint; .golangci.yml has the rules of imports, sizes and comments.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) -checks $(CHECKS) ./...
	GOLANGCI_LINT_CACHE=$(CURDIR)/bin/golangci-lint $(GO) run $(GOLANGCI_LINT) run ./cmd/... ./internal/... ./sdk/... ./api/... ./hack/...

# What is generated, as git pathspecs. New files count as well as changed ones.
GENERATED = ':(glob)**/zz_generated.*.go' 'deploy/crds/*.yaml' 'examples/*/crds/*.yaml' 'examples/compute/config/crds/*.yaml' docs/reference

.PHONY: verify-generated
verify-generated: generate ## Check that generated files are up to date.
	@git --no-pager diff -- $(GENERATED)
	@changed=$$(git status --porcelain --untracked-files=all -- $(GENERATED)) || exit 1; \
	test -z "$$changed" || { echo "$$changed"; echo "generated files are out of date: run 'make generate' and commit"; exit 1; }
