# Makefile - builds, tests and installs Tollgate. GNU make; `make help` lists what there is.
#
# One make builds one variant: `make` the usual one into build/, `make VARIANT=asan` another into
# build/asan/. Each variant keeps its objects to itself, and a change of flags rebuilds them, so
# objects of two compilers or two sets of flags never meet in one program. `make test` calls make
# once for each variant it needs.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-print-directory --no-builtin-rules

VARIANT ?= release
BUILD   := build
B       := $(BUILD)$(if $(filter-out release,$(VARIANT)),/$(VARIANT))

# The header is the one place where the version is written.
version = $(shell sed -n 's/^\#define TG_VERSION_$(1) //p' include/tollgate.h)
MAJOR   := $(call version,MAJOR)
MINOR   := $(call version,MINOR)
VERSION := $(MAJOR).$(MINOR).$(call version,PATCH)

# ---- What is built from what -------------------------------------------------------------------
#
# Files are found, not listed. The rooms of src/lib do no I/O and make up libtollgate; everything else
# belongs to the program, the benchmarks included: `tollgate bench` is one of its commands.

LIB_SRC    := $(wildcard src/lib/*/*.c)
# libtollgate-posix is a part of src/io/posix, and the run of a call, which needs nothing but tollgate.h.
POSIX_LIB_SRC := $(patsubst %,src/io/posix/%.c,clock memory process_clock thread_admit wakes) \
                 src/lib/admission/admission_run.c
# Programs that put load on a gateway are tools of their own, and no part of it.
LOAD_SRC   := $(filter-out bench/load_kit.c,$(wildcard bench/load_*.c))
DAEMON_ROOMS := src/io/* src/server/* src/server/dialect/* src/lab/* src/cli src/cli/*
DAEMON_SRC := $(wildcard $(DAEMON_ROOMS:%=%/*.c) $(DAEMON_ROOMS:%=%/*.cc)) \
              $(filter-out bench/load_%,$(wildcard bench/*.c))
# Rooms and commands that replay, sim, solve and regret can do without, because nothing below may include
# them (tools/rooms): the services, the mock, the view in the terminal, benchmarks. Variants of which the
# output alone is compared leave them out.
DECIDES_NOTHING := $(addsuffix %,bench/ src/lab/mock/ src/cli/top/ src/cli/spend_ src/server/serve/ src/server/admin/ src/server/probe/ src/server/explain/ src/server/me/ \
    src/server/admit/ src/server/envoy/ src/server/protect/ src/server/proxy/) \
    $(patsubst %,src/cli/cmd_%.c,bench check key mock serve spend top)
ifneq ($(filter O0 O3 clang-O0 clang-O3,$(VARIANT)),)
DECIDING   := yes
DAEMON_SRC := $(filter-out $(DECIDES_NOTHING),$(DAEMON_SRC))
endif
# Helpers of tests of the network need the program's parts; the others need the library alone.
NET_HELPER_SRC := $(wildcard tests/lib/net_*.c)
HELPER_SRC := $(filter-out $(NET_HELPER_SRC),$(wildcard tests/lib/*.c))
UNIT_SRC   := $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c tests/unit/*/*/*/test_*.c \
                tests/prop/test_*.c)
LIB_UNIT_SRC := $(filter tests/unit/lib/% tests/prop/%,$(UNIT_SRC))
THREAD_SRC := $(wildcard tests/thread/test_*.c)
FUZZ_SRC   := $(wildcard fuzz/fuzz_*.c)
CLI_TESTS  := $(wildcard tests/cli/*.sh)
API_TESTS  := $(wildcard tests/api/*.sh)
TOOL_TESTS := $(wildcard tests/tools/*.sh)

# The parser of HTTP/1: Debian ships its generated C, and it is compiled where it lies.
LLHTTP     := /usr/share/llhttp
LLHTTP_OBJ := $(patsubst %,$(B)/obj/llhttp/%.o,llhttp api http)

# The dashboard: its files, and the chart library as Debian ships it, are laid into the program.
WEB_SRC  := $(wildcard web/*.html web/*.js web/*.css web/*.svg)
CHART_JS := /usr/share/javascript/chart.js/chart.min.js
WEB_PATHS := $(patsubst /index.html=%,/=%,$(foreach file,$(WEB_SRC),/$(notdir $(file))=$(file))) \
             /chart.js=$(CHART_JS)
WEB_OBJ  := $(B)/obj/gen/web_bytes.o

# Scripts that Redis runs are laid into it, too.
LUA_SRC  := $(wildcard src/server/remote_store/lua/*.lua)
LUA_OBJ  := $(B)/obj/gen/lua_scripts.o

# List prices of models.
CATALOGUE_OBJ := $(B)/obj/gen/catalogue_bytes.o

# Messages of the gRPC services: C is made of their contracts, and stands beside what is built.
PROTO_SRC := $(sort $(shell find proto -name '*.proto'))
PROTO_DIR := $(B)/gen/proto
PROTO_C   := $(PROTO_SRC:proto/%.proto=$(PROTO_DIR)/%.pb-c.c)
PROTO_OBJ := $(PROTO_SRC:proto/%.proto=$(B)/obj/gen/proto/%.pb-c.o)
# The contracts themselves, which reflection hands out.
DESCRIPTOR_OBJ := $(B)/obj/gen/descriptor_set.o

objects = $(patsubst %,$(B)/$(1)/%.o,$(basename $(2)))
LIB_OBJ    := $(call objects,obj,$(LIB_SRC))
PIC_OBJ    := $(call objects,pic,$(LIB_SRC))
POSIX_LIB_OBJ := $(call objects,obj,$(POSIX_LIB_SRC))
POSIX_PIC_OBJ := $(call objects,pic,$(POSIX_LIB_SRC))
DAEMON_OBJ := $(call objects,obj,$(DAEMON_SRC)) $(LLHTTP_OBJ) $(if $(DECIDING),,$(WEB_OBJ)) $(LUA_OBJ) $(CATALOGUE_OBJ) \
              $(PROTO_OBJ) $(DESCRIPTOR_OBJ)
HELPER_OBJ := $(call objects,obj,$(HELPER_SRC))
NET_HELPER_OBJ := $(call objects,obj,$(NET_HELPER_SRC))

# Where a test program lands in a variant; $(1) is the variant's folder, $(2) the sources.
programs = $(patsubst %.c,$(1)/%,$(2))
UNIT   := $(call programs,$(B),$(UNIT_SRC))
THREAD := $(call programs,$(B),$(THREAD_SRC))
FUZZ   := $(call programs,$(B),$(FUZZ_SRC))
LOAD   := $(LOAD_SRC:bench/%.c=$(B)/tools/%)

# ---- Flags -------------------------------------------------------------------------------------
#
# release, clang      the usual one, by either compiler; asserts are on, as in all that is tested
# ship                what is installed and measured: release without asserts
# O0 O3, clang-O0 clang-O3   the same without and with more optimisation: their output must not differ.
#                     Their program has the commands that decide, and is made of what these need
# asan tsan           sanitizers; fuzz: libFuzzer's instrumentation, which only clang has

ifneq ($(filter clang% fuzz,$(VARIANT)),)
CC  := clang
CXX := clang++
else
CC  := gcc
CXX := g++
endif

# The compiler knows the tools that belong to it, those of a cross compiler as well.
AR      := $(shell $(CC) -print-prog-name=ar)
OBJCOPY := $(shell $(CC) -print-prog-name=objcopy)

OPT      := -O2
DEBUG    := -g
SANITIZE :=
# float-cast-overflow is not in `undefined`: half of what can go wrong here is a double that
# becomes an integer.
UNDEFINED := undefined,float-cast-overflow
ifeq ($(filter %O0,$(VARIANT)),$(VARIANT))
OPT := -O0
else ifeq ($(filter %O3,$(VARIANT)),$(VARIANT))
OPT := -O3
else ifeq ($(VARIANT),asan)
OPT := -O1
SANITIZE := -fsanitize=address,$(UNDEFINED) -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(VARIANT),tsan)
OPT := -O1
SANITIZE := -fsanitize=thread -fno-omit-frame-pointer
else ifeq ($(VARIANT),fuzz)
OPT := -O1
SANITIZE := -fsanitize=fuzzer-no-link,address,$(UNDEFINED) -fno-sanitize-recover=all
else ifeq ($(filter release clang ship,$(VARIANT)),)
$(error no variant '$(VARIANT)'; there are release clang ship O0 O3 clang-O0 clang-O3 asan tsan fuzz)
endif
# What only asserts use is unused without them; the other variants show what really is.
NDEBUG :=
ifeq ($(VARIANT),ship)
NDEBUG := -DNDEBUG -Wno-unused-function -Wno-unused-variable -Wno-unused-but-set-variable \
          -Wno-unused-parameter
endif
# A sanitizer's report names lines, and needs no more, nor does a test that fails with the second compiler;
# where output alone is compared, nobody looks.
ifneq ($(SANITIZE)$(filter clang,$(VARIANT)),)
DEBUG := -g1
else ifneq ($(filter %O0 %O3,$(VARIANT)),)
DEBUG := -g0
endif

ifeq ($(CI),true)
WERROR := 1
endif

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion $(if $(WERROR),-Werror)
# Fortified calls need an optimising compiler, and hide from the sanitizers what they look for.
FORTIFY := $(if $(SANITIZE)$(filter -O0,$(OPT)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
# No contraction into fused multiply-add: a decision must not depend on compiler or processor. What is
# built does not depend on the folder it was built in either.
COMMON := $(OPT) $(DEBUG) -ffile-prefix-map=$(CURDIR)=. -ffp-contract=off -fvisibility=hidden -pthread $(SANITIZE) $(FORTIFY) $(WARN) \
          -Iinclude -Isrc -I$(PROTO_DIR)$(if $(NDEBUG), $(NDEBUG))
C_FLAGS   := -std=c11 -D_POSIX_C_SOURCE=200809L $(COMMON) $(CFLAGS)
CXX_FLAGS := -std=c++17 -fno-exceptions -fno-rtti $(COMMON) $(CXXFLAGS)
LD_FLAGS  := -pthread $(SANITIZE) -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed $(LDFLAGS)
LIB_LIBS    := -lm
DAEMON_LIBS := -lhiredis -lsimdjson -lyaml -lsqlite3 -luv -lnghttp2 -lprotobuf-c -lz -lssl -lcrypto -lm

# Two sets of library objects: those of the program and of libtollgate.a are for executables alone
# and call each other directly; those of the shared library are position independent. The program and
# tests link them from an archive of their own, because libtollgate.a hides what is not tg_*.
PIE := -fPIE
PIC := -fPIC

# One short line for each step; V=1 shows the commands.
Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# ---- Targets for people ------------------------------------------------------------------------

.PHONY: all lib tests lib-tests deps run check test bench soak lint rooms walk mutants format fuzz install \
        install-lib clean help bench-shipped install-shipped install-lib-shipped FORCE

# Use all cores unless told otherwise. A make inside make shares its parent's.
JOBS := $(shell nproc 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif

all: lib $(B)/tollgate ; @:
LIBRARIES := libtollgate libtollgate-posix
lib: $(LIBRARIES:%=$(B)/%.a) $(if $(SANITIZE),,$(LIBRARIES:%=$(B)/%.so)) ; @:
tests: $(UNIT) $(THREAD) ; @:

help:
	@echo 'make            build the program and the library into build/'
	@echo 'make lib        the library alone, which needs a C compiler, libc and xxhash.h; CC=... cross compiles'
	@echo 'make deps       install the Debian packages that are missing (tools/packages lists them)'
	@echo 'make run        deps, build, then a gateway to try, in front of a made-up upstream'
	@echo 'make test       deps, then all tests: gcc, clang, sanitizers, 10 s of each fuzz target'
	@echo 'make check      the tests of the usual build alone, for while you work'
	@echo 'make e2e        the gateway seen by real clients, the usual build alone'
	@echo 'make bench      measure, and compare with hand-written loops and with nginx'
	@echo 'make soak       the gateway among bad clients, thread tests again and again, SOAK_SECONDS=60'
	@echo 'make fuzz       every fuzz target for FUZZ_SECONDS=60, from FUZZ_SEED if given'
	@echo 'make lint       layout, layering and habits of the source'
	@echo 'make rooms      the rooms of src: their sizes and ranks, and calls between them that go wrong'
	@echo 'make walk       functions, files and changes of file that four typical runs pass through'
	@echo 'make mutants    ROOM=lib/limit: do the nearest tests notice changes of its code? SAMPLE=300 SEED=1'
	@echo 'make format     the layout that lint wants'
	@echo 'make install    into PREFIX=/usr/local, under DESTDIR if given'
	@echo 'make install-lib  the library alone: header, archive, shared library, pkg-config file, documents'
	@echo 'make deb        Debian packages; make image: an OCI image; make chart: check and render the Helm chart'
	@echo 'make wheel       the Python package: the gate in process, a client of Admit, retries'
	@echo 'make site       the documentation as a site; make dist: the source; make sbom: what the program is made of'
	@echo 'make release    all of it in build/dist, with checksums; TOLLGATE_SIGN_KEY signs them'
	@echo 'make ship-test  tests of all that, as root: a bare Debian, the image, two builds that must not differ'
	@echo 'make arm64-test the program and the library cross compiled for arm64, tested under qemu'
	@echo 'make clean      remove build/'
	@echo
	@echo 'VARIANT=clang|ship|O0|O3|clang-O0|clang-O3|asan|tsan|fuzz builds into build/VARIANT/;'
	@echo 'WERROR=1 (or CI=true) turns warnings into errors, V=1 shows every command.'

deps:
	@tools/deps

run:
	@tools/deps build
	@$(MAKE) all
	@TOLLGATE=$(B)/tollgate tools/demo

bench:
	@tools/deps build bench
	@$(MAKE) VARIANT=ship bench-shipped
bench-shipped: $(B)/tollgate $(LOAD)
	$(B)/tollgate bench $(BENCH_ARGS)
	@TOLLGATE=$(B)/tollgate LOAD=$(B)/tools tools/bench-gateway
	@TOLLGATE=$(B)/tollgate tools/bench-grpc
	@TOLLGATE=$(B)/tollgate tools/bench-protect
	@TOLLGATE=$(B)/tollgate SCRIPTS=$(B)/gen/lua tools/bench-redis

lint:
	@tools/deps lint
	@tools/lint
rooms: all
	@tools/rooms . $(B)/obj
# WALK=DIR walks through another tree, such as a clone of an older commit.
walk:
	@tools/deps build walk
	@tools/walk $(WALK)
# ROOM=lib/limit, or a floor: ROOM=lib. JOBS says how many at once.
SAMPLE ?= 300
SEED   ?= 1
mutants:
	@tools/deps build test mutants
	@tools/mutants --sample $(SAMPLE) --seed $(SEED) --jobs $(JOBS) $(ROOM)
format:
	@tools/lint fix

clean:
	rm -rf $(BUILD)

# test, check, fuzz and soak.
include tools/test.mk
# deb, image, chart, site, dist and ship-test.
include tools/ship.mk

# ---- How ---------------------------------------------------------------------------------------

# Remembers compiler and flags; rewritten only when they change, and then all objects are old. At
# that moment it is also worth a look whether the tools are there: those for the library, and when
# something of the program is built, those for the program.
STAMP := $(B)/flags
FLAGS  = $(CC) $(C_FLAGS) | $(CXX) $(CXX_FLAGS) | $(LD_FLAGS) $(DAEMON_LIBS)
$(STAMP): FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || { tools/check-tools '$(CC)' && echo '$(FLAGS)' >$@; }
PROGRAM_STAMP := $(B)/flags-program
$(PROGRAM_STAMP): $(STAMP)
	@tools/check-tools '$(CC)' '$(CXX)' && touch $@
$(filter-out $(POSIX_LIB_OBJ),$(DAEMON_OBJ)) $(NET_HELPER_OBJ): | $(PROGRAM_STAMP)

compile_c   = $(Q)mkdir -p $(@D) && $(CC) $(C_FLAGS) $(1) -MMD -MP -c -o $@ $<
compile_cxx = $(Q)mkdir -p $(@D) && $(CXX) $(CXX_FLAGS) $(1) -MMD -MP -c -o $@ $<
archive     = $(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)

$(B)/obj/%.o: %.c $(STAMP)
	$(call say,cc,$@)
	$(call compile_c,$(PIE))

$(B)/obj/%.o: %.cc $(STAMP)
	$(call say,c++,$@)
	$(call compile_cxx,$(PIE))

# Strict, in the parser and in the one file that knows it: see src/io/http/http1_parse.c. Warnings are
# its authors' business.
STRICT := -DLLHTTP_STRICT_MODE=1 -isystem /usr/share/include/llhttp
$(LLHTTP_OBJ): $(B)/obj/llhttp/%.o: $(LLHTTP)/%.c $(STAMP)
	$(call say,cc,$@)
	$(call compile_c,$(PIE) $(STRICT) -w)
$(B)/obj/src/io/http/http1_parse.o: PIE += $(STRICT)

# The assembler takes the bytes from the files: when one changes, all of this is made anew.
$(B)/gen/web_bytes.c: tools/embed $(WEB_SRC) $(wildcard $(CHART_JS)) $(STAMP)
	$(call say,embed,$@)
	$(Q)mkdir -p $(@D) && tools/embed $(WEB_PATHS) >$@
$(WEB_OBJ): $(B)/gen/web_bytes.c
	$(call say,cc,$@)
	$(call compile_c,$(PIE))

# Where the assembler finds it, and where it ends.
$(B)/gen/catalogue_bytes.c: share/catalogue.yaml $(STAMP)
	$(call say,embed,$@)
	$(Q)mkdir -p $(@D) && printf '%s\n' '/* catalogue_bytes.c - written by the Makefile. */' \
	    '__asm__(".section .rodata\n.globl catalogue_bytes, catalogue_end\ncatalogue_bytes:\n"' \
	    '        ".incbin \"$<\"\ncatalogue_end:\n.byte 0\n.text\n");' >$@
$(CATALOGUE_OBJ): $(B)/gen/catalogue_bytes.c
	$(call say,cc,$@)
	$(call compile_c,$(PIE))

$(B)/gen/lua_scripts.c: tools/embed-lua $(LUA_SRC) $(STAMP)
	$(call say,embed,$@)
	$(Q)mkdir -p $(@D) && tools/embed-lua $(@D)/lua $(LUA_SRC) >$@
$(LUA_OBJ): $(B)/gen/lua_scripts.c
	$(call say,cc,$@)
	$(call compile_c,$(PIE))

# Both files of a contract come from one run. What is made is its generator's business, warnings
# included; whoever includes it has to find it there.
$(PROTO_DIR)/%.pb-c.c $(PROTO_DIR)/%.pb-c.h: proto/%.proto $(STAMP) | $(PROGRAM_STAMP)
	$(call say,proto,$@)
	$(Q)mkdir -p $(PROTO_DIR) && protoc-c --proto_path=proto --c_out=$(PROTO_DIR) $<
$(PROTO_OBJ): $(B)/obj/gen/proto/%.o: $(PROTO_DIR)/%.c
	$(call say,cc,$@)
	$(call compile_c,$(PIE) -w)
$(B)/gen/descriptor_set.c: $(PROTO_SRC) $(STAMP) | $(PROGRAM_STAMP)
	$(call say,embed,$@)
	$(Q)mkdir -p $(@D) && protoc-c --proto_path=proto --descriptor_set_out=$(@:.c=.pb) $(PROTO_SRC) && \
	    printf '%s\n' '/* descriptor_set.c - written by the Makefile. */' \
	    '__asm__(".section .rodata\n.globl descriptor_set_bytes, descriptor_set_end\n"' \
	    '        "descriptor_set_bytes:\n.incbin \"$(@:.c=.pb)\"\ndescriptor_set_end:\n"' \
	    '        ".byte 0\n.text\n");' >$@
$(DESCRIPTOR_OBJ): $(B)/gen/descriptor_set.c
	$(call say,cc,$@)
	$(call compile_c,$(PIE))
$(call objects,obj,$(filter-out $(POSIX_LIB_SRC),$(DAEMON_SRC)) $(filter-out $(LIB_UNIT_SRC),$(UNIT_SRC)) \
    $(FUZZ_SRC)): | $(PROTO_C:.c=.h)

$(B)/pic/%.o: %.c $(STAMP)
	$(call say,cc,$@)
	$(call compile_c,$(PIC))

# The library's parts, which the program and tests may look into.
$(B)/libparts.a: $(LIB_OBJ)
	$(call say,ar,$@)
	$(archive)

# One object in which only tg_* is global: a program may have a queue_push() of its own.
$(B)/libtollgate.a: $(LIB_OBJ)
$(B)/libtollgate-posix.a: $(POSIX_LIB_OBJ)
$(LIBRARIES:%=$(B)/%.a): $(B)/lib%.a:
	$(call say,ar,$@)
	$(Q)$(CC) -r -nostdlib -o $(B)/$*.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(B)/$*.o
	$(Q)rm -f $@ && $(AR) rcsD $@ $(B)/$*.o && rm -f $(B)/$*.o

# The soname carries major and minor until 1.0, because until then a minor may break programs.
SONUMBER := $(MAJOR).$(MINOR)
$(LIBRARIES:%=$(B)/%.so): %.so: %.so.$(VERSION)
	$(Q)ln -sf $(notdir $<) $*.so.$(SONUMBER) && ln -sf $(notdir $*).so.$(SONUMBER) $@
link_shared = $(Q)$(CC) -shared -Wl,-soname,$(1).so.$(SONUMBER) -Wl,--version-script=$(filter %.map,$^) \
              -Wl,-z,defs $(LD_FLAGS) -o $@ $(filter %.o,$^)
$(B)/libtollgate.so.$(VERSION): $(PIC_OBJ) src/lib/tollgate.map
	$(call say,ld,$@)
	$(call link_shared,libtollgate) $(LIB_LIBS)
$(B)/libtollgate-posix.so.$(VERSION): $(POSIX_PIC_OBJ) src/io/posix/tollgate_posix.map $(B)/libtollgate.so
	$(call say,ld,$@)
	$(call link_shared,libtollgate-posix) -L$(B) -ltollgate

# The C++ compiler links, because the JSON reader is C++.
link = $(Q)mkdir -p $(@D) && $(CXX) -pie $(LD_FLAGS) $(1) -o $@ $(filter %.o,$^) $(filter %.a,$^)
# What the deciding commands do not need stays in the archive, and so does who asks for what is left out.
$(B)/tollgate: $(if $(DECIDING),$(B)/obj/src/cli/main.o $(B)/libdaemon.a,$(DAEMON_OBJ)) $(B)/libparts.a
	$(call say,ld,$@)
	$(link) $(DAEMON_LIBS)
$(B)/obj/src/cli/main.o: PIE += $(if $(DECIDING),-DDECIDING_COMMANDS)

$(LOAD): $(B)/tools/%: $(B)/obj/bench/%.o $(B)/obj/bench/load_kit.o $(B)/libparts.a
	$(call say,ld,$@)
	$(link) -lm

# Everything of the program in one archive, for tests of its parts: they take what they need.
$(B)/libdaemon.a: $(DAEMON_OBJ)
	$(archive)

# There are hundreds of test programs: they are linked by the quicker linker, where there is one.
TEST_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)

