# SPDX-License-Identifier: Apache-2.0
BPF_DEPENDS := @HAS_BPF_TOOLCHAIN
BPF_TARGET := bpfel
