# SPDX-License-Identifier: Apache-2.0
# Stand-in for the SDK of OpenWrt: the variables of rules.mk, package.mk and bpf.mk that xdp/openwrt/Makefile uses. The
# compiler is clang with SYSROOT, the libraries of Debian for aarch64; MORE_OBJECTS and LLD complete the link; TOOLCHAIN/include has asm/.
INCLUDE_DIR := $(TOPDIR)/include
STAGING_DIR := $(SYSROOT)
TOOLCHAIN_DIR := $(TOOLCHAIN)
MUSL := $(SYSROOT)/usr/lib/aarch64-linux-musl
TARGET_CC := $(CLANG) --target=aarch64-linux-musl
TARGET_CPPFLAGS := -nostdinc -isystem $(SYSROOT)/usr/include/aarch64-linux-musl \
	-isystem $(shell $(CLANG) -print-resource-dir)/include -idirafter $(SYSROOT)/usr/include \
	-idirafter $(SYSROOT)/usr/include/aarch64-linux-gnu -Wno-unused-command-line-argument
TARGET_CFLAGS := -Os
TARGET_LDFLAGS := -static -nostdlib --ld-path=$(LLD) -L$(SYSROOT)/usr/lib/aarch64-linux-gnu -L$(MUSL) $(MUSL)/crt1.o \
	$(MUSL)/crti.o $(MUSL)/crtn.o $(MORE_OBJECTS) -l:libbpf.a -l:libelf.a -l:libz.a -lc \
	$(wildcard $(SYSROOT)/usr/lib/gcc/aarch64-linux-gnu/*/libgcc.a)
CP := cp -fpR
INSTALL_DIR := install -d -m0755
INSTALL_BIN := install -m0755
INSTALL_DATA := install -m0644
