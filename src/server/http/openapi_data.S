/* SPDX-License-Identifier: Apache-2.0 */
	.section .rodata
	.global openapi_json
	.global openapi_json_end
	.balign 16
openapi_json:
	.incbin "docs/openapi.json"
openapi_json_end:
	.byte 0

	.section .note.GNU-stack, "", %progbits
