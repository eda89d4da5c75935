// SPDX-License-Identifier: Apache-2.0
/*
 * All texts of the page, in English: the one place to change a wording, and what there is to translate. Each file of texts/ has
 * those of one part of the page.
 *
 * Use: `import * as T from './texts'`, then `T.search.clear`. Groups are exports rather than members of one object, so that the
 * bundle of a single-file page does not contain texts that only the server's page shows.
 *
 * A text with values is a function of them. Values arrive as they are to be shown: formatted and escaped (format.ts). Numbers
 * arrive as numbers only where the words depend on them, which plural() (plural.ts) handles. A text with markup is
 * for rich() (ui/rich.tsx): `between backticks` is code, and {name} is the place of an element or a value.
 *
 * Not here, because they are not language: key caps, unit symbols, names in the API, in the URL and in files. web/test/texts.test.mjs
 * checks that there are no words elsewhere, and that every text here is used.
 */

export * from './texts/page';
export * from './texts/home';
export * from './texts/compare';
export * from './texts/query';
export * from './texts/status';
export * from './texts/profile';
export * from './texts/listing';
export * from './texts/faults';
export * from './texts/file';
export * from './texts/units';
