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
# The numeric kernels are written for the vectoriser.
build/%/trainer/cpu/matmul_fast.o: CFLAGS += -O3
LDFLAGS := $(filter -fsanitize% --coverage,$(subst fuzzer-no-link$(comma),,$(OPT_$(config)))) -pthread
LDLIBS_ftprep  := -lcjson -lzstd -lxxhash -lm
LDLIBS_fttrain := -lcjson -lzstd -lxxhash -lm

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
FUZZ_BIN    := $(patsubst tests/%.c,$(B)/tests/%,$(FUZZ))

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

all: $(B)/ftprep $(B)/fttrain ## build both programs

$(B)/ftprep: $(call obj,tools/ftprep.c) $(TOOLS_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ftprep)

$(B)/fttrain: $(call obj,trainer/fttrain.c) $(TRAINER_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_fttrain)

$(B)/%.o: %.c $(B)/flags.txt
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(q)$(CC) $(CFLAGS) -c -o $@ $<

# Rewritten only when the command lines change, so that a changed flag rebuilds everything.
$(B)/flags.txt: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(subst ',,$(CFLAGS) $(LDFLAGS))' | cmp -s - $@ || echo '$(CC) $(subst ',,$(CFLAGS) $(LDFLAGS))' > $@
FORCE:

$(UNIT_BIN): $(B)/tests/%: $(B)/tests/%.o $(TEST_SUPPORT) $(TOOLS_OBJ) $(TRAINER_OBJ) $(LIB_OBJ)
	$(call say,LD,$@)
	$(q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS_ftprep)

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@echo "make [target] [config=release] [CC=gcc] [V=1]"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 20

-include $(shell find build -name '*.d' 2>/dev/null)
