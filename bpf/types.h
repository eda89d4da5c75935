/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fixed-size types of what BPF programs and the agent share, on both sides. */
#ifdef __bpf__
#include "bpf/kernel.h"
#else
#include <linux/types.h>
#endif
