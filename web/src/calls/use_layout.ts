// SPDX-License-Identifier: Apache-2.0
// The layout of a call graph, from a worker. A newer question ends the older one.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { GraphLayout, LayoutInput } from '../model/callgraph_layout';

export interface LaidOut<K> {
	of: K | null; // what the layout is of; another than what was asked for while that is under way
	layout: GraphLayout | null;
	fault: string | null;
}

interface Response {
	nonce: number;
	layout: GraphLayout | null;
	fault: string | null;
}

const URL_OF_WORKER = 'layout.js'; // beside app.js

/** K: what the input was made of, and what `of` is compared with. */
export function useLayout<K>(wanted: K, input: LayoutInput): LaidOut<K> {
	const [laid, setLaid] = useState<LaidOut<K>>({ of: null, layout: null, fault: null });
	const worker = useRef<Worker | null>(null);
	const nonces = useRef(0);
	useEffect(() => {
		const nonce = ++nonces.current;
		const fail = (fault: string) => setLaid({ of: wanted, layout: null, fault });
		let busy = true;
		const end = () => {
			worker.current?.terminate();
			worker.current = null;
		};
		try {
			worker.current ??= new Worker(URL_OF_WORKER);
		} catch (error) {
			fail(error instanceof Error ? error.message : String(error));
			return undefined;
		}
		const { current } = worker;
		current.onmessage = ({ data }: MessageEvent<Response>) => {
			if (data.nonce !== nonce) return;
			busy = false;
			setLaid({ of: wanted, layout: data.layout, fault: data.fault });
		};
		current.onerror = (event) => {
			event.preventDefault();
			busy = false;
			end();
			fail(event.message || URL_OF_WORKER);
		};
		current.postMessage({ nonce, input });
		return () => {
			if (busy) end();
		};
		// eslint-disable-next-line react-hooks/exhaustive-deps -- the input is made of what is wanted
	}, [wanted]);
	useEffect(() => () => worker.current?.terminate(), []);
	return laid;
}
