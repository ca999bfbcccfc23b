# ship.mk - the part of the Makefile that makes what is given to others: packages, an image, a chart, a
# site, a source archive, a list of what is in them, and checksums with a signature.

.PHONY: deb image chart site wheel dist sbom release ship-test arm64-test ship-image ship-wheel

# From a copy of the tree under build/deb; lintian's complaints are errors.
deb:
	@tools/deps build ship
	@tools/deb

image:
	@tools/deps build
	@$(MAKE) VARIANT=ship ship-image
ship-image: $(B)/tollgate
	@tools/image $(B)/tollgate $(BUILD)/image

# helm is a module of Go, whose compiler has to be newer than Debian 12's: 1.21, which gets what it needs.
HELM_VERSION := v3.21.4
HELM := $(BUILD)/helm/helm
$(HELM):
	$(call say,go,$@)
	$(Q)mkdir -p $(@D) && GOBIN=$(abspath $(@D)) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION) \
	    >$(@D)/go.log 2>&1 || { cat $(@D)/go.log; exit 1; }

# Checks the chart and renders it anew for each set of values; what it becomes is in the tree, so that
# a change shows there, and `make test` need not build helm.
chart: $(HELM)
	@HELM=$(HELM) tools/render-chart

SITE_TOOLS := $(BUILD)/site-tools
$(SITE_TOOLS)/installed: packaging/site/requirements.txt
	$(call say,pip,$@)
	$(Q)python3 -m venv --clear $(@D) && { $(@D)/bin/python -m pip install --disable-pip-version-check \
	    --no-deps --no-compile --only-binary :all: -r $< >$(@D)/pip.log 2>&1 || \
	      { cat $(@D)/pip.log; exit 1; }; }
	$(Q)touch $@
site: $(SITE_TOOLS)/installed
	@$(SITE_TOOLS)/bin/python tools/site $(BUILD)/site

# The Python package, with the library as it is shipped.
wheel:
	@tools/deps build
	@$(MAKE) $(PYTHON_TOOLS)/tools
	@$(MAKE) VARIANT=ship ship-wheel
ship-wheel: $(B)/libtollgate.so.$(VERSION)
	@tools/wheel $(B)/libtollgate.so.$(VERSION) $(BUILD)/wheel $(PYTHON_TOOLS)/venv/bin/python

# The source as it is committed.
dist:
	@tools/dist $(BUILD)/dist

# What the program is made of.
sbom: $(BUILD)/ship/tollgate
	@mkdir -p $(BUILD)/dist
	@tools/sbom $(BUILD)/ship/tollgate >$(BUILD)/dist/tollgate-$(VERSION).spdx.json
ifneq ($(VARIANT),ship)
$(BUILD)/ship/tollgate: FORCE
	@$(MAKE) VARIANT=ship $@
endif