# Tests of the library link the library alone, so that it cannot come to need the program.
LIB_TESTS    := $(filter $(B)/tests/unit/lib/% $(B)/tests/prop/%,$(UNIT)) $(THREAD)
DAEMON_TESTS := $(filter-out $(LIB_TESTS),$(UNIT))
lib-tests: $(LIB_TESTS) ; @:
# One test compares with a solver that others wrote.
$(B)/tests/prop/test_fluid_glpk: LIB_LIBS += -lglpk
# One plays Redis itself: its own definitions, which are linked first, stand for the real ones.
$(B)/tests/unit/server/remote/test_remote_claim: TEST_LD += -Wl,-z,muldefs
$(LIB_TESTS): $(B)/%: $(B)/obj/%.o $(HELPER_OBJ) $(B)/libparts.a
	$(call say,ld,$@)
	$(call link,$(TEST_LD)) -lcmocka $(LIB_LIBS)
$(DAEMON_TESTS): $(B)/%: $(B)/obj/%.o $(HELPER_OBJ) $(NET_HELPER_OBJ) $(B)/libdaemon.a $(B)/libparts.a
	$(call say,ld,$@)
	$(call link,$(TEST_LD)) -lcmocka $(DAEMON_LIBS)
$(B)/obj/tests/%.o: PIE += -Itests/lib
# A test's own code runs once. gcc finds what is uninitialized as it optimises, so the usual build does.
$(call objects,obj,$(filter tests/unit/%,$(UNIT_SRC))): PIE += $(if $(filter clang asan,$(VARIANT)),-O0 -U_FORTIFY_SOURCE)

