/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of call frame information, with the names of DWARF 5 (7.7.1, 7.24) and of the Linux Standard Base (10.5): those that
 * elfutils' header does not have. Private. */
#ifndef WICK_ELF_CFI_DWARF_H
#define WICK_ELF_CFI_DWARF_H

#include <dwarf.h>

#define DW_CFA_AARCH64_negate_ra_state_with_pc 0x2c
#define DW_CFA_LLVM_def_aspace_cfa	       0x30
#define DW_CFA_LLVM_def_aspace_cfa_sf	       0x31

#define DW_EH_PE_format	     0x0f /* mask: DW_EH_PE_absptr to DW_EH_PE_sdata8 */
#define DW_EH_PE_application 0x70 /* mask: DW_EH_PE_pcrel to DW_EH_PE_aligned */

#endif
