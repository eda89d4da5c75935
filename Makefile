# SPDX-License-Identifier: Apache-2.0
# Wick's build. `make help` lists the targets; ./dev installs what is needed and calls them.
#
#   O=DIR   where everything that is built goes (default: build, build-san with SAN=1, build-fuzz for fuzzers)
#   STATIC=1   one file without shared libraries (default folder: build-static); see docs/install.md for what it lacks
#   SAN=1   AddressSanitizer and UndefinedBehaviorSanitizer
#   V=1     show the commands
#   LINK_MAP=1   write what was linked to $(O)/wick.map, for tools/sbom
#   CC=...  the compiler (default: gcc; the fuzzers take clang)

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
comma := ,
.SECONDARY:

CCACHE := $(shell command -v ccache)
CC    := $(CCACHE) gcc
AR    := ar
CLANG := $(CCACHE) clang
ifdef SAN
O     ?= build-san
else ifdef STATIC
O     ?= build-static
else
O     ?= build
endif
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s %s\n' '$(1)' '$(patsubst $(O)/%,%,$(2))'
endif

VERSION := 0.1.0

# Folders by floor, the lowest first. A folder is linked with itself and the floors below; the tidy check holds #include to the same rule.
FLOOR0  := base
FLOOR1  := codec elf terminal
FLOOR2  := profile unwind runtime
FLOOR3  := format symbol render agent store net
FLOOR4  := query export top
FLOOR5  := control
FLOOR6  := server
FLOOR7  := daemon
FOLDERS := $(FLOOR0) $(FLOOR1) $(FLOOR2) $(FLOOR3) $(FLOOR4) $(FLOOR5) $(FLOOR6) $(FLOOR7)

WARNINGS := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wvla -Wformat=2 -Wundef -Wwrite-strings -Wno-unused-parameter -Wno-missing-field-initializers
CPPFLAGS := -D_GNU_SOURCE -DWICK_VERSION='"$(VERSION)"' -Isrc -I. -I$(O)/gen -MMD -MP
OPT      := -O2
# What makes a fault hard to use: tests/cli/hardening.test.sh looks for it in the binary.
HARDEN_x86_64  := -fcf-protection=full
HARDEN_aarch64 := -mbranch-protection=standard
HARDENING := -fstack-protector-strong -fstack-clash-protection $(HARDEN_$(shell uname -m))
# Paths of the machine that builds are in none of the files.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=.
CFLAGS   := -std=gnu17 $(OPT) -g $(PREFIX_MAP) -fno-omit-frame-pointer -fno-strict-aliasing $(HARDENING) -fPIE $(WARNINGS) $(EXTRA_CFLAGS)
LDFLAGS  := -pie -Wl,--as-needed -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code
LDLIBS   := -lresolv -lssl -lcrypto -lbpf -lelf -luv -lnghttp2 -ldeflate -lz -lzstd -llz4 -ljansson -lpcre2-8 -lxxhash -lcap -lyaml -liberty -llzma -lseccomp -lpthread -lm
ifdef SAN
CFLAGS   += -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS  += -fsanitize=address,undefined
else
CPPFLAGS += -D_FORTIFY_SOURCE=3
endif
ifdef STATIC
# The hooks of the allocator: src/control/heap_hooks.c.
HEAP_HOOKS := malloc calloc realloc memalign aligned_alloc posix_memalign free
CPPFLAGS += -DWICK_STATIC
LDFLAGS  := -static-pie -Wl,-z,relro,-z,now $(patsubst %,-Wl$(comma)--wrap=%,$(HEAP_HOOKS))
LDLIBS   := -Wl,--start-group $(LDLIBS:-luv=-l:libuv_a.a) -ldl -Wl,--end-group
endif
ifdef FUZZ
CFLAGS   := -std=gnu17 -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing -fPIE -Wall -Wno-gnu-variable-sized-type-not-at-end \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -DWICK_FUZZING=1
LDFLAGS  := -pie -fsanitize=fuzzer,address,undefined
CC       := $(CLANG)
endif