# Everything in build/dist, with checksums; TOLLGATE_SIGN_KEY is the key of gpg that signs them.
release:
	@tools/deps build ship
	@$(MAKE) dist sbom
	@$(MAKE) image deb wheel
	@cp $(BUILD)/image/*.oci.tar $(BUILD)/deb/*.deb $(BUILD)/wheel/*.whl $(BUILD)/dist/
	@tools/sign $(BUILD)/dist

# Other people's proxies and clients, and our wheel: what docs/recipes.md is tested with. Caddy and grpc-go are modules of Go.
RECIPES := $(BUILD)/recipes
CADDY_VERSION := v2.11.7
$(RECIPES)/installed: tests/ship/recipes/requirements.txt $(PYTHON_TOOLS)/installed
	$(call say,pip,$@)
	$(Q)mkdir -p $(@D) && python3 -m venv --clear $(@D)/venv && { $(@D)/venv/bin/python -m pip install \
	    --disable-pip-version-check --no-deps --no-compile --only-binary :all: -r $< \
	    $(PYTHON_TOOLS)/wheel/*.whl >$(@D)/pip.log 2>&1 || { cat $(@D)/pip.log; exit 1; }; }
	$(Q)touch $@

$(RECIPES)/caddy:
	$(call say,go,$@)
	$(Q)mkdir -p $(@D) && GOBIN=$(abspath $(@D)) go install github.com/caddyserver/caddy/v2/cmd/caddy@$(CADDY_VERSION) \
	    >$(@D)/go.log 2>&1 || { cat $(@D)/go.log; exit 1; }

$(RECIPES)/grpc_go: $(wildcard tests/ship/recipes/grpc_go/*)
	$(call say,go,$@)
	$(Q)mkdir -p $(@D) && go build -C tests/ship/recipes/grpc_go -o $(abspath $@) . >$(@D)/grpc_go.log 2>&1 || \
	    { cat $(@D)/grpc_go.log; exit 1; }

# Another processor: all of it cross compiled, the tests of the library under qemu, and decisions that are
# those of this machine's program, to the byte. Debian's libraries for it are unpacked beside what is built, not
# installed. Seven minutes of a core; the test that asks GLPK needs its libraries, and runs here alone.
ARM64      := $(BUILD)/arm64
ARM64_ROOT := $(abspath $(ARM64))/root
ARM64_LIBRARIES := libcmocka-dev libhiredis-dev libnghttp2-dev libprotobuf-c-dev libsimdjson-dev libsqlite3-dev \
    libssl-dev libstdc++-12-dev libuv1-dev libxxhash-dev libyaml-dev zlib1g-dev
ARM64_MAKE := $(MAKE) BUILD=$(ARM64) CC='aarch64-linux-gnu-gcc --sysroot=$(ARM64_ROOT)' \
    CXX='aarch64-linux-gnu-g++ --sysroot=$(ARM64_ROOT)'
empty :=
comma := ,
$(ARM64_ROOT): tools/ship.mk
	$(call say,apt,$@)
	$(Q)rm -rf $@ $@.new && mkdir -p $(@D) && mmdebstrap --quiet --variant=extract --architectures=arm64 \
	    --include=$(subst $(empty) $(empty),$(comma),$(ARM64_LIBRARIES)) bookworm $@.new && mv $@.new $@ && touch $@
$(ARM64)/run-tollgate: | $(ARM64_ROOT)
	$(Q)printf '%s\n' '#!/bin/sh' 'exec qemu-aarch64 -L $(ARM64_ROOT) $(abspath $(ARM64))/tollgate "$$@"' >$@ && chmod +x $@
ARM64_TESTS := $(call programs,$(ARM64),$(filter-out %_glpk.c,$(LIB_UNIT_SRC)) $(THREAD_SRC))
ARM64_DECISIONS := $(patsubst %,tests/cli/%.sh,golden charge replay replay_gate replay_policy same_bytes sim sim_gate sim_scenario solve)
arm64-test:
	@tools/deps build test ship
	@$(MAKE) $(BUILD)/tollgate $(ARM64)/run-tollgate
	@$(ARM64_MAKE) lib $(ARM64)/tollgate $(ARM64_TESTS)
	@TEST_TIMEOUT=3600 tools/run-tests @arm64 WITH='qemu-aarch64 -L $(ARM64_ROOT)' $(ARM64_TESTS) \
	    @arm64-decisions TOLLGATE=$(ARM64)/run-tollgate TOLLGATE_X86_64=$(BUILD)/tollgate $(ARM64_DECISIONS)

# What takes long and needs root: packages in a bare Debian, the image, two builds that must not differ, and
# other people's proxies. None of it is in `make test`: of its parts only the chart, the site and the manual are
# quick, and they are there already. On two cores that are used by others as well it takes more than an hour: two
# builds of everything, helm from source, the chroot; LiteLLM alone takes ten seconds of a core to start.
ship-test:
	@tools/deps build test ship
	@$(MAKE) VARIANT=ship ship-image
	@$(MAKE) deb
	@$(MAKE) $(HELM) $(SITE_TOOLS)/installed $(VALIDATORS)/installed $(RECIPES)/installed $(RECIPES)/caddy $(RECIPES)/grpc_go
	@TEST_TIMEOUT=3600 JOBS=1 tools/run-tests @ship TOLLGATE=$(BUILD)/ship/tollgate IMAGE=$(BUILD)/image \
	    DEBS=$(BUILD)/deb HELM=$(HELM) VALIDATORS=$(VALIDATORS) SITE_TOOLS=$(SITE_TOOLS) \
	    RECIPES=$(RECIPES) CADDY=$(RECIPES)/caddy GRPC_GO=$(RECIPES)/grpc_go $(wildcard tests/ship/*.sh) tests/tools/chart.sh tests/tools/site.sh tests/tools/manual.sh
	@$(MAKE) arm64-test
