/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_BASE_KALLSYMS_PATH_H
#define WICK_BASE_KALLSYMS_PATH_H

/* Where the kernel's symbols are: /proc/kallsyms, or `kallsyms` in RUNTIME_DIRECTORY. A systemd unit with
 * ProtectKernelTunables= hides the former, and mounts it there. A string of this thread, until the next call. */
const char *kallsyms_path(void);

#endif
