# ftprep and fttrain. `make help` lists the targets.
#
# config=release|debug|asan|tsan|fuzz|coverage|profile selects the flags; objects go to
# build/<config>/. CC, CFLAGS_EXTRA, PREFIX, DESTDIR and V=1 work as usual.

VERSION := 0.1.0
config  ?= release
PREFIX  ?= /usr/local
CC      ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
OBJCOPY ?= objcopy
ifeq ($(config),fuzz)
CC := clang
endif

B := build/$(config)$(if $(filter-out gcc,$(notdir $(CC))),-$(notdir $(CC)))

# --- flags ------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wformat=2 -Wno-format-nonliteral -Wundef -Werror
# -ffp-contract=off: the compiler must not fuse a*b+c on its own, or results depend on it.
BASE := -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DFT_VERSION='"$(VERSION)"' -I. \
        -pthread -ffp-contract=off -fno-math-errno -ffile-prefix-map=$(CURDIR)=. -MMD -MP

OPT_release  := -O2 -g
OPT_debug    := -O0 -g3 -DFT_FAULT_HOOKS
OPT_asan     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -DFT_FAULT_HOOKS
OPT_tsan     := -O1 -g -fsanitize=thread
OPT_fuzz     := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
OPT_coverage := -O0 -g --coverage
OPT_profile  := -O2 -g -fno-omit-frame-pointer
ifndef OPT_$(config)
$(error config=$(config) is unknown; use release, debug, asan, tsan, fuzz, coverage or profile)
endif

