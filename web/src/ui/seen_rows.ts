// SPDX-License-Identifier: Apache-2.0
/*
 * Tables of which only the rows in view are in the document, so that a million of them scroll like 20: which rows those are, where each
 * of them is, and the row that the keyboard is on.
 *
 * The body is as high as all its rows together, so that the scroll bar shows how much there is. Some browsers cut an element that is
 * higher than some 10 million pixels; beyond HEIGHT_MAX the scroll bar counts in larger steps instead.
 */
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSize } from './hooks';
import { pressRow } from './keys';

const OVERSCAN = 8; // rows to either side of those in view
const STRIDE = 4; // rows that are scrolled before others are drawn; fewer than OVERSCAN
export const HEIGHT_MAX = 8e6; // px

export interface SeenRows {
	first: number;
	last: number; // the one behind the last
	bodyHeight: number; // px
	scale: number; // pixels of rows to one that is scrolled
	shift: number; // px: row i is at i * rowHeight - shift in the body
}

/** count rows, in an element of that height that is scrolled to `top`. */
export function seenRows(count: number, rowHeight: number, top: number, height: number): SeenRows {
	const whole = count * rowHeight;
	const bodyHeight = Math.min(whole, HEIGHT_MAX);
	const scale = bodyHeight < whole && bodyHeight > height ? (whole - height) / (bodyHeight - height) : 1;
	const offset = top * scale;
	return {
		first: Math.max(0, Math.min(count, Math.floor(offset / rowHeight) - OVERSCAN)),
		last: Math.min(count, Math.ceil((offset + height) / rowHeight) + OVERSCAN),
		bodyHeight,
		scale,
		shift: offset - top,
	};
}

/** Where to scroll so that a row is in view, below the head, which covers one row; `top` if it is. */
export function scrollTo(row: number, rowHeight: number, top: number, height: number, scale: number): number {
	const [start, end] = [row * rowHeight, (row + 2) * rowHeight];
	const offset = top * scale;
	if (start < offset) return start / scale;
	return end > offset + height ? Math.max(0, end - height) / scale : top;
}

/** like: where one of these is another, the table begins at its top again. As many of them each time. */
export function useSeenRows(count: number, like: readonly unknown[]) {
	const scroller = useRef<HTMLDivElement>(null);
	const [measure, width, height] = useSize<HTMLDivElement>();
	const [top, setTop] = useState(0);
	const [active, setActive] = useState(-1);
	const rowHeight = useMemo(() => (matchMedia('(pointer: coarse)').matches ? 36 : 26), []);
	useLayoutEffect(() => {
		measure(scroller.current);
		return () => measure(null);
	}, [measure]);
	// Together with the rows: an effect comes a frame later, and would undo a move() that came first.
	useLayoutEffect(() => {
		scroller.current!.scrollTop = 0;
		setTop(0);
		setActive(-1);
		// eslint-disable-next-line react-hooks/exhaustive-deps -- the list is the caller's
	}, like);

	const seen = seenRows(count, rowHeight, top, height);
	const move = (next: number) => {
		setActive(next);
		scroller.current!.scrollTop = scrollTo(next, rowHeight, scroller.current!.scrollTop, height, seen.scale);
	};
	const onScroll = () => {
		const at = scroller.current!.scrollTop;
		setTop(seen.scale === 1 ? at - (at % (STRIDE * rowHeight)) : at);
	};
	/** act: what other keys do with the row (press()). onMove: called with the row that the arrows have led to. */
	const onKeyDown = (event: KeyboardEvent, act?: (event: KeyboardEvent, row: number) => boolean, onMove?: (row: number) => void) => {
		if (event.target !== scroller.current || count === 0) return; // the buttons of the head have keys of their own
		const page = Math.max(1, Math.floor(height / rowHeight) - 2);
		const stepped = pressRow(event, active, count, page, (step) => {
			move(step);
			onMove?.(step);
		});
		if (!stepped && active >= 0 && active < count) act?.(event, active);
	};
	const styleOf = (row: number) => ({ top: `${row * rowHeight - seen.shift}px`, height: `${rowHeight}px` });
	return { scroller, width, height, ...seen, active, setActive, move, onScroll, onKeyDown, styleOf };
}