# ---- sources -------------------------------------------------------------------------------------------------------------------
sources_of = $(filter-out %_test.c,$(wildcard src/$(1)/*.c src/$(1)/*/*.c))
objects_of = $(patsubst %.c,$(O)/obj/%.o,$(call sources_of,$(1)))
tests_of   = $(patsubst src/%.c,$(O)/test/%,$(wildcard src/$(1)/*_test.c src/$(1)/*/*_test.c))
libs_upto  = $(foreach f,$(1),$(O)/lib/$(f).a)

UNDER_base    := base
UNDER_codec   := codec base
UNDER_elf     := elf base
UNDER_terminal := terminal base
UNDER_profile := profile codec elf base
UNDER_unwind  := unwind codec elf base
UNDER_runtime := runtime codec elf base
$(foreach f,$(FLOOR3),$(eval UNDER_$(f) := $(f) profile unwind runtime codec elf base))
UNDER_query   := query $(FLOOR3) profile unwind runtime codec elf base
UNDER_top     := top terminal $(FLOOR3) profile unwind runtime codec elf base
UNDER_export  := export $(FLOOR3) profile unwind runtime codec elf base
UNDER_control := control query $(UNDER_export)
UNDER_server  := server $(UNDER_control)
UNDER_daemon  := daemon $(UNDER_control)
UNDER_cmd     := cmd top terminal daemon $(UNDER_server)

all: $(O)/wick
.PHONY: all help check format clean web bpf compile_commands fuzzers

help:
	@echo 'make            build $(O)/wick'
	@echo 'make check      build and run every unit test; make check-FOLDER for one folder'
	@echo 'make fuzzers    build the fuzz targets into build-fuzz/ (clang, libFuzzer, ASan, UBSan)'
	@echo 'make client     build libwickmark, for applications that make markers'
	@echo 'make install-client  install it; PREFIX=/usr/local, DESTDIR='
	@echo 'make web        bundle the page'
	@echo 'make install    install into DESTDIR, below PREFIX (/usr/local); install-client: libwickmark'
	@echo 'make format     run clang-format over the sources'
	@echo 'make clean      remove $(O)'
	@echo 'SAN=1 V=1 O=DIR CC=... as described at the top of the Makefile'

# Unit tests are compiled and linked for what they are, run once or twice: without optimization, which takes a third of the time, and by LLVM's linker where it
# is installed, which takes a third of that of binutils; and without debug information, which is most of what the linker writes: for a debugger,
# make TEST_CFLAGS=-O0 TEST_STRIP= build/test/... What is tested is compiled as ever. Those of folders that sample are part of what is sampled, and one
# takes its own debug information for input.
ifeq ($(SAN)$(FUZZ),)
TEST_CFLAGS  := -O0 -g0 -U_FORTIFY_SOURCE -Wno-format-truncation
TEST_LDFLAGS := $(if $(shell command -v ld.lld),-fuse-ld=lld)
TEST_STRIP   := -Wl,--strip-debug
AS_SAMPLED   := $(O)/obj/src/agent/%_test.o $(O)/obj/src/unwind/%_test.o $(O)/obj/src/elf/extract_test.o
endif

# ---- flags stamp: a change of flags rebuilds everything -----------------------------------------------------------------------------
STAMP := $(O)/flags
FLAGS_NOW := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LDLIBS) $(TEST_CFLAGS) $(TEST_LDFLAGS) $(TEST_STRIP)
ifneq ($(FLAGS_NOW),$(file <$(STAMP)))
$(shell mkdir -p $(O))
$(file >$(STAMP),$(FLAGS_NOW))
endif

# Loops that queries and compaction spend their time in: worth unrolling and vectorizing.
$(foreach f,bits decode encode dictionary statistics,$(eval CFLAGS_src/codec/parquet_$(f) := -O3))

