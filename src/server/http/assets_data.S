/* SPDX-License-Identifier: Apache-2.0 */
/* The bundled page as data; tools/build-web made the files. */
	.section .rodata
	.macro asset name, file
	.global asset_\name
	.global asset_\name\()_end
	.balign 16
asset_\name:
	.incbin "\file"
asset_\name\()_end:
	.byte 0
	.endm

	asset index_html, "web/index.html"
	asset app_js, "web/app.js"
	asset layout_js, "web/layout.js"
	asset app_css, "web/app.css"
	asset icon_svg, "web/icon.svg"
	asset report_html, "web/report.html"

	.section .note.GNU-stack, "", %progbits
