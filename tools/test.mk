# test.mk - the part of the Makefile that runs tests: which programs, of which variants, with what.
#
# tools/run-tests takes groups: @label, then NAME=VALUE for the environment (WITH is a command to
# run programs under, JOBS how many at once), then programs. Every program speaks TAP.
#
# Shell tests get
#   TOLLGATE                          the program under test, of the variant that is being tested
#   TOLLGATE_O0 TOLLGATE_O3           the program by gcc at -O0 and -O3, and by clang:
#   TOLLGATE_CLANG_O0 TOLLGATE_CLANG_O3   (not set by `make check`: then skip)
#   TOLLGATE_SHIP                     the program as it is installed, without asserts (likewise)
#   TOLLGATE_X86_64                   the program of this machine, when the one under test is another's (`make arm64-test`)
#   BUILD CC CXX                      tests/api: the folder with the libraries, and the compilers
#   VALIDATORS SITE_TOOLS             tests/tools: folders with validators and mkdocs from PyPI (`make check`: none)
#   PYTHON_TOOLS                      tests/tools: the folder with Python and the wheel in it (likewise)
#   E2E_MODULES E2E_SERVE             tests/e2e: the folder with the clients, options of serve

GOLDEN := O0 O3 clang-O0 clang-O3
# Tests run with asserts, in every variant; the program without them has to print the same as the others,
# and is installed by a test.
GCC_GROUP = @gcc TOLLGATE=$(BUILD)/tollgate BUILD=$(BUILD) CC=gcc CXX=g++ VALIDATORS=$(VALIDATORS) SITE_TOOLS=$(SITE_TOOLS) PYTHON_TOOLS=$(PYTHON_TOOLS) \
    $(call programs,$(BUILD),$(UNIT_SRC) $(THREAD_SRC)) $(CLI_TESTS) $(API_TESTS) $(TOOL_TESTS)
CLANG_GROUP = @clang TOLLGATE=$(BUILD)/clang/tollgate BUILD=$(BUILD)/clang CC=clang CXX=clang++ \
    $(call programs,$(BUILD)/clang,$(UNIT_SRC)) $(CLI_TESTS) \
    $(filter-out tests/api/install.sh tests/api/abi.sh,$(API_TESTS))
ASAN_GROUP = @asan WITH=tools/same-addresses \
    $(call programs,$(BUILD)/asan,$(UNIT_SRC) $(THREAD_SRC))
# Unit tests of the program's parts that have threads are named for it, and run under TSan as well.
UNIT_THREAD_SRC := $(filter %_threads.c,$(UNIT_SRC))
TSAN_GROUP = @tsan WITH=tools/same-addresses \
    $(call programs,$(BUILD)/tsan,$(THREAD_SRC) $(UNIT_THREAD_SRC))
