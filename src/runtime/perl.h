/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perl, 5.28 to 5.40, in another process:
 *
 *   perl_recognize()	   a file: which version, the loop, the key of the interpreter, the layout
 *   perl_place()	   ... mapped into a process: what the walk is told
 *   perl_read_function()  a subroutine, or a statement outside of any: its name and its file
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_PERL_H
#define WICK_RUNTIME_PERL_H

#include "bpf/perl.h"
#include "elf/elf_file.h"
#include "runtime/function.h"
#include "runtime/memory.h"

/* Offsets in bytes in the structs of a version, as built for a 64-bit machine. */
struct perl_layout {
	struct perl_process walk;    /* without addresses */
	uint32_t interpreter_bytes;  /* PL_interp_size; 0 = not known */
	bool has_inline_hash_extras; /* since 5.36: they lie in the body of a hash; before, behind its array */
	bool has_file_globs;	     /* without threads: the file of a statement is a glob */
	bool is_tested;		     /* processes of this version were compared with what Perl says itself */
};

/* What a file that holds Perl says. Addresses as linked. */
struct perl_build {
	uint32_t version; /* 0x0524 for 5.36 */
	uint64_t loop_start, loop_end;
	uint64_t loop_offset; /* of loop_start in the file */
	uint64_t key;	      /* 0 = a build without threads, which has what follows */
	uint64_t stack, cop;  /* PL_curstackinfo, PL_curcop */
	struct perl_layout layout;
};

/* Whether the file holds Perl's interpreter. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, of a version that is not
 * known, or without what is needed (err says what; ret->version may be set). Other errors: damaged files,
 * -ENOMEM. */
int perl_recognize(struct elf_file *file, struct perl_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool perl_layout_of(uint32_t version, struct perl_layout *ret);
/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void perl_place(const struct perl_build *build, uint64_t bias, struct perl_process *ret);

/* The object of a frame (bpf/perl.h) if it still has the check: Package::subroutine, "(eval)", or "(main)" for code outside of
 * subroutines; the file "(eval)" for what eval compiled. 0; -ESTALE if it is another one by now, or none (any more); -EBADMSG
 * if it holds nonsense; -EFAULT and others if it cannot be read. */
int perl_read_function(const struct perl_layout *layout, const struct runtime_memory *memory, uint64_t object, uint32_t check,
		       struct runtime_function *ret);

#endif
