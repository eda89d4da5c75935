// SPDX-License-Identifier: Apache-2.0
// forge.js LIBRARY: loads what forges the functions of this process, from within some (see forge.c).
const nested = depth => (depth ? [depth].map(d => nested(d - 1)) : process.dlopen({exports: {}}, process.argv[2]));
nested(200);