$(O)/obj/%.o: %.c $(STAMP)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$*) $(if $(filter-out $(AS_SAMPLED),$(filter %_test.o,$@)),$(TEST_CFLAGS)) -c -o $@ $<
$(O)/obj/%.o: %.S $(STAMP)
	$(call say,AS,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Wa,-I$(O)/gen -c -o $@ $<

define folder_rules
$(O)/lib/$(1).a: $(call objects_of,$(1)) $(EXTRA_$(1))
	$$(call say,AR,$$@)
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)$(AR) qcs $$@ $$^
$(O)/test/$(1)/%_test: $(O)/obj/src/$(1)/%_test.o $(call libs_upto,$(UNDER_$(1)))
	$$(call say,LINK,$$@)
	@mkdir -p $$(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $$(if $$(filter $(AS_SAMPLED),$$<),,$(TEST_STRIP)) -o $$@ $$< -Wl,--start-group $(call libs_upto,$(UNDER_$(1))) -Wl,--end-group -lcmocka $(LDLIBS)
.PHONY: check-$(1)
check-$(1): check-areas ;
endef
# One run for all areas that are asked for: tests/run builds, and two builds at once would take each other's files away.
CHECKED := $(patsubst check-%,%,$(filter check-%,$(MAKECMDGOALS)))
.PHONY: check-areas
check-areas:
	$(Q)tests/run $(foreach f,$(CHECKED),$(patsubst src/%.c,unit/%,$(wildcard src/$(f)/*_test.c src/$(f)/*/*_test.c)))

# ---- BPF: bpf/NAME.bpf.c -> skeleton header ------------------------------------------------------------------------------------------
BPF_SOURCES := $(wildcard bpf/*.bpf.c)
SKELETONS   := $(patsubst bpf/%.bpf.c,$(O)/gen/bpf/%.skel.h,$(BPF_SOURCES))
BPF_CFLAGS  := -target bpf -ffile-prefix-map=$(CURDIR)=. -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -I. -D__TARGET_ARCH_x86
bpf: $(SKELETONS)
$(O)/gen/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h)
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c -o $@ $<
	$(Q)llvm-strip -g $@ 2>/dev/null || true
$(O)/gen/bpf/%.skel.h: $(O)/gen/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)PATH=$$PATH:/usr/sbin bpftool gen skeleton $< name $(subst .,_,$*)_bpf > $@
$(patsubst %.c,$(O)/obj/%.o,$(wildcard src/agent/*.c src/agent/*/*.c)): | $(SKELETONS)

# ---- the page: bundled by esbuild, embedded by src/server/http/assets_data.S -------------------------------------------------------------------
WEB_SOURCES := $(shell find web -path web/node_modules -prune -o -type f -print 2>/dev/null)
WEB_OUT     := $(O)/gen/web
web: $(WEB_OUT)/index.html
$(WEB_OUT)/index.html: $(WEB_SOURCES)
	$(call say,WEB,$@)
	$(Q)tools/build-web $(WEB_OUT)
