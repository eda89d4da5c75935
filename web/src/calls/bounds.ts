// SPDX-License-Identifier: Apache-2.0
/*
 * Which part of a call graph is in view: all of it to begin with, never the void beside it, and never so small that boxes cannot be labelled.
 * What has no room at that size is folded away before it is drawn. Pure.
 */

export interface View {
	x: number; // of the layout, at the left edge
	y: number;
	scale: number;
}

export interface Size {
	width: number;
	height: number;
}

export const SCALE_MAX = 3;
const FIT_MAX = 1.15; // a graph of three boxes does not fill the screen
/** Text of 12 px is still read at this scale; a graph that has to be smaller to fit is folded. */
export const LEGIBLE = 0.75;
const SCALE_MIN = 0.6; // with all of a graph that does not fit; no box is drawn without its label

/** All of it, in the middle; what does not fit by far, from the middle of its top on. */
export function fitView(content: Size, pane: Size): View {
	const scale = Math.max(SCALE_MIN, fitScale(content, pane));
	return { scale, x: (content.width - pane.width / scale) / 2, y: Math.min(0, (content.height - pane.height / scale) / 2) };
}

/** At which all of it is in view, however small that is. */
export function fitScale(content: Size, pane: Size): number {
	return Math.min(FIT_MAX, pane.width / Math.max(1, content.width), pane.height / Math.max(1, content.height));
}

const within = (at: number, shown: number, from: number, to: number): number => Math.min(Math.max(from, to - shown), Math.max(from, at));

/** The nearest view that shows nothing but the graph, and the room around it in fitView(). */
export function boundView(view: View, content: Size, pane: Size): View {
	const fit = fitView(content, pane);
	const scale = Math.min(SCALE_MAX, Math.max(fit.scale, view.scale));
	const [w, h] = [pane.width / fit.scale, pane.height / fit.scale];
	return {
		scale,
		x: within(view.x, pane.width / scale, Math.min(0, fit.x), Math.max(content.width, fit.x + w)),
		y: within(view.y, pane.height / scale, Math.min(0, fit.y), Math.max(content.height, fit.y + h)),
	};
}

/** How many boxes to try next where `count` of them do not fit; `count` itself where they do, or where there is nothing left to fold. */
export function foldTo(count: number, content: Size, pane: Size): number {
	const scale = fitScale(content, pane);
	if (scale >= LEGIBLE || count <= 1) return count;
	return Math.max(1, Math.floor(count * Math.min(0.9, (scale / LEGIBLE) ** 1.2)));
}
