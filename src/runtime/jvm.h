/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot, the Java virtual machine of OpenJDK, in other processes (bpf/jvm.h says how frames are found and written down).
 *
 *   jvm_recognize()    a file: whether it holds HotSpot, and where the tables for debuggers are
 *   jvm_read_layout()  ... mapped into a process: versions, offsets, places of variables, from those tables
 *   jvm_place()	what the walk is told, once the process has its code heaps
 *   jvm_read_method()  a Method: its names, its file, its lines
 *   jvm_line()	        a bytecode of it: the line
 *   jvm_read_scopes()  a place in compiled code: the methods that were inlined there, and their bytecodes
 *   jvm_read_stub()    the name of other code
 *   jvm_find_frozen()  where frames of virtual threads lie in Java's heap
 *
 * The tables (src/hotspot/share/runtime/vmStructs.hpp) are arrays of names and offsets, numbers or addresses, which libjvm
 * exports: gHotSpotVMStructs, gHotSpotVMTypes, gHotSpotVMIntConstants, with variables that tell how their entries are laid out.
 * They are filled when the library is loaded, so they are read from the process, each process's own: it could have anything
 * there, and is to mislead about itself only.
 *
 * What is in no table goes by the version: where the bytecode is in a frame of the interpreter (8 words below the frame
 * pointer, 7 in 8), that the method is above the place of the last stack pointer, and how small numbers are packed (since 20
 * without zero bytes).
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_JVM_H
#define WICK_RUNTIME_JVM_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "bpf/jvm.h"
#include "elf/elf_file.h"
#include "runtime/memory.h"

/* Of a table: the variables that tell where it is, and how its entries are laid out. Addresses as linked. */
enum jvm_symbol {
	JVM_SYMBOL_STRUCTS,
	JVM_SYMBOL_STRUCT_TYPE,
	JVM_SYMBOL_STRUCT_FIELD,
	JVM_SYMBOL_STRUCT_KIND,
	JVM_SYMBOL_STRUCT_STATIC,
	JVM_SYMBOL_STRUCT_OFFSET,
	JVM_SYMBOL_STRUCT_ADDRESS,
	JVM_SYMBOL_STRUCT_STRIDE,
	JVM_SYMBOL_TYPES,
	JVM_SYMBOL_TYPE_NAME,
	JVM_SYMBOL_TYPE_SIZE,
	JVM_SYMBOL_TYPE_STRIDE,
	JVM_SYMBOL_INTS,
	JVM_SYMBOL_INT_NAME,
	JVM_SYMBOL_INT_VALUE,
	JVM_SYMBOL_INT_STRIDE,
	JVM_SYMBOLS
};

struct jvm_build {
	uint64_t symbols[JVM_SYMBOLS];
	uint64_t offset; /* in the file, of where code begins */
	uint64_t start;	 /* ... as linked */
};

/* 1, *ret filled; 0 if the file does not hold HotSpot; negative: damaged files, -ENOMEM. */
int jvm_recognize(struct elf_file *file, struct jvm_build *ret, struct error *err);

/* A member of a struct; bytes 0 = there is none in this version. */
struct jvm_field {
	uint32_t offset, bytes;
};

enum jvm_field_name {
	JVM_BLOB_NAME,
	JVM_BLOB_KIND,
	JVM_BLOB_FRAME_SIZE,
	JVM_BLOB_CODE_BEGIN,
	JVM_BLOB_CODE_OFFSET,
	JVM_BLOB_MUTABLE,
	JVM_BLOB_RELOCATION_SIZE,
	JVM_NMETHOD_METHOD,
	JVM_NMETHOD_ID,
	JVM_NMETHOD_DEOPT_BEGIN,
	JVM_NMETHOD_DEOPT_OFFSET,
	JVM_NMETHOD_ORIG_PC,
	JVM_NMETHOD_SCOPES_BEGIN,
	JVM_NMETHOD_SCOPES_OFFSET,
	JVM_NMETHOD_PCS_OFFSET,
	JVM_NMETHOD_DEPENDENCIES_OFFSET,
	JVM_NMETHOD_IMMUTABLE,
	JVM_NMETHOD_METADATA_OFFSET,
	JVM_METHOD_CONST,
	JVM_CONST_POOL,
	JVM_CONST_FLAGS,
	JVM_CONST_CODE_SIZE,
	JVM_CONST_WORDS,
	JVM_CONST_NAME,
	JVM_CONST_SIGNATURE,
	JVM_POOL_HOLDER,
	JVM_POOL_LENGTH,
	JVM_POOL_FILE,
	JVM_CLASS_POOL,
	JVM_CLASS_FILE,
	JVM_CLASS_METHODS,
	JVM_CLASS_FIELDS,
	JVM_KLASS_NAME,
	JVM_KLASS_LAYOUT,
	JVM_METHOD_CODE,
	JVM_LIST_LENGTH, /* Array<...> */
	JVM_LIST_BYTES,
	JVM_LIST_METHODS,
	JVM_Z_GOOD,
	JVM_Z_BAD,
	JVM_Z_SHIFT,
	JVM_X_GOOD,	       /* ZGC as it was until 23 */
	JVM_SYMBOL_REFERENCES, /* in the lower half, if it has 4 bytes */
	JVM_SYMBOL_LENGTH,
	JVM_SYMBOL_BODY,
	JVM_PC_OFFSET,
	JVM_PC_SCOPE,
	JVM_HEAP_MEMORY,
	JVM_HEAP_SEGMENTS,
	JVM_HEAP_SHIFT,
	JVM_SPACE_LOW,
	JVM_SPACE_LOW_BOUNDARY,
	JVM_SPACE_HIGH_BOUNDARY,
	JVM_ARRAY_LENGTH,
	JVM_ARRAY_DATA,
	JVM_BLOCK_USED,
	JVM_STUBS_BUFFER,
	JVM_STUBS_LIMIT,
	JVM_FIELDS
};

