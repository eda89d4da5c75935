// SPDX-License-Identifier: Apache-2.0
// What of an opened file's time line is chosen, in the URL's fragment, as a page in a file has it: the query is the page's own state.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { formatTimeState, parseTimeState, type SetTime, type TimeState } from '../timeline/state';

/** of: the file; that of another begins with what the URL says. */
export function useTimeFragment(of: string): [TimeState, SetTime] {
	const [state, setState] = useState(() => parseTimeState(location.hash));
	const current = useRef(state);
	useEffect(() => {
		const read = () => {
			if (formatTimeState(current.current) === formatTimeState(parseTimeState(location.hash))) return;
			setState((current.current = parseTimeState(location.hash)));
		};
		read();
		addEventListener('popstate', read);
		addEventListener('hashchange', read);
		return () => {
			removeEventListener('popstate', read);
			removeEventListener('hashchange', read);
		};
	}, [of]);
	const set = useCallback<SetTime>((patch, how = 'push') => {
		const next = { ...current.current, ...patch };
		const is = formatTimeState(next);
		if (formatTimeState(current.current) === is) return;
		current.current = next;
		const url = location.pathname + location.search + (is ? `#${is}` : '');
		if (how === 'push') history.pushState(null, '', url);
		else history.replaceState(null, '', url);
		setState(next);
	}, []);
	return [state, set];
}
