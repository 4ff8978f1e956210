# Everything a developer does. `make` lists the targets.

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' Makefile)

CARGO ?= cargo
# Lints and code come from one compilation of the workspace: clippy compiles like rustc. Without clippy there are no lints.
CLIPPY := $(shell clippy-driver --version >/dev/null 2>&1 && command -v clippy-driver)
DEV := $(if $(CLIPPY),RUSTC_WORKSPACE_WRAPPER=$(CLIPPY)) $(CARGO)
CONTROLPLANE := target/controlplane/bin
PROMTOOL := target/promtool/bin
HELM := $(CONTROLPLANE)/helm
NODE := target/node/bin
# Test binaries that need no control plane.
UNIT := admission cli crds fields hostile offline operator planner reader server webhook
VERSIONS := $(sort $(notdir $(wildcard tests/controlplane/versions/*)))
# A test waits more than it works: four at a time keep two cores busy.
E2E_THREADS ?= 4

NODES ?= 20
CPUS ?= 8
PODS ?= 100000
GROUPS ?= 2000
GPUS ?= 0
IN_TREE ?=
MDBOOK := 0.5.4
KEEP ?=
# What `release` builds.
BINS := --bins

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-17s %s\n", $$1, $$2 }'

need-cargo:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
		echo "There is no \`cargo\`: install Rust (1.89 or newer) with rustup, from https://rustup.rs, or with your package manager."; exit 1; }
	@command -v $${CC:-cc} >/dev/null 2>&1 || { \
		echo "There is no C compiler: install gcc or clang with your package manager."; exit 1; }

controlplane: ## Build the control plane of the tests (Go 1.26 or newer; once, 5 to 9 minutes; VERSION=1.34 another one)
	@sh tests/controlplane/build.sh $(CONTROLPLANE)
	@$(if $(VERSION),sh tests/controlplane/build.sh target/controlplane/versions/$(VERSION)/bin $(VERSION))

# With VERSION that one, without it all.
controlplanes: controlplane
	@for version in $(if $(VERSION),,$(VERSIONS)); do \
		sh tests/controlplane/build.sh target/controlplane/versions/$$version/bin $$version || exit 1; done

controllers: controlplane ## Build real controllers: JobSet, LeaderWorkerSet, KubeRay, those of Kubeflow, Karpenter (once, 16 minutes)
	@sh tests/controllers/build.sh target/controllers

promtool: ## Build promtool, which checks alerts and queries (Go 1.26 or newer; once)
	@sh tests/promtool/build.sh $(PROMTOOL)

node: controlplane ## Build a real node: kubelet, kube-proxy, containerd, network plugins (once, 4 minutes)
	@sh tests/node/build.sh $(NODE)

node-packages: ## Install what a real node needs of Debian's packages (root): runc and iptables
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends runc iptables iproute2

# Generators are built with everything else: cargo would compile their dependencies again for a package alone.
crds: daemons ## Regenerate crds/*.yaml, and the chart's copies of them, from crds/src
	target/debug/giveway-crdgen crds helm/files/crds

kinds: daemons ## Regenerate docs/reference/kinds.md and the chart's list from the table of kinds
	target/debug/giveway-kindgen .

reference: daemons ## Regenerate docs/reference from crds/src, the chart's values and what the plugin prints
	target/debug/giveway-docgen docs/reference
	GIVEWAY_WRITE=1 $(DEV) test -q --workspace --test cli reference::

# Links, headings and commands in the pages are checked by a test of crds, `pages`, without mdbook. It is not optimized: it compiles
# in a third of the time, and the book takes a second all the same.
docs: need-cargo ## Make a book of docs/ in target/docs (installs mdbook into target/tools the first time)
	@target/tools/bin/mdbook --version 2>/dev/null | grep -qx "mdbook v$(MDBOOK)" || \
		$(CARGO) install mdbook --version $(MDBOOK) --debug --locked --no-default-features --features search --root target/tools
	target/tools/bin/mdbook build docs
	@echo "The book: target/docs/index.html"

wording: need-cargo ## Regenerate the lists of all sentences: conditions and events, rejections, findings of `kubectl giveway check`
	GIVEWAY_WRITE=1 $(DEV) test -q --workspace --test crds --test admission --bin kubectl-giveway wording::

metrics: need-cargo controlplane promtool ## Regenerate docs/reference/metrics.md and the dashboard from the lists of metrics, and check alerts and queries
	GIVEWAY_WRITE=1 $(DEV) test --workspace --test offline -- --include-ignored observability::

fmt: need-cargo ## Format the sources
	$(CARGO) fmt --all

format: need-cargo
	$(CARGO) fmt --all --check

# The one compilation for lints, programs, tests and benchmarks. Cargo repeats the warnings of an earlier one; each is an error.
compile: need-cargo
	@[ -n "$(CLIPPY)" ] || { echo "There is no clippy: install it with \`rustup component add clippy\`."; exit 1; }
	@mkdir -p target
	@CARGO_TERM_COLOR=never $(DEV) build --workspace --all-targets >target/compile.log 2>&1; status=$$?; cat target/compile.log; \
	! grep -E '^warning: .* generated [0-9]+ warning' target/compile.log && exit $$status

# The commits that are not on origin/main; without that branch, the last 50.
subjects: ## Check the subjects of the commits of a change
	@! git rev-parse -q --verify HEAD >/dev/null 2>&1 || git log -50 --no-merges --format=%s \
		$$(git rev-parse -q --verify origin/main >/dev/null && echo origin/main..HEAD) | sh tests/subjects.sh

words: compile ## Check texts and names against tests/offline/words.list
	$(DEV) test -q --workspace --test offline -- words::

lint: format subjects words ## Check format, lints, texts and the subjects of commits

# Advisories are fetched: only where DENY=all asks for them.
deny: need-cargo ## Check licences, duplicates and sources of dependencies, where cargo-deny is installed (DENY=all: known holes too)
	@if command -v cargo-deny >/dev/null 2>&1; then $(CARGO) deny $(if $(DENY),,--offline) check $(if $(DENY),,licenses bans sources); \
	else echo "There is no cargo-deny (\`cargo install --locked cargo-deny\`): only what ships is checked, with the tests of \`make dist\`."; fi

crds-check: daemons
	@mkdir -p target/crds && rm -f target/crds/*.yaml
	@target/debug/giveway-crdgen target/crds
	@for folder in crds helm/files/crds; do for file in $$folder/*.yaml target/crds/*.yaml; do \
		diff -u $$folder/$${file##*/} target/crds/$${file##*/} || { \
		echo "$$folder/$${file##*/} is not what crds/src generates: run \`make crds\`."; exit 1; }; done; done
	@echo "crds/*.yaml and the chart's copies are up to date"

chart-check: controlplane
	@$(HELM) lint --quiet helm --namespace giveway-system
	@$(HELM) template giveway helm --namespace giveway-system >target/chart-default.yaml
	@$(HELM) template giveway helm --namespace giveway-system --set deployments.enabled=false \
		--set webhook.url=https://127.0.0.1:9443 --set webhook.caBundle=Y2E= >target/chart-local.yaml
	@! grep -qE '^kind: (Deployment|Service|Secret|Job)$$' target/chart-local.yaml || { \
		echo "the chart renders Deployments, Services, Secrets or Jobs although deployments.enabled=false"; exit 1; }
	@for mode in "" "--set criticalAddons.enabled=true" "--set webhook.certManager.enabled=true" "--set metrics.monitor=ServiceMonitor,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true" "--set webhook.certificate.secretName=mine --set webhook.caBundle=Y2E="; do \
		for run in 1 2; do \
			$(HELM) template giveway helm --namespace giveway-system $$mode >target/chart-$$run.yaml || exit 1; done; \
		cmp target/chart-1.yaml target/chart-2.yaml || { echo "two renders of the chart differ ($$mode)"; exit 1; }; done
	@! grep -qE '^kind: Secret$$|caBundle:' target/chart-default.yaml || { \
		echo "the chart renders a Secret or caBundle, which the operator makes"; exit 1; }
	@echo "the chart renders, twice the same"

# Whatever is built is built for the whole workspace: with other selections cargo would build dependencies twice.
unit: need-cargo ## Run the tests that need no control plane: unit tests, properties, simulation, rendering of the chart
	$(DEV) test --workspace --no-fail-fast --lib --bins $(addprefix --test ,$(UNIT))

bench: need-cargo ## Measure the planner (takes some minutes; BENCH="S1 S8" for some of it)
	$(CARGO) bench -p giveway-planner -- $(BENCH)

mutants: need-cargo ## Break the planner on purpose and see that tests notice (20 minutes)
	$(DEV) test --workspace --test mutants -- planner $(if $(MUTANT),"$(MUTANT)")

mutants-operator: need-cargo ## Break the operator on purpose and see that the simulation notices (30 minutes)
	$(DEV) test --workspace --test mutants -- operator $(if $(MUTANT),"$(MUTANT)")

mutants-e2e: controlplane ## Break webhook, guard, certificates and others on purpose and see that end-to-end tests notice
	$(DEV) test --workspace --test mutants -- e2e $(if $(MUTANT),"$(MUTANT)")

simulation: need-cargo ## Simulate the operator: faults, crashes, two leaders (SEED=7 shows one; CASES=10000 tries more)
	$(if $(SEED),SEED=$(SEED)) $(if $(CASES),CASES=$(CASES)) $(DEV) test --workspace --test offline -- --nocapture simulation::every_seed

# One test at a time, so that the slowest decision is not one that waited for others.
properties: need-cargo ## Try the planner's properties on other random inputs (SEED=7 CASES=10), and tell the slowest decision
	SEED=$(or $(SEED),$(shell date +%s)) CASES=$(or $(CASES),1) $(DEV) test -p giveway-planner --test planner -- --nocapture --test-threads=1 \
		properties:: least_cost:: kept_answers::

bench-operator: need-cargo ## Measure passes of the operator: gangs that do not fit, and thousands of plans in flight (some minutes; ROWS="plans-1000")
	$(CARGO) bench -p giveway-operator --bench arbiter -- $(ROWS)

bench-guard: controlplane daemons ## Measure what refusals of the guard cost the stock scheduler (3 minutes)
	$(DEV) test --workspace --test e2e -- --test-threads=1 --include-ignored guard_cost::

bench-page: need-cargo ## Measure the page of `kubectl giveway ui` with 5,000 nodes and 50,000 pods (a minute)
	$(CARGO) bench -p kubectl-giveway --bench page

bench-webhook: need-cargo ## Measure the webhook over TLS beside the same stack with nothing in it (2 minutes)
	$(CARGO) bench -p giveway-webhook --bench outside

daemons: need-cargo
	$(DEV) build --workspace --bins

e2e: controlplane daemons ## Run the end-to-end tests on real control planes (TEST=name runs some of them)
	@$(MAKE) --no-print-directory run-e2e

e2e-release: controlplane daemons promtool ## Run the end-to-end tests that only a release needs (TEST=name runs some of them)
	@$(MAKE) --no-print-directory run-e2e TEST="--ignored --skip guard_cost::a_delayed --skip guard_cost::many_delayed $(TEST)"

screenshots: controlplane daemons ## Take the pictures of the page for the docs again (Chromium and its driver)
	@GIVEWAY_SCREENSHOTS=docs/images $(MAKE) --no-print-directory run-e2e TEST=ui::a_browser_shows_each_view

# Without a look at what it needs.
run-e2e:
	@$(DEV) test --workspace --test e2e -- --test-threads=$(E2E_THREADS) $(TEST)

run-node:
	@$(DEV) test --workspace --test node -- $(TEST)

# Every crash and every random round instead of some, a random load for MINUTES, and the largest plan.
soak: controlplane daemons ## Kill the operator at every write, then at random under load (MINUTES=10 SEED=7)
	for tests in faults::crashes:: faults::soak:: feasibility:: budgets::rounds::; do \
		GIVEWAY_ROUNDS=all GIVEWAY_CRASHES=all GIVEWAY_SOAK_SECONDS=$$(( $(or $(MINUTES),10) * 60 )) \
			GIVEWAY_SEED=$(or $(SEED),$(shell date +%s)) \
			$(DEV) test --workspace --test e2e -- --test-threads=1 --include-ignored $$tests || exit 1; done
	GIVEWAY_VICTIMS=10000 $(DEV) test --workspace --test e2e -- --include-ignored stored_plans::a_plan_of_thousands
	CASES=10000 SEED=$(or $(SEED),$(shell date +%s)) $(DEV) test --workspace --test offline -- --nocapture simulation::every_seed

node-can-run:
	@sh tests/node/can.sh

test-node: node-can-run node daemons ## Run the tests on a real node: containers, and the chart among them (root; TEST=name runs some of them)
	$(DEV) test --workspace --test node -- $(TEST)

test-kinds: controllers daemons ## Run the examples of kinds that others made with their real controllers, and Karpenter (TEST=name runs some of them)
	$(DEV) test --workspace --test controllers -- $(TEST)

predecessor: need-cargo ## Build the Giveway before this one, for the test of upgrades (once, some minutes)
	@sh tests/predecessor/build.sh target/predecessor

test-upgrade: controlplane predecessor daemons ## Upgrade from the Giveway before this one, with gangs in every state in flight (3 minutes)
	$(DEV) test --workspace --test upgrade

test-oldest: daemons ## Run the stories of Giveway on the oldest version of Kubernetes that it supports
	@$(MAKE) --no-print-directory controlplane VERSION=$(firstword $(VERSIONS))
	$(DEV) test --workspace --test versions -- $(firstword $(VERSIONS))

test-alerts: controlplane promtool ## Check alerts, queries and the texts of metrics with promtool (2 minutes to build it, once)
	$(DEV) test --workspace --test offline -- --ignored observability::

test-versions: controlplanes daemons ## Run the stories of Giveway on every version of Kubernetes (VERSION=1.34 on one; 25 to 45 minutes to build all)
	$(DEV) test --workspace --test versions -- $(VERSION)

test: need-cargo ## Run what every change needs, and tell what each stage cost
	@MAKE="$(MAKE)" CARGO="$(CARGO)" THREADS=$(E2E_THREADS) sh tests/stages.sh test

test-release: need-cargo ## Run what only a release needs (ONLY="dist install" runs these stages)
	@MAKE="$(MAKE)" CARGO="$(CARGO)" THREADS=$(E2E_THREADS) sh tests/stages.sh release $(ONLY)

release: need-cargo
	@echo "Building Giveway (release): a few minutes the first time."
	$(CARGO) build --release --workspace $(BINS)

static: need-cargo
	@packaging/static.sh $(TARGET)

packaging-tools:
	@sh packaging/tools.sh target/packaging/bin

images: static packaging-tools ## Build the images as OCI archives, without a container daemon (target/images)
	@packaging/images.sh target/images

dist: static packaging-tools controlplane ## Build the files of a release, which install it without a network, into target/dist: images, chart, plugin, SBOM
	@rm -rf target/dist
	@packaging/images.sh target/dist
	@packaging/plugin.sh target/dist
	@packaging/sbom.sh target/dist
	@HELM=$(HELM) packaging/rest.sh target/dist
	@ls target/dist

release-rehearsal: packaging-tools controlplane ## Run each step of a release that needs no network, against a registry of this machine
	@HELM=$(HELM) CARGO="$(CARGO)" packaging/rehearsal.sh target/rehearsal

# These need neither Rust nor Go: the images are built with docker, podman or nerdctl.
kind-up: ## Create a kind cluster with Giveway, and watch a gang preempt on its node (CLUSTER=giveway KUBERNETES=1.34.0)
	@packaging/up.sh kind

kind-down: ## Delete the cluster of `make kind-up`
	@packaging/up.sh kind down

k3s-up: ## The same on k3s in a container, with k3d (`make k3s-down` deletes it)
	@packaging/up.sh k3s

k3s-down:
	@packaging/up.sh k3s down

minikube-up: ## The same on minikube (`make minikube-down` deletes it)
	@packaging/up.sh minikube

minikube-down:
	@packaging/up.sh minikube down

up: controlplane release ## Start a cluster with Giveway (NODES=20 CPUS=8 GPUS=0; IN_TREE=1 without Giveway)
	@target/release/giveway-dev up --nodes $(NODES) --cpus $(CPUS) --gpus $(GPUS) $(if $(IN_TREE),--in-tree)

down: ## Stop what `make up`, `make demo KEEP=1` or `make demo-critical KEEP=1` started
	@if [ -x target/release/giveway-dev ]; then target/release/giveway-dev down; else echo "Nothing is running."; fi

# The plugin takes a third of the time to compile, and only a cluster that stays needs it.
demo: BINS = $(if $(KEEP),--bins,--bin giveway-operator --bin giveway-webhook --bin giveway-dev)
demo: controlplane release ## Watch pods of a full cluster being evicted for a gang of 64 GPU pods (KEEP=1 leaves it running)
	@target/release/giveway-dev demo $(if $(KEEP),--keep)

demo-critical: controlplane release ## Watch CoreDNS return to a full cluster, and which pods are evicted for it (KEEP=1 leaves it running)
	@target/release/giveway-dev demo-critical $(if $(KEEP),--keep)

newcomer: controlplane ## Time the path of a newcomer: a clone, the build and `make demo`, without Go (10 minutes)
	@tests/newcomer.sh $(CONTROLPLANE)

test-install: dist ## Install what `make dist` made into an empty control plane, use, upgrade and remove it
	@$(MAKE) --no-print-directory run-install

run-install:
	$(DEV) test --workspace --test install -- --test-threads=1 $(TEST)

demo-plan: need-cargo ## Plan for a gang of 64 on a snapshot of a thousand full nodes; needs no cluster and no Go
	@echo "Building the command line: some minutes the first time."
	@$(CARGO) build --quiet -p kubectl-giveway --bins --examples
	@mkdir -p target/demo-plan
	@target/debug/examples/thousand-nodes >target/demo-plan/cluster.json
	@echo "\$$ kubectl giveway plan -f examples/demo/gang.yaml --snapshot target/demo-plan/cluster.json"
	@target/debug/kubectl-giveway plan -f examples/demo/gang.yaml --snapshot target/demo-plan/cluster.json
	@echo "With --explain it says why each of them is evicted, and why all other units stay."

# ROWS="packed-200 spread-200" runs these only, BENCH="--side giveway --logs target/bench" passes options on.
bench-e2e: controlplane release ## Compare with the in-tree group preemption on full clusters (hours; ROWS="packed-200" BENCH="--rounds 1": 2 minutes)
	@target/release/giveway-dev bench $(ROWS) $(BENCH)

# NODES has a default for `make up`, which is too small here.
bench-scale: controlplane release ## Measure memory and times on a large cluster (NODES=5000 PODS=100000 GROUPS=2000; filled once)
	@target/release/giveway-dev bench-scale --nodes $(if $(filter file,$(origin NODES)),5000,$(NODES)) --pods $(PODS) --groups $(GROUPS)

bench-node: node-can-run node release ## Measure gangs on a real node, beside the in-tree group preemption (root)
	@target/release/giveway-dev bench-node $(BENCH)

clean: down ## Remove everything that was built, except the control plane
	rm -rf target/debug target/release target/crds target/e2e target/chart-*.yaml