CFLAGS  := $(BASE) $(WARN) $(OPT_$(config)) $(CFLAGS_EXTRA)
comma   := ,
PIC     := -fPIC -fvisibility=hidden # of common/ and formats/, which libftok is made of
LDFLAGS := $(filter -fsanitize% --coverage,$(subst fuzzer-no-link$(comma),,$(OPT_$(config)))) -pthread
LDLIBS  := -lcjson -lzstd -lz -lxxhash -lonig -lm
# The kernels are written for the vectoriser; under sanitizers -O3 costs minutes of compiling.
ifneq ($(filter release profile,$(config)),)
KERNELS := $(wildcard trainer/cpu/*.c) formats/dtype.c formats/nf4.c tools/merge.c
$(KERNELS:%.c=$(B)/%.o): CFLAGS += -O3
endif

# --- sources ----------------------------------------------------------------------------------

COMMON  := $(sort $(wildcard common/*.c))
FORMATS := $(sort $(wildcard formats/*.c formats/*/*.c))
TOOLS   := $(filter-out tools/ftprep.c,$(sort $(wildcard tools/*.c)))
TRAINER := $(filter-out trainer/fttrain.c,$(sort $(wildcard trainer/*.c trainer/cpu/*.c)))
UNIT    := $(sort $(wildcard tests/unit/test_*.c tests/ops/test_*.c))
FUZZ    := $(sort $(wildcard tests/fuzz/fuzz_*.c))

obj = $(patsubst %.c,$(B)/%.o,$(1))
LIB_OBJ     := $(call obj,$(COMMON) $(FORMATS))
TOOLS_OBJ   := $(call obj,$(TOOLS))
TRAINER_OBJ := $(call obj,$(TRAINER))
TEST_SUPPORT := $(call obj,$(sort $(wildcard tests/support/*.c)))
UNIT_BIN    := $(patsubst tests/%.c,$(B)/tests/%,$(UNIT))
TOOL_BIN    := $(patsubst tests/%.c,$(B)/tests/%,$(sort $(wildcard tests/tools/*.c)))
FUZZ_NAMES  := $(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ))
FUZZ_BIN    := $(patsubst %,$(B)/tests/fuzz/fuzz_%,$(FUZZ_NAMES))
REPLAY_BIN  := $(patsubst %,$(B)/tests/fuzz/replay_%,$(FUZZ_NAMES))
ALL_SOURCES := $(sort $(shell find common formats tools trainer tests -name '*.[ch]'))

ifeq ($(V),1)
say = @:
q :=
else
say = @echo "  $(1)  $(2)"
q := @
endif

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all help clean

all: $(B)/ftprep $(B)/fttrain lib ## build both programs and libftok

# libftok is formats/tok/ftok.c and what it needs of common/ and formats/. In the shared library only
# its own names are visible; in the static one the others are made local, so that they cannot clash
# with a program's.
SONAME := libftok.so.0
FTOK   := $(call obj,formats/tok/ftok.c)
$(LIB_OBJ): CFLAGS += $(PIC)
.PHONY: lib
lib: $(B)/libftok.so $(B)/libftok.a

$(B)/libparts.a: $(LIB_OBJ)
	@rm -f $@
	$(q)$(AR) rcs $@ $^

$(B)/libftok.so: $(FTOK) $(B)/libparts.a
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--as-needed -o $(B)/$(SONAME) $^ $(LDLIBS)
	$(q)ln -sf $(SONAME) $@

$(B)/libftok.a: $(FTOK) $(B)/libparts.a
	$(call say,AR,$@)
	$(q)$(CC) -r -nostdlib -o $(B)/libftok.o $^
	$(q)$(OBJCOPY) --localize-hidden $(B)/libftok.o
	@rm -f $@
	$(q)$(AR) rcs $@ $(B)/libftok.o

$(B)/ftprep: $(call obj,tools/ftprep.c) $(TOOLS_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/fttrain: $(call obj,trainer/fttrain.c) $(TRAINER_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/%.o: %.c $(B)/flags.txt
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(q)$(CC) $(CFLAGS) -c -o $@ $<

# Rewritten only when the command lines change, so that a changed flag rebuilds everything.
# The flags of all, not those that a target asking for it has of its own.
$(B)/flags.txt: CFLAGS := $(CFLAGS)
$(B)/flags.txt: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(subst ',,$(CFLAGS) $(PIC) $(LDFLAGS))' | cmp -s - $@ || echo '$(CC) $(subst ',,$(CFLAGS) $(PIC) $(LDFLAGS))' > $@
.PHONY: FORCE # .SECONDARY would take it for made otherwise
FORCE:

# --- tests ------------------------------------------------------------------------------------
# tests/support/*.c is shared test code without main; tests/tools/*.c are programs that tests run;
# tests/fuzz/fuzz_X.c is linked with libFuzzer (config=fuzz) or with replay.c, which runs the corpus.

TEST_LIBS := $(TEST_SUPPORT) $(TOOLS_OBJ) $(TRAINER_OBJ) $(LIB_OBJ)

$(UNIT_BIN): $(B)/tests/%: $(B)/tests/%.o $(TEST_LIBS)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(TOOL_BIN): $(B)/tests/%: $(B)/tests/%.o $(TEST_LIBS)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(REPLAY_BIN): $(B)/tests/fuzz/replay_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(TEST_LIBS)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(FUZZ_BIN): $(B)/tests/%: $(B)/tests/%.o $(TEST_LIBS)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ -lcmocka $(LDLIBS)

.PHONY: demo check check-fast tests replay fuzz bench arm64 format install uninstall deps model
demo: ## install what is missing, build, and go from chat rows to a trained adapter
	@tests/install_deps.sh build
	@$(MAKE) --no-print-directory all
	@tests/fetch_model.sh
	@tests/demo.sh $(B)

check: ## install what is missing and run every test
	@tests/install_deps.sh check
	@tests/fetch_model.sh
	@tests/fetch_vocab.sh
	@tests/check.sh

check-fast: ## tree rules, unit and command-line tests of the release build
	@tests/check.sh fast

# Everything that tests/check.sh runs from this configuration.
tests: all $(UNIT_BIN) $(TOOL_BIN) $(REPLAY_BIN)
replay: $(REPLAY_BIN)

fuzz: ## run one fuzz target: make fuzz T=gguf SECONDS=60
	@test -f "tests/fuzz/fuzz_$(T).c" || { echo "usage: make fuzz T=NAME SECONDS=60; targets: $(FUZZ_NAMES)"; exit 2; }
	@$(MAKE) --no-print-directory config=fuzz build/fuzz-clang/tests/fuzz/fuzz_$(T)
	@mkdir -p build/fuzz-corpus/$(T)
	build/fuzz-clang/tests/fuzz/fuzz_$(T) -max_total_time=$(or $(SECONDS),60) -rss_limit_mb=2048 \
	    -timeout=10 -artifact_prefix=build/fuzz-corpus/ $(addprefix -dict=,$(wildcard tests/fuzz/$(T).dict)) build/fuzz-corpus/$(T) tests/fuzz/corpus/$(T)

bench: ## benchmarks against the peers (needs the packages named in docs/testing.md)
	@tests/bench/run.sh

arm64: ## compile everything for arm64
	@$(MAKE) --no-print-directory CC=aarch64-linux-gnu-gcc CFLAGS_EXTRA="-idirafter /usr/include" \
	    B=build/arm64 arm64-objects
.PHONY: arm64-objects
arm64-objects: $(call obj,$(COMMON) $(FORMATS) $(TOOLS) $(TRAINER) tools/ftprep.c trainer/fttrain.c)

format: ## reformat the sources
	clang-format -i $(ALL_SOURCES)

# --- installation -----------------------------------------------------------------------------

BINDIR := $(DESTDIR)$(PREFIX)/bin
MANDIR := $(DESTDIR)$(PREFIX)/share/man/man1
DOCDIR := $(DESTDIR)$(PREFIX)/share/doc/ftprep
LIBDIR := $(DESTDIR)$(PREFIX)/lib
INCDIR := $(DESTDIR)$(PREFIX)/include

install: all ## install to PREFIX (default /usr/local), under DESTDIR if given
	install -d "$(BINDIR)" "$(MANDIR)" "$(DOCDIR)/docs/formats" "$(DOCDIR)/data-samples"
	install -m 755 $(B)/ftprep $(B)/fttrain "$(BINDIR)"
	install -d "$(LIBDIR)/pkgconfig" "$(INCDIR)"
	install -m 644 formats/tok/ftok.h "$(INCDIR)"
	install -m 644 $(B)/libftok.a "$(LIBDIR)"
	install -m 755 $(B)/$(SONAME) "$(LIBDIR)"
	ln -sf $(SONAME) "$(LIBDIR)/libftok.so"
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: ftok' \
	    'Description: exact and fast tokenizers' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
	    'Libs: -L$${libdir} -lftok' 'Libs.private: $(LDLIBS) -pthread' > "$(LIBDIR)/pkgconfig/ftok.pc"
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md LICENSE "$(DOCDIR)"
	install -m 644 docs/*.md "$(DOCDIR)/docs"
	install -m 644 docs/formats/*.md "$(DOCDIR)/docs/formats"
	install -m 644 data-samples/* "$(DOCDIR)/data-samples"
	@for p in ftprep fttrain; do \
	    $(B)/$$p man > "$(MANDIR)/$$p.1" || exit 1; \
	    for c in $$($(B)/$$p commands); do $(B)/$$p man $$c > "$(MANDIR)/$$p-$$c.1" || exit 1; done; \
	done
	@echo "installed in $(DESTDIR)$(PREFIX)"

uninstall: ## remove what install put there
	rm -rf "$(BINDIR)/ftprep" "$(BINDIR)/fttrain" "$(DOCDIR)" "$(MANDIR)"/ftprep*.1 "$(MANDIR)"/fttrain*.1
	rm -f "$(INCDIR)/ftok.h" "$(LIBDIR)"/libftok.a "$(LIBDIR)"/libftok.so* "$(LIBDIR)/pkgconfig/ftok.pc"

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@echo "make [target] [config=release] [CC=gcc] [V=1]"
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 20

-include $(shell find build -name '*.d' 2>/dev/null)
