# make build    the programs, in bin/
# make run      the main job: a rollout under fire on the embedded cluster
# make test     everything: programs this machine lacks, build, vet, unit tests, end-to-end tests
# make help     the rest

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build deps run test test-kind vet unit e2e lint bench clean help

export CGO_ENABLED ?= 0
# For all commands alike: two ways of building would compile Kubernetes twice.
export GOFLAGS := $(GOFLAGS) -trimpath
# Users seldom have the folder of nft and ip in their path.
export PATH := $(PATH):/usr/sbin:/sbin

GO       ?= go
# vet is a step of its own, in full.
GOTEST    = $(GO) test -vet=off
KUBELITE := clusters/embedded/kubelite
STANDIN  := $(wildcard standin/cmd/standin)
PROGRAMS := bin/shakedown bin/kubelite $(if $(STANDIN),bin/standin)

# kubelite says that it is the Kubernetes it is built from: Teleport and Helm read that version.
KUBE_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' $(KUBELITE)/go.mod)
KUBE_PARTS    = $(subst ., ,$(KUBE_VERSION:v%=%))
KUBE_DATE     = $(shell cd $(KUBELITE) && $(GO) list -m -f '{{with .Time}}{{.Format "2006-01-02T15:04:05Z"}}{{end}}' k8s.io/kubernetes)
STAMP         = -X k8s.io/component-base/version
KUBE_LDFLAGS  = $(STAMP).gitVersion=$(KUBE_VERSION) $(STAMP).gitMajor=$(word 1,$(KUBE_PARTS)) $(STAMP).gitMinor=$(word 2,$(KUBE_PARTS)) \
	$(STAMP).gitCommit=$(KUBE_VERSION) $(STAMP).gitTreeState=clean $(STAMP).buildDate=$(or $(KUBE_DATE),1970-01-01T00:00:00Z)

build: $(PROGRAMS)

# The Go tool knows what is out of date; these rules always ask it.
.PHONY: $(PROGRAMS)

bin/shakedown:
	$(GO) build -o $@ ./cmd/shakedown

bin/kubelite:
	@echo '$(GO) build -o $@ ./$(KUBELITE)  # Kubernetes $(KUBE_VERSION); minutes when nothing is cached'
	@cd $(KUBELITE) && $(GO) build -ldflags '-s -w $(KUBE_LDFLAGS)' -o $(CURDIR)/$@ .

bin/standin:
	$(GO) build -o $@ ./$(STANDIN)

# The Debian packages of the programs that this machine lacks.
deps:
	@.ci/deps

# The main job. Its exit status is the verdict, which make reports as an error of its own when it is not pass.
SCENARIO ?= rollout-under-fire
run: deps build
	bin/shakedown run $(SCENARIO) $(RUN_FLAGS)

# Unit tests need no cluster; what does is named TestE2E… and runs last, on the programs in bin/.
test: deps build vet unit e2e

vet:
	$(GO) vet ./...
	cd $(KUBELITE) && $(GO) vet ./...
	cd standin/apitest && $(GO) vet ./...

unit:
	$(GOTEST) -skip '^TestE2E' $$($(GO) list ./... | grep -v /test/e2e)
	cd $(KUBELITE) && $(GOTEST) -skip '^TestE2E' ./...
	cd standin/apitest && STANDIN_BIN=$(CURDIR)/bin/standin $(GOTEST) ./...

# The packages of a folder that have end-to-end tests, the heaviest last.
e2e-packages = $(shell cd $(1) && grep -rl --include='*_test.go' '^func TestE2E' $(2) 2>/dev/null | xargs -r dirname | sort -u | sed 's,^,./,')

e2e:
	cd $(KUBELITE) && $(GOTEST) -count=1 -run '^TestE2E' -timeout 20m $(call e2e-packages,$(KUBELITE),boot cri images node)
	$(GOTEST) -count=1 -p 1 -parallel 6 -run '^TestE2E' -timeout 60m $(call e2e-packages,.,chaos load run teleport test undo)

# Runs on a real Docker engine. SHAKEDOWN_NODE_IMAGE names the node image (default: kind's own, which must be there
# already), SHAKEDOWN_KIND_CONFIG a file of kind's configuration that the machine needs.
NODE_IMAGE = $(or $(SHAKEDOWN_NODE_IMAGE),$(shell $(GO) list -m -f '{{.Dir}}' sigs.k8s.io/kind | xargs -I{} sed -n 's/^const Image = "\(.*\)@.*/\1/p' {}/pkg/apis/config/defaults/image.go))
test-kind: build
	@if ! docker version >/dev/null 2>&1; then echo 'test-kind: skipped: no Docker engine answers'; \
	elif ! docker image inspect $(NODE_IMAGE) >/dev/null 2>&1; then echo 'test-kind: skipped: node image $(NODE_IMAGE) is not there (docker pull it, or name another in SHAKEDOWN_NODE_IMAGE)'; \
	else SHAKEDOWN_TEST_KIND=yes SHAKEDOWN_NODE_IMAGE=$(NODE_IMAGE) $(GOTEST) -count=1 -v -timeout 40m ./test/kind; fi

lint: vet
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted:"; echo "$$out"; exit 1; fi
	GOOS=darwin $(GO) build -o /dev/null ./cmd/shakedown
	@if command -v staticcheck >/dev/null; then staticcheck ./...; else echo 'staticcheck is not installed: left out'; fi

# How many sessions the benchmarks hold that hold some, and tsh's when SHAKEDOWN_TSH names one (docs/performance.md).
HELD     ?= 2000
HELD_TSH ?= 60

bench-packages = $(shell cd $(1) && grep -rl --include='*_test.go' '^func Benchmark' $(2) 2>/dev/null | xargs -r dirname | sort -u | sed 's,^,./,')

bench: build
	$(GO) test -run '^$$' -bench . -skip 'Hold|Schedule|Tsh' -benchmem $(call bench-packages,.,checks history load run standin teleport)
	$(GO) test -run '^$$' -bench Hold -benchtime $(HELD)x ./load/e2e ./teleport/ssh
	$(GO) test -run '^$$' -bench Schedule -benchtime 2000x ./load/e2e
	$(if $(SHAKEDOWN_TSH),$(GO) test -run '^$$' -bench Tsh -benchtime $(HELD_TSH)x ./load/e2e)
	cd $(KUBELITE) && $(GO) test -run '^$$' -bench . -benchmem $(call bench-packages,$(KUBELITE),boot cri images node)
	$(GO) test -run '^$$' -bench . $(call bench-packages,.,test)

clean:
	rm -rf bin

help:
	@echo 'build  programs in bin/: $(notdir $(PROGRAMS))'
	@echo 'deps   install the Debian packages that are missing (as root), or name them'
	@echo 'run    the main job: a rollout under fire (SCENARIO=steady for its control, RUN_FLAGS=…)'
	@echo 'test   deps, build, vet, unit and end-to-end tests'
	@echo 'test-kind  runs on a kind cluster, if Docker and a node image are there'
	@echo 'unit   unit tests alone          e2e    end-to-end tests alone, on bin/'
	@echo 'lint   formatting, vet, macOS    bench  benchmarks'
	@echo 'clean  remove bin/'
