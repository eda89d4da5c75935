// SPDX-License-Identifier: Apache-2.0

/** A query of the selector and these stages. */
export const pipeline = (selector: string, ...stages: string[]): string => [selector, ...stages].join(' | ');
