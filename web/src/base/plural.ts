// SPDX-License-Identifier: Apache-2.0
/** The form for a number. A language with more than two forms gets them here. */
export const plural = (n: number, one: string, many: string): string => (n === 1 ? one : many);
