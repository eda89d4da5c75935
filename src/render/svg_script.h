/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/render: style and script inside of every SVG. The script must not contain "]]>". */
#ifndef WICK_RENDER_SVG_SCRIPT_H
#define WICK_RENDER_SVG_SCRIPT_H

extern const char svg_style[];
extern const char svg_script[];

#endif
