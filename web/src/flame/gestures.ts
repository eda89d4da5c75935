// SPDX-License-Identifier: Apache-2.0
/*
 * Zooming and panning by hand: the wheel with Ctrl (what a touchpad sends for two fingers, too) zooms to the pointer, with Shift or
 * sideways it moves; a drag moves a graph that is zoomed into, and scrolls it; two fingers on a screen zoom to the place between them.
 *
 * A gesture moves the canvas at once and the page's state when it rests: a new state for each of the wheel's steps would make a
 * history entry or an address for each, and browsers stop pages that write many of those. What is under way is `moving`.
 * A drag that was one is not a click: the click that follows it is to be swallowed.
 */
import type { FlameCanvas } from './canvas';

const REST_MS = 160; // without a step of the wheel: the gesture is over
const DRAG_PX = 4; // less is a click of an unsteady hand
const WHEEL_STEP = 0.01; // of the logarithm of the zoom, a pixel
const WHEEL_MOST = 40; // pixels at once: a mouse's notch is 100 or 120
const LINE_PX = 16;

interface Pointer {
	x: number;
	y: number;
}

export class Gestures {
	private timer = 0;
	private pointers = new Map<number, Pointer>();
	private from: Pointer | null = null; // where a press began that may become a drag
	private dragging = false;
	private swallow = false;

	/** rest: the gesture is over, and the page's state is to follow. */
	constructor(
		private element: HTMLElement,
		private view: FlameCanvas,
		private rest: () => void,
	) {
		element.addEventListener('wheel', this.onWheel, { passive: false });
	}

	destroy(): void {
		clearTimeout(this.timer);
		this.element.removeEventListener('wheel', this.onWheel);
	}

	/** Whether the click that comes now is the end of a drag. */
	takeClick(): boolean {
		const { swallow } = this;
		this.swallow = false;
		return swallow;
	}

	get busy(): boolean {
		return this.dragging || this.pointers.size > 1;
	}

	private readonly onWheel = (event: WheelEvent): void => {
		const unit = event.deltaMode === 1 ? LINE_PX : event.deltaMode === 2 ? this.element.clientHeight : 1;
		if (event.ctrlKey || event.metaKey) {
			event.preventDefault();
			const pixels = Math.max(-WHEEL_MOST, Math.min(WHEEL_MOST, event.deltaY * unit));
			this.view.zoomAt(event.clientX, Math.exp(pixels * WHEEL_STEP));
		} else {
			const sideways = (event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX) * unit;
			if (sideways === 0 || (!event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) || this.view.whole) return;
			event.preventDefault();
			this.view.pan(sideways);
		}
		clearTimeout(this.timer);
		this.timer = window.setTimeout(this.rest, REST_MS);
	};

	down(event: PointerEvent): void {
		if (event.pointerType === 'mouse' && event.button !== 0) return;
		this.swallow = false;
		const at = { x: event.clientX, y: event.clientY };
		this.pointers.set(event.pointerId, at);
		this.from = this.pointers.size === 1 ? at : null;
	}

	/** True: the movement was part of a gesture. */
	move(event: PointerEvent): boolean {
		const was = this.pointers.get(event.pointerId);
		if (!was) return false;
		const at = { x: event.clientX, y: event.clientY };
		if (this.pointers.size === 2) {
			this.pinch(event.pointerId, was, at);
			return true;
		}
		if (this.from && !this.dragging && Math.hypot(at.x - this.from.x, at.y - this.from.y) >= DRAG_PX) this.begin(event);
		if (!this.dragging) return false;
		this.pointers.set(event.pointerId, at);
		if (!this.view.whole) this.view.pan(was.x - at.x);
		if (event.pointerType === 'mouse') this.element.scrollTop -= at.y - was.y; // fingers scroll by themselves
		return true;
	}

	private begin(event: PointerEvent): void {
		this.dragging = true;
		this.element.classList.add('dragged');
		this.element.setPointerCapture(event.pointerId);
	}

	private pinch(id: number, was: Pointer, at: Pointer): void {
		const other = [...this.pointers].find(([key]) => key !== id)![1];
		this.pointers.set(id, at);
		this.swallow = true;
		const before = Math.hypot(was.x - other.x, was.y - other.y);
		const now = Math.hypot(at.x - other.x, at.y - other.y);
		if (before < 1 || now < 1) return;
		this.view.pan((was.x - at.x) / 2);
		this.view.zoomAt((at.x + other.x) / 2, before / now);
	}

	/** The pointer is up, or lost to the browser. */
	up(event: PointerEvent): void {
		if (!this.pointers.delete(event.pointerId)) return;
		const moved = this.dragging || this.swallow;
		if (this.dragging) this.swallow = true;
		this.dragging = false;
		this.from = null;
		this.element.classList.remove('dragged');
		if (moved && this.pointers.size === 0) this.rest();
	}
}
