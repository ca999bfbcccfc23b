# test.mk - the part of the Makefile that runs tests: which programs, of which variants, with what.
#
# tools/run-tests takes groups: @label, then NAME=VALUE for the environment (WITH is a command to
# run programs under), then programs. Every program speaks TAP.
#
# Shell tests get
#   TOLLGATE                          the program under test, of the variant that is being tested
#   TOLLGATE_O0 TOLLGATE_O3           the program by gcc at -O0 and -O3, and by clang:
#   TOLLGATE_CLANG_O0 TOLLGATE_CLANG_O3   (not set by `make check`: then skip)
#   BUILD CC CXX                      tests/api: the folder with the libraries, and the compilers

GOLDEN := O0 O3 clang-O0 clang-O3
GCC_GROUP = @gcc TOLLGATE=$(BUILD)/tollgate BUILD=$(BUILD) CC=gcc CXX=g++ \
    $(call programs,$(BUILD),$(UNIT_SRC) $(THREAD_SRC)) $(CLI_TESTS) $(API_TESTS)
CLANG_GROUP = @clang TOLLGATE=$(BUILD)/clang/tollgate BUILD=$(BUILD)/clang CC=clang CXX=clang++ \
    $(call programs,$(BUILD)/clang,$(UNIT_SRC)) $(CLI_TESTS) \
    $(filter-out tests/api/install.sh,$(API_TESTS))
ASAN_GROUP = @asan WITH=tools/same-addresses \
    $(call programs,$(BUILD)/asan,$(UNIT_SRC) $(THREAD_SRC))
TSAN_GROUP = @tsan WITH=tools/same-addresses $(call programs,$(BUILD)/tsan,$(THREAD_SRC))
FUZZ_GROUP = @fuzz WITH=tools/fuzz-one $(call programs,$(BUILD)/fuzz,$(FUZZ_SRC))

GOLDEN_ENV = TOLLGATE_O0=$(BUILD)/O0/tollgate TOLLGATE_O3=$(BUILD)/O3/tollgate \
    TOLLGATE_CLANG_O0=$(BUILD)/clang-O0/tollgate TOLLGATE_CLANG_O3=$(BUILD)/clang-O3/tollgate

test:
	@tools/deps
	@$(MAKE) test-variants
	@$(GOLDEN_ENV) FUZZ_SECONDS=10 tools/run-tests \
	    $(FUZZ_GROUP) $(GCC_GROUP) $(CLANG_GROUP) $(ASAN_GROUP) $(TSAN_GROUP)

check: all tests
	@tools/run-tests $(GCC_GROUP)

FUZZ_SECONDS ?= 60
fuzz:
	@tools/deps
	@$(MAKE) VARIANT=fuzz fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) TEST_TIMEOUT=$$(($(FUZZ_SECONDS) + 120)) \
	    tools/run-tests $(FUZZ_GROUP)

# All variants that `make test` needs, side by side.
.PHONY: test-variants variant-release variant-clang variant-asan variant-tsan variant-fuzz \
        $(GOLDEN:%=variant-%) unit-programs thread-programs fuzzers
test-variants: variant-release variant-clang variant-asan variant-tsan variant-fuzz \
               $(GOLDEN:%=variant-%)
variant-release:          ; @$(MAKE) VARIANT=release all tests
variant-clang:            ; @$(MAKE) VARIANT=clang WERROR=1 all unit-programs
variant-asan:             ; @$(MAKE) VARIANT=asan unit-programs thread-programs
variant-tsan:             ; @$(MAKE) VARIANT=tsan thread-programs
variant-fuzz:             ; @$(MAKE) VARIANT=fuzz fuzzers
$(GOLDEN:%=variant-%):    ; @$(MAKE) VARIANT=$(@:variant-%=%) $(BUILD)/$(@:variant-%=%)/tollgate

unit-programs: $(UNIT) ; @:
thread-programs: $(THREAD) ; @:
fuzzers: $(FUZZ) ; @:

# Threads meet in new ways on every run: here the thread tests run again and again, plain and under
# TSan, each told by TG_SOAK=1 to take its long form.
SOAK_SECONDS ?= 60
soak:
	@$(MAKE) $(call programs,$(BUILD),$(THREAD_SRC))
	@$(MAKE) VARIANT=tsan $(call programs,$(BUILD)/tsan,$(THREAD_SRC))
	@SOAK_SECONDS=$(SOAK_SECONDS) tools/soak $(SOAK_GROUPS)
SOAK_GROUPS = @gcc $(call programs,$(BUILD),$(THREAD_SRC)) \
              @tsan WITH=tools/same-addresses $(call programs,$(BUILD)/tsan,$(THREAD_SRC))
