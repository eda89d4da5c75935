// SPDX-License-Identifier: Apache-2.0
// Lays call graphs out beside the page: a large one takes a second, and its library is loaded only when somebody looks at one.
import { layoutCallGraph, type LayoutInput } from '../model/callgraph_layout';

onmessage = ({ data }: MessageEvent<{ nonce: number; input: LayoutInput }>) => {
	const { nonce, input } = data;
	try {
		postMessage({ nonce, layout: layoutCallGraph(input), fault: null });
	} catch (error) {
		postMessage({ nonce, layout: null, fault: error instanceof Error ? error.message : String(error) });
	}
};
