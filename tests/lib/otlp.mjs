// SPDX-License-Identifier: Apache-2.0
// Parts of OTLP requests, for tests that write such requests themselves.
import { bytesField, intField } from '../harness.mjs';

// A ProfilesDictionary of strings, which are: the empty one, the type, the unit, and the name of a function. Sample type 1 has unit 2, and
// stack 1 is of that function alone.
export const oneStackDictionary = (strings) => [
	...bytesField(1, []),
	...bytesField(2, []),
	...bytesField(2, bytesField(3, intField(1, 1))),
	...bytesField(3, []),
	...bytesField(3, intField(1, 3)),
	...bytesField(4, []),
	...strings.flatMap((text) => bytesField(5, text)),
	...bytesField(6, []),
	...bytesField(7, []),
	...bytesField(7, bytesField(1, [1])),
];