$(O)/obj/src/server/http/assets_data.o: $(WEB_OUT)/index.html
$(O)/obj/src/server/http/openapi_data.o: docs/openapi.json
$(O)/obj/src/server/saved/library_data.o: $(wildcard src/server/saved/library/*.yaml)
EXTRA_server := $(O)/obj/src/server/http/assets_data.o $(O)/obj/src/server/http/openapi_data.o $(O)/obj/src/server/saved/library_data.o

# ---- third_party: not ours, hence with the compiler's own warnings only, and none of them an error ---------------------------------------
LLHTTP := $(patsubst %,$(O)/obj/third_party/llhttp/%.o,llhttp api http)
$(LLHTTP): CFLAGS := $(filter-out $(WARNINGS),$(CFLAGS))
EXTRA_net := $(LLHTTP)

$(foreach f,$(FOLDERS),$(eval $(call folder_rules,$(f))))
$(eval $(call folder_rules,cmd))

# ---- the binary ----------------------------------------------------------------------------------------------------------------------
CMD_OBJECTS := $(call objects_of,cmd)
$(O)/wick: $(CMD_OBJECTS) $(call libs_upto,$(FOLDERS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(LINK_MAP),-Wl$(comma)-Map=$@.map) -o $@ $(CMD_OBJECTS) -Wl,--start-group $(call libs_upto,$(FOLDERS)) -Wl,--end-group $(LDLIBS)

ALL_TESTS := $(foreach f,$(FOLDERS) cmd,$(call tests_of,$(f)))
check: $(ALL_TESTS) programs
	$(Q)tests/run unit
build-tests: $(ALL_TESTS) programs
check-agent: $(O)/programs/workload $(O)/programs/markers

# ---- libwickmark: what applications make markers with; client/ -----------------------------------------------------------------------
# Of nothing but libc, and with no flags of ours that a program would have to share.
CLIENT_FLAGS := -std=c11 -O2 -g $(PREFIX_MAP) -fPIC -fvisibility=hidden -Wall -Wextra -Werror $(EXTRA_CFLAGS)
CLIENT_VERSION := 1.0.0
client: $(O)/client/libwickmark.a $(O)/client/libwickmark.so.1
$(O)/client/wickmark.o: client/wickmark.c client/wickmark.h client/wickmark_abi.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CLIENT_FLAGS) -c -o $@ $<
$(O)/client/libwickmark.a: $(O)/client/wickmark.o
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
# It must stay when it is closed: threads that end call it.
$(O)/client/libwickmark.so.1: $(O)/client/wickmark.o client/wickmark.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libwickmark.so.1 -Wl,--version-script=client/wickmark.map -Wl,-z,nodelete -Wl,-z,relro,-z,now \
		-Wl,--no-undefined -o $@ $< -lpthread
	$(Q)ln -sf libwickmark.so.1 $(O)/client/libwickmark.so
PREFIX := /usr/local
LIBDIR := $(PREFIX)/lib
install-client: client
	install -D -m 644 client/wickmark.h $(DESTDIR)$(PREFIX)/include/wickmark.h
	install -D -m 644 $(O)/client/libwickmark.a $(DESTDIR)$(LIBDIR)/libwickmark.a
	install -D -m 644 $(O)/client/libwickmark.so.1 $(DESTDIR)$(LIBDIR)/libwickmark.so.1
	ln -sf libwickmark.so.1 $(DESTDIR)$(LIBDIR)/libwickmark.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|; s|@VERSION@|$(CLIENT_VERSION)|' client/wickmark.pc.in | \
		install -D -m 644 /dev/stdin $(DESTDIR)$(LIBDIR)/pkgconfig/wickmark.pc
# The program, its man pages, completions, units and settings. DESTDIR is where packages are made.
SYSCONFDIR := /etc
UNITDIR    := /lib/systemd/system
install: all
	install -D -m 755 $(O)/wick $(DESTDIR)$(PREFIX)/bin/wick
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 packaging/completions/wick.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/wick
	install -D -m 644 packaging/completions/_wick $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_wick
	install -D -m 644 packaging/completions/wick.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/wick.fish
	install -d $(DESTDIR)$(UNITDIR)
	for unit in packaging/*.service; do \
		sed 's|/usr/bin/wick|$(PREFIX)/bin/wick|' $$unit >$(DESTDIR)$(UNITDIR)/$${unit##*/} || exit 1; done
	install -D -m 644 packaging/wick.sysusers $(DESTDIR)/usr/lib/sysusers.d/wick.conf
	install -D -m 644 packaging/wick.tmpfiles $(DESTDIR)/usr/lib/tmpfiles.d/wick.conf
	install -D -m 644 packaging/agent.yaml $(DESTDIR)$(SYSCONFDIR)/wick/agent.yaml
	for name in wick wick-agent wick-server; do \
		install -D -m 644 packaging/default/$$name $(DESTDIR)$(SYSCONFDIR)/default/$$name || exit 1; done
.PHONY: install
.PHONY: client install-client