enum jvm_variable {
	JVM_VARIABLE_HEAPS,
	JVM_VARIABLE_HEAP, /* 8 */
	JVM_VARIABLE_INTERPRETER,
	JVM_VARIABLE_MAJOR,
	JVM_VARIABLE_RELEASE,
	JVM_VARIABLE_CARRIER, /* since 25: where a virtual thread that ends returns to */
	JVM_VARIABLE_CLASSES, /* the first of those that HotSpot knows by name: java.lang.Object */
	JVM_VARIABLE_OOP_BASE,
	JVM_VARIABLE_OOP_SHIFT,
	JVM_VARIABLE_Z,
	JVM_VARIABLE_X,
	JVM_VARIABLES
};

enum jvm_number {
	JVM_SIZE_BLOCK, /* sizes of types */
	JVM_SIZE_CONST,
	JVM_SIZE_POOL,
	JVM_SIZE_PC,
	JVM_CONSTANT_LAST_SP, /* words from the frame pointer */
	JVM_CONSTANT_HAS_LINES,
	JVM_CONSTANT_KIND_NMETHOD,
	JVM_NUMBERS
};

#define JVM_RELEASE_BYTES_MAX 64u
struct jvm_layout {
	struct jvm_field fields[JVM_FIELDS];
	uint64_t variables[JVM_VARIABLES]; /* addresses in the process; 0 = none */
	int64_t numbers[JVM_NUMBERS];
	bool has_number[JVM_NUMBERS];
	uint32_t version; /* 8, 11, 17 ... */
	char release[JVM_RELEASE_BYTES_MAX];
};

/* bias: what is to be added to addresses as linked. -EAGAIN while the library is not yet initialized; -ENOTSUP if a table lacks
 * what is needed (err says what), -EBADMSG for nonsense, -EFAULT and others if it cannot be read; -ENOMEM. */
int jvm_read_layout(const struct jvm_build *build, uint64_t bias, const struct runtime_memory *memory, struct jvm_layout *ret,
		    struct error *err);
/* -EAGAIN while there are no code heaps; others as above. */
int jvm_place(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_process *ret, struct error *err);

/*
 * Where frames of virtual threads that have waited lie in Java's heap (bpf/jvm.h). The fields of Java's classes are in no
 * table: they are read from the classes themselves, in a stream that is so since 21 (oops/fieldInfo.hpp). See struct
 * jvm_process for the members.
 */
struct jvm_frozen {
	uint64_t enter_method, yield_method;
	uint64_t oop_base, color_bad, color_shift;
	uint32_t oop_shift, oop_bytes;
	uint32_t continuation_tail, chunk_parent, chunk_size, chunk_sp, chunk_bottom, chunk_stack;
};
/* -EAGAIN while the classes are not loaded; -ENOTSUP if there are none, the tables lack something, or the collector's
 * references cannot be followed; -EBADMSG for nonsense, -EFAULT and others if something cannot be read. */
int jvm_find_frozen(const struct jvm_layout *layout, const struct runtime_memory *memory, struct jvm_frozen *ret);
/* Tells the walk, after jvm_place(). */
void jvm_place_frozen(const struct jvm_layout *layout, const struct jvm_frozen *frozen, struct jvm_process *ret);

#define JVM_NAME_BYTES_MAX  1024u /* longer ones are cut */
#define JVM_LINES_BYTES_MAX (256u * 1024)
struct jvm_method {
	char name[JVM_NAME_BYTES_MAX]; /* UTF-8: package.Class.method */
	char file[JVM_NAME_BYTES_MAX]; /* "" = not known */
	uint32_t first_line;	       /* the smallest one; 0 = not known */
	uint8_t *lines;		       /* owned: mem_free(); the table that jvm_line() reads */
	size_t lines_bytes;
};
/* The Method at an address if it still has the check. 0; -ESTALE if it is another one by now; -EBADMSG if it holds nonsense;
 * -EFAULT and others if it cannot be read; -ENOMEM. */
int jvm_read_method(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		    struct jvm_method *ret);
/* The check of the Method that is at an address now. */
int jvm_method_check(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t *ret);
/* The line of a bytecode; 0 if it has none. excludes_zero: as in struct jvm_stream. */
uint32_t jvm_line(struct bytes lines, bool excludes_zero, uint32_t place);
bool jvm_excludes_zero(const struct jvm_layout *layout);

/* A method at a place in compiled code. */
struct jvm_scope {
	uint64_t method;
	int32_t place; /* the bytecode; below 0: none, the method's entry */
};
#define JVM_SCOPES_MAX 64u
/* The methods at a place in the code of an nmethod, if it still has the check: innermost first. The place is an offset in it,
 * or JVM_PLACE_LEAF: the address `leaf`. Returns how many. Errors as above. */
int jvm_read_scopes(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		    uint32_t place, uint64_t leaf, struct jvm_scope ret[static JVM_SCOPES_MAX]);
/* The name of a stub, if it still has the check. */
int jvm_read_stub(const struct jvm_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		  char ret[static JVM_NAME_BYTES_MAX]);

/* Numbers as HotSpot packs them (code/compressedStream.hpp, utilities/unsigned5.hpp). */
struct jvm_stream {
	struct bytes data;
	size_t at;
	bool excludes_zero; /* since 20 */
	bool is_bad;	    /* it ended early */
};
uint32_t jvm_take_number(struct jvm_stream *stream);
int32_t jvm_take_signed(struct jvm_stream *stream);

#endif