# What is fuzzed needs no command and no mock, and the instruments of a fuzzer take long to build in.
UNFUZZED := $(filter bench/% src/lab/mock/% src/cli/main.c $(patsubst %,src/cli/%,cmd_% sim/% top/% \
                regret_% replay/replay_%),$(DAEMON_SRC))
$(B)/libfuzzed.a: $(filter-out $(call objects,obj,$(UNFUZZED)),$(DAEMON_OBJ))
	$(archive)
$(FUZZ): $(B)/%: $(B)/obj/%.o $(B)/libfuzzed.a $(B)/libparts.a
	$(call say,ld,$@)
	$(call link,-fsanitize=fuzzer) $(DAEMON_LIBS)

# Objects of tests are worth keeping too.
.SECONDARY:

-include $(patsubst %.o,%.d,$(LIB_OBJ) $(PIC_OBJ) $(POSIX_PIC_OBJ) $(DAEMON_OBJ) $(HELPER_OBJ) $(NET_HELPER_OBJ) \
    $(call objects,obj,$(UNIT_SRC) $(THREAD_SRC) $(FUZZ_SRC) $(wildcard bench/load_*.c)))

# ---- Installing --------------------------------------------------------------------------------

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc/tollgate
MAN        := $(wildcard man/*.1)

# Folders below the prefix are written relative to it, so that pkg-config can move it.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
fill_in = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
              -e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|' -e 's|@VERSION@|$(VERSION)|'

# What is installed has no asserts, whatever was built before.
install:
	@$(MAKE) VARIANT=ship install-shipped
install-lib:
	@$(MAKE) VARIANT=ship install-lib-shipped
install-shipped: all install-lib-shipped
	install -d $(DESTDIR)$(BINDIR)
	install -m 755 $(B)/tollgate $(DESTDIR)$(BINDIR)/
	$(if $(MAN),install -d $(DESTDIR)$(MANDIR)/man1 && install -m 644 $(MAN) $(DESTDIR)$(MANDIR)/man1/)
install-lib-shipped: lib
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(DOCDIR)
	install -m 644 $(foreach l,$(LIBRARIES),$(B)/$l.a $(B)/$l.so.$(VERSION)) $(DESTDIR)$(LIBDIR)/
	$(foreach l,$(LIBRARIES),ln -sf $l.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$l.so.$(SONUMBER) && \
	    ln -sf $l.so.$(SONUMBER) $(DESTDIR)$(LIBDIR)/$l.so &&) true
	install -m 644 include/tollgate.h include/tollgate_posix.h $(DESTDIR)$(INCLUDEDIR)/
	$(foreach l,tollgate tollgate-posix,$(fill_in) $l.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$l.pc &&) true
	install -m 644 LICENSE README.md CHANGELOG.md $(DESTDIR)$(DOCDIR)/
	find docs examples -type f ! -name '.*' -exec install -D -m 644 '{}' '$(DESTDIR)$(DOCDIR)/{}' ';'
