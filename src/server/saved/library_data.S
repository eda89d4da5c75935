/* SPDX-License-Identifier: Apache-2.0 */
/* The saved queries that are built in, as they are, and the table of library.h, sorted by name. */
	.macro saved name
	.section .rodata
name\@:
	.asciz "\name"
text\@:
	.incbin "src/server/saved/library/\name\().yaml"
end\@:
	.byte 0
	.section .data.rel.ro, "aw"
	.quad name\@, text\@, end\@
	.endm

	.section .data.rel.ro, "aw"
	.balign 8
	.global saved_library
saved_library:
	saved allocation-cost
	saved callers-of-function
	saved compared-with-earlier
	saved compression-cost
	saved cpu-by-process
	saved cpu-by-service
	saved cpu-over-time
	saved garbage-collection
	saved kernel-share
	saved lock-contention
	saved resource-usage
	saved slower-than-before
	saved system-calls
	saved top-functions
	saved top-packages
	saved versions-side-by-side
	saved waiting
	.quad 0, 0, 0

	.section .note.GNU-stack, "", %progbits