# ---- fuzzers: fuzz/NAME_fuzz.c, built in build-fuzz with clang ---------------------------------------------------------------------------
FUZZERS := $(patsubst fuzz/%_fuzz.c,%,$(wildcard fuzz/*_fuzz.c))
fuzzers:
	$(Q)$(MAKE) --no-print-directory FUZZ=1 O=build-fuzz $(patsubst %,build-fuzz/fuzz/%,$(FUZZERS))
# Of the server, whose archive needs the page, only what is asked for.
$(O)/fuzz/pyroscope_query: $(patsubst %,$(O)/obj/src/server/%.o,http/rpc_read pyroscope/messages pyroscope/parse)
$(O)/fuzz/parca_filter: $(patsubst %,$(O)/obj/src/server/parca/%.o,filter functions graph graph_arrow columns)
$(O)/fuzz/local_viewer: $(patsubst %,$(O)/obj/src/server/%.o,viewer/local_viewer_symbols core/respond)
$(O)/fuzz/recording: $(patsubst %,$(O)/obj/src/server/stores/%.o,recordings_file noted_file)
$(O)/fuzz/snapshot: $(patsubst %,$(O)/obj/src/server/stores/%.o,snapshots noted_file)
$(O)/fuzz/saved_query: $(patsubst %,$(O)/obj/src/server/saved/%.o,saved library_data)
$(O)/fuzz/tokens $(O)/fuzz/jwt: $(patsubst %,$(O)/obj/src/server/%.o,access/tokens access/tokens_edit access/jwt core/permission core/tenant_name)
$(O)/fuzz/scrape: $(patsubst src/%.c,$(O)/obj/src/%.o,$(filter-out %_test.c %/api_targets.c %/routes.c %/scrape.c %/scrape_fetch.c,$(wildcard src/server/scrape/*.c)))
$(O)/fuzz/%: $(O)/obj/fuzz/%_fuzz.o $(call libs_upto,$(filter-out server,$(FOLDERS)))
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(call libs_upto,$(filter-out server,$(FOLDERS))) -Wl,--end-group $(LDLIBS)

# Their inputs once more in the ordinary build: all targets in one program, fuzz/replay.c, each with its functions renamed.
$(O)/gen/fuzz_targets.inc: $(wildcard fuzz/*_fuzz.c)
	@mkdir -p $(@D)
	@printf 'TARGET(%s)\n' $(FUZZERS) >$@
$(O)/obj/fuzz/replay/%.o: fuzz/%_fuzz.c $(STAMP)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -Wno-maybe-uninitialized -DLLVMFuzzerTestOneInput=fuzz_run_$* -DLLVMFuzzerInitialize=fuzz_init_$* $(TEST_CFLAGS) -c -o $@ $<
$(O)/obj/fuzz/replay.o: $(O)/gen/fuzz_targets.inc
$(O)/fuzz/replay: $(O)/obj/fuzz/replay.o $(patsubst %,$(O)/obj/fuzz/replay/%.o,$(FUZZERS)) $(call libs_upto,$(FOLDERS))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(call libs_upto,$(FOLDERS)) -Wl,--end-group $(LDLIBS)

# ---- helpers of tests and benchmarks: tests/programs/NAME.c, bench/NAME.c -----------------------------------------------------------------
# Workloads are built with frame pointers and without inlining, so that their stacks are known; `deep` also as distributions build.
PROGRAM_FLAGS := -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls
$(O)/programs/deep: PROGRAM_FLAGS := -O2 -fomit-frame-pointer
$(O)/programs/stacks: PROGRAM_FLAGS := -O2 -fomit-frame-pointer
$(O)/programs/deep_fp: PROGRAM_FLAGS := -O2 -fno-omit-frame-pointer
$(O)/programs/deep_fp: tests/programs/deep.c
$(O)/programs/%: tests/programs/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -g $(PROGRAM_FLAGS) -D_GNU_SOURCE -o $@ $< -lpthread -lm
$(O)/programs/deep_fp:
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -g $(PROGRAM_FLAGS) -D_GNU_SOURCE -o $@ $< -lpthread -lm
# What makes markers is linked with the library, which finds a recorder by itself.
$(O)/programs/markers: PROGRAM_FLAGS := -O2 -Iclient
$(O)/programs/markers: tests/programs/markers.c $(O)/client/libwickmark.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -g $(PROGRAM_FLAGS) -D_GNU_SOURCE -o $@ $^ -lpthread -lm
programs: $(patsubst tests/programs/%.c,$(O)/programs/%,$(wildcard tests/programs/*.c)) $(O)/programs/deep_fp
$(O)/bench/%: $(O)/obj/bench/%.o $(call libs_upto,$(FOLDERS))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(call libs_upto,$(FOLDERS)) -Wl,--end-group $(LDLIBS)
$(O)/bench/markers: $(O)/client/libwickmark.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -O2 -g -D_GNU_SOURCE -I. -o $@ bench/markers.c $< -lpthread
# A benchmark with a folder of its own, bench/NAME/*.c, is linked with what is in it.
$(O)/bench/fleet: $(patsubst %.c,$(O)/obj/%.o,$(wildcard bench/fleet/*.c))
# Oracles of the unwinder: tests/oracle/NAME.c, and the programs that it is checked with.
ORACLES := harness stepper
$(patsubst %,$(O)/oracle/%,$(ORACLES)): $(O)/oracle/%: $(O)/obj/tests/oracle/%.o \
		$(patsubst %.c,$(O)/obj/%.o,$(filter-out $(patsubst %,tests/oracle/%.c,$(ORACLES)),$(wildcard tests/oracle/*.c))) \
		$(call libs_upto,$(UNDER_agent))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(call libs_upto,$(UNDER_agent)) -Wl,--end-group $(LDLIBS)
$(O)/obj/tests/oracle/%.o: | $(SKELETONS)
$(O)/programs/unwind/stamp: $(wildcard tests/programs/unwind/*)
	$(call say,PROGRAMS,$@)
	$(Q)tests/programs/unwind/build.sh $(O)/programs/unwind
	@touch $@
oracles: $(patsubst %,$(O)/oracle/%,$(ORACLES)) $(O)/programs/unwind/stamp
# Builds symbol tables of files that were made to break the builder: tests/symbol/bombs.test.sh.
$(O)/symbol/bomb_run: $(O)/obj/tests/symbol/bomb_run.o $(call libs_upto,$(UNDER_symbol))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< -Wl,--start-group $(call libs_upto,$(UNDER_symbol)) -Wl,--end-group $(LDLIBS)
bombs: $(O)/symbol/bomb_run
.PHONY: bombs
# The simulation: the store on a disk of its own. Calls that change files, clocks, chance and threads are caught by the linker.
SIM_WRAPS := open openat close write pwrite ftruncate fdatasync fsync rename link mkdir unlink unlinkat getrandom \
	nanosleep time_now_ns time_monotonic_ns thread_start
$(O)/sim/sim: $(patsubst %.c,$(O)/obj/%.o,$(wildcard tests/sim/*.c)) $(call libs_upto,$(UNDER_store))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(patsubst %,-Wl$(comma)--wrap=%,$(SIM_WRAPS)) -o $@ $(filter %.o,$^) \
		-Wl,--start-group $(call libs_upto,$(UNDER_store)) -Wl,--end-group $(LDLIBS)
sim: $(O)/sim/sim
.PHONY: sim
# The oracle of names and lines: tests/symbol/oracle.c.
$(O)/symbol/oracle: $(O)/obj/tests/symbol/oracle.o $(call libs_upto,$(UNDER_elf))
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< -Wl,--start-group $(call libs_upto,$(UNDER_elf)) -Wl,--end-group $(LDLIBS)
benches: $(patsubst bench/%.c,$(O)/bench/%,$(wildcard bench/*.c))

bench-fleet: $(O)/bench/fleet
# Everything that tests/run needs: tests that make something themselves would do so beside each other.
test-programs: all build-tests programs client oracles sim bombs bench-fleet $(O)/symbol/oracle $(O)/fuzz/replay
.PHONY: bench-fleet test-programs oracles programs build-tests benches

# ---- housekeeping ----------------------------------------------------------------------------------------------------------------------
ALL_C := $(wildcard src/*/*.c src/*/*/*.c fuzz/*.c bench/*.c bench/*/*.c)
ALL_H := $(wildcard src/*/*.h src/*/*/*.h fuzz/*.h bench/*/*.h)
# For clangd: each file with the flags that it is built with, but warnings stay warnings. bpf/walk.h has its macros from who
# includes it, and headers of tests cmocka; bpf/offcpu.h, bpf/listed_collect.h and bpf/stacked.h, parts of bpf/sample.bpf.c, are not in it.
EDITOR_CC     := $(filter-out $(CCACHE),$(CC))
EDITOR_FLAGS  := $(filter-out -MMD -MP,$(CPPFLAGS)) $(filter-out -Werror,$(CFLAGS))
EDITOR_BPF    := $(filter-out $(CCACHE),$(CLANG)) $(filter-out -Werror,$(BPF_CFLAGS))
EDITOR_WALK   := '-DWALK_READ(walk,to,bytes,address)=0' '-DWALK_MAP(walk,address)=0' \
	'-DWALK_HEAP16(place)=(place)' '-DWALK_HEAP32(place)=(place)' '-DWALK_HEAP64(place)=(place)'
EDITOR_BPF_H  := $(filter-out bpf/walk.h $(wildcard bpf/*_walk.h) bpf/offcpu.h bpf/listed_collect.h bpf/stacked.h,$(wildcard bpf/*.h))
EDITOR_TEST_H := $(wildcard src/*/test_*.h src/*/*/test_*.h src/*/*_test.h src/*/*/*_test.h)
EDITOR_CMOCKA := $(patsubst %,-include %.h,stdarg stddef stdint setjmp cmocka)
EDITOR_TESTS  := $(wildcard tests/oracle/*.[ch] tests/sim/*.[ch]) tests/symbol/oracle.c tests/symbol/bomb_run.c
EDITOR_ALONE  := $(wildcard tests/programs/*.c tests/programs/unwind/*.[ch] tests/agent/*.c tests/browser/*.c \
	client/examples/*.c client/examples/*/*.c) $(filter-out $(EDITOR_TESTS),$(wildcard tests/symbol/*.c))
compile_commands: compile_commands.json
compile_commands.json: Makefile tools/compile-commands $(ALL_C) $(ALL_H) $(SKELETONS)
	$(call say,GEN,$@)
	$(Q)tools/compile-commands $(EDITOR_CC) $(EDITOR_FLAGS) : $(ALL_C) $(filter %.c,$(EDITOR_TESTS)) \
		-- $(EDITOR_CC) $(EDITOR_FLAGS) -Wno-unused-function : $(filter-out $(EDITOR_TEST_H),$(ALL_H)) $(filter %.h,$(EDITOR_TESTS)) \
		-- $(EDITOR_CC) $(EDITOR_FLAGS) -Wno-unused-function $(EDITOR_CMOCKA) : $(EDITOR_TEST_H) \
		-- $(EDITOR_BPF) : $(BPF_SOURCES) $(EDITOR_BPF_H) \
		-- $(EDITOR_BPF) -include bpf/kernel.h -include bpf/bpf_helpers.h $(EDITOR_WALK) : bpf/walk.h \
		-- $(EDITOR_CC) $(filter-out -Werror,$(CLIENT_FLAGS)) : $(wildcard client/*.[ch]) \
		-- $(EDITOR_CC) -std=gnu17 -g $(PROGRAM_FLAGS) -D_GNU_SOURCE -Iclient -I. : $(EDITOR_ALONE) \
		-- g++ -std=c++17 -g $(PROGRAM_FLAGS) -DPART=0 -DCOPIES=1 : $(wildcard tests/symbol/*.cc tests/programs/unwind/*.cc) > $@
format:
	$(Q)clang-format -i $(wildcard src/*/*.[ch] src/*/*/*.[ch] client/*.[ch] client/examples/*.c client/examples/*/*.c bpf/*.[ch] fuzz/*.c bench/*.c bench/*/*.[ch] tests/programs/*.c)
clean:
	$(Q)rm -rf $(O)

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