# The gateway as its clients see it: their SDKs, pinned, run against it and the mock. What they need
# is installed beside what is built.
E2E_SRC := $(filter-out tests/e2e/%kit.mjs,$(wildcard tests/e2e/*.mjs))
E2E_MODULES := $(BUILD)/e2e
E2E_WITH := E2E_MODULES=$(E2E_MODULES) WITH=tools/node-tap
E2E_GROUP = @e2e TOLLGATE=$(BUILD)/tollgate $(E2E_WITH) $(E2E_SRC)
# Leaks are looked for by a process that has to be allowed to look. What a browser shows is no matter of
# the gateway's memory: what it asks for is asked for by tests/e2e/admin.mjs, too.
E2E_ASAN_GROUP = @e2e-asan TOLLGATE=$(BUILD)/asan/tollgate E2E_SERVE=--allow-core \
    $(E2E_WITH) $(filter-out tests/e2e/dashboard.mjs,$(E2E_SRC))
# These never wait.
FUZZ_GROUP = @fuzz JOBS=$(JOBS) WITH=tools/fuzz-one $(call programs,$(BUILD)/fuzz,$(FUZZ_SRC))

GOLDEN_ENV = TOLLGATE_O0=$(BUILD)/O0/tollgate TOLLGATE_O3=$(BUILD)/O3/tollgate \
    TOLLGATE_CLANG_O0=$(BUILD)/clang-O0/tollgate TOLLGATE_CLANG_O3=$(BUILD)/clang-O3/tollgate \
    TOLLGATE_SHIP=$(BUILD)/ship/tollgate

test:
	@tools/deps
	@$(MAKE) test-variants
	@$(GOLDEN_ENV) FUZZ_SECONDS=10 FUZZ_SEED=1 tools/run-tests \
	    $(FUZZ_GROUP) $(GCC_GROUP) $(CLANG_GROUP) $(ASAN_GROUP) $(TSAN_GROUP) \
	    $(E2E_GROUP) $(E2E_ASAN_GROUP)

check: all tests
	@tools/run-tests $(GCC_GROUP)

e2e: all $(E2E_MODULES)/installed $(E2E_MODULES)/python/installed
	@tools/run-tests $(E2E_GROUP)

$(E2E_MODULES)/installed: tests/e2e/package.json tests/e2e/package-lock.json
	$(call say,npm,$@)
	$(Q)mkdir -p $(@D) && cp $^ $(@D)/ && cd $(@D) && \
	    { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log || \
	      { cat npm.log; exit 1; }; }
	$(Q)touch $@

$(E2E_MODULES)/python/installed: tests/e2e/requirements.txt
	$(call say,pip,$@)
	$(Q)mkdir -p $(E2E_MODULES) && python3 -m venv --clear $(@D) && { $(@D)/bin/python -m pip install \
	    --disable-pip-version-check --no-deps --no-compile --only-binary :all: -r $< >$(@D)/pip.log 2>&1 || \
	      { cat $(@D)/pip.log; exit 1; }; }
	$(Q)touch $@

# What others say of our documents: validators of OpenAPI and of manifests for Kubernetes.
VALIDATORS := $(BUILD)/validators
$(VALIDATORS)/installed: tests/tools/requirements.txt
	$(call say,pip,$@)
	$(Q)python3 -m venv --clear $(@D) && { $(@D)/bin/python -m pip install --disable-pip-version-check \
	    --no-deps --no-compile --only-binary :all: -r $< >$(@D)/pip.log 2>&1 || \
	      { cat $(@D)/pip.log; exit 1; }; }
	$(Q)touch $@

# Python with what makes and checks our wheel, and the wheel of what is built.
PYTHON_TOOLS := $(BUILD)/python
PYTHON_SRC   := $(shell find python -type f ! -path '*/__pycache__/*')
$(PYTHON_TOOLS)/tools: tests/python/requirements.txt
	$(call say,pip,$@)
	$(Q)mkdir -p $(@D) && python3 -m venv --clear $(@D)/venv && { $(@D)/venv/bin/python -m pip install \
	    --disable-pip-version-check --no-deps --no-compile --only-binary :all: -r $< >$(@D)/pip.log 2>&1 || \
	      { cat $(@D)/pip.log; exit 1; }; }
	$(Q)touch $@
$(PYTHON_TOOLS)/installed: $(PYTHON_TOOLS)/tools $(PYTHON_SRC) tools/wheel proto/tollgate/v1/admission.proto $(BUILD)/libtollgate.so.$(VERSION)
	$(call say,wheel,$@)
	$(Q)CC='$(CC)' tools/wheel $(BUILD)/libtollgate.so.$(VERSION) $(@D)/wheel $(@D)/venv/bin/python >/dev/null
	$(Q)$(@D)/venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-index \
	    --force-reinstall $(@D)/wheel/*.whl
	$(Q)touch $@

FUZZ_SECONDS ?= 60
fuzz:
	@tools/deps
	@$(MAKE) VARIANT=fuzz fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) TEST_TIMEOUT=$$(($(FUZZ_SECONDS) + 120)) \
	    tools/run-tests $(FUZZ_GROUP)

# All variants that `make test` needs, side by side.
.PHONY: test-variants variant-release variant-clang variant-asan variant-tsan variant-fuzz \
        variant-ship $(GOLDEN:%=variant-%) unit-programs thread-programs fuzzers load-programs e2e
test-variants: variant-release variant-clang variant-asan variant-tsan variant-fuzz variant-ship \
               $(GOLDEN:%=variant-%)
variant-release:          ; @$(MAKE) VARIANT=release all tests $(E2E_MODULES)/installed $(E2E_MODULES)/python/installed $(VALIDATORS)/installed $(SITE_TOOLS)/installed \
                          $(PYTHON_TOOLS)/installed
variant-clang:            ; @$(MAKE) VARIANT=clang WERROR=1 all unit-programs
variant-ship:             ; @$(MAKE) VARIANT=ship all load-programs
variant-asan:
	@$(MAKE) VARIANT=asan unit-programs thread-programs $(BUILD)/asan/tollgate
variant-tsan:             ; @$(MAKE) VARIANT=tsan thread-programs
variant-fuzz:             ; @$(MAKE) VARIANT=fuzz fuzzers
$(GOLDEN:%=variant-%):    ; @$(MAKE) VARIANT=$(@:variant-%=%) $(BUILD)/$(@:variant-%=%)/tollgate

unit-programs: $(UNIT) ; @:
thread-programs: $(THREAD) $(call programs,$(B),$(UNIT_THREAD_SRC)) ; @:
fuzzers: $(FUZZ) ; @:
# What `make bench` and `make soak` put load on with: no test runs it, but it has to link.
load-programs: $(LOAD) ; @:

# First threads, which meet in new ways on every run: the thread tests again and again, plain and under
# TSan, each told by TG_SOAK=1 to take its long form. Then the gateway, between clients that are hard to
# bear. SOAK_SECONDS is for each of the two; 600 is the long one. Then tenants that do their worst
# against a provider that bills, SOAK_CALLS of them; what victims and honest agents feel of it. Then
# whether explain says of calls what they are told. Requests and replies by the 100,000 go through the
# dialects and back. Last, RECORDED_CALLS through a gateway that records,
# with memory, with Redis and across reloads: the replay decides each of them as it was.
SOAK_SECONDS ?= 60
SOAK_CALLS ?= 200000
RECORDED_CALLS ?= 20000
soak:
	@$(MAKE) $(call programs,$(BUILD),$(THREAD_SRC))
	@$(MAKE) VARIANT=tsan $(call programs,$(BUILD)/tsan,$(THREAD_SRC))
	@$(MAKE) $(BUILD)/tollgate $(LOAD_SRC:bench/%.c=$(BUILD)/tools/%)
	@SOAK_SECONDS=$(SOAK_SECONDS) tools/soak $(SOAK_GROUPS)
	@$(MAKE) $(TRANSLATED_SOAK)
	@TG_SOAK=1 TEST_TIMEOUT=3600 tools/run-tests @gcc $(TRANSLATED_SOAK)
	@SOAK_SECONDS=$(SOAK_SECONDS) TOLLGATE=$(BUILD)/tollgate LOAD=$(BUILD)/tools tools/soak-gateway
	@SOAK_SECONDS=$(SOAK_SECONDS) TOLLGATE=$(BUILD)/tollgate LOAD=$(BUILD)/tools tools/soak-redis
	@$(MAKE) $(E2E_MODULES)/installed
	@TOLLGATE=$(BUILD)/tollgate E2E_MODULES=$(E2E_MODULES) node --test tools/soak-takeover.mjs
	@SOAK_CALLS=$(SOAK_CALLS) TOLLGATE=$(BUILD)/tollgate tools/soak-adversary
	@LIMIT_REFUSALS=5000 TOLLGATE=$(BUILD)/tollgate E2E_MODULES=$(E2E_MODULES) node --test tests/e2e/limit_trees.mjs
	@TOLLGATE=$(BUILD)/tollgate tools/soak-explain
	@RECORDED_CALLS=$(RECORDED_CALLS) TOLLGATE=$(BUILD)/tollgate E2E_MODULES=$(E2E_MODULES) \
	    node --test tests/e2e/recordings.mjs tests/e2e/recordings_services.mjs
TRANSLATED_SOAK := $(call programs,$(BUILD),$(wildcard tests/unit/server/dialect/translate/test_translate_drawn.c \
                     tests/unit/server/dialect/translate/test_translate_round_trips.c))
SOAK_GROUPS = @gcc $(call programs,$(BUILD),$(THREAD_SRC)) \
              @tsan WITH=tools/same-addresses $(call programs,$(BUILD)/tsan,$(THREAD_SRC))
