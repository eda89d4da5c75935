// SPDX-License-Identifier: Apache-2
// Drawn on a 16 px grid, in the colour of the text around them.
import type { ComponentChildren } from 'preact';

function Icon({ children, size = 16 }: { children: ComponentChildren; size?: number }) {
	return (
		<svg
			class="icon"
			width={size}
			height={size}
			viewBox="0 0 16 16"
			fill="none"
			stroke="currentColor"
			stroke-width="1.5"
			stroke-linecap="round"
			stroke-linejoin="round"
			aria-hidden="true"
			focusable="false"
		>
			{children}
		</svg>
	);
}

export const RefreshIcon = () => (
	<Icon>
		<path d="M13 8a5 5 0 1 1-1.6-3.7L13 5.8" />
		<path d="M13 2.5v3.3H9.7" />
	</Icon>
);
export const SlidersIcon = () => (
	<Icon>
		<path d="M2.5 5h6M12 5h1.5M2.5 11H4M7.5 11h6" />
		<circle cx="10.2" cy="5" r="1.7" />
		<circle cx="5.8" cy="11" r="1.7" />
	</Icon>
);
export const BeforeIcon = () => (
	<Icon size={12}>
		<path d="M4 10l4-4 4 4" stroke-width="2" />
	</Icon>
);
export const NextIcon = () => (
	<Icon size={12}>
		<path d="M4 6l4 4 4-4" stroke-width="2" />
	</Icon>
);
export const CloseIcon = () => (
	<Icon size={12}>
		<path d="M4 4l8 8M12 4l-8 8" stroke-width="2" />
	</Icon>
);
export const SearchIcon = () => (
	<Icon>
		<circle cx="7" cy="7" r="4.2" />
		<path d="M10.2 10.2 13.5 13.5" />
	</Icon>
);
export const FilterIcon = () => (
	<Icon>
		<path d="M2.5 4h11M4.5 8h7M6.5 12h3" />
	</Icon>
);
export const TextIcon = () => (
	<Icon>
		<path d="M5 3.5c-1.5 0-1.5 1-1.5 2S3.5 8 2.2 8c1.3 0 1.3 1.5 1.3 2.5s0 2 1.5 2M11 3.5c1.5 0 1.5 1 1.5 2s0 2.5 1.3 2.5c-1.3 0-1.3 1.5-1.3 2.5s0 2-1.5 2" />
	</Icon>
);
export const SunIcon = () => (
	<Icon>
		<circle cx="8" cy="8" r="2.8" />
		<path d="M8 1.7v1.5M8 12.8v1.5M1.7 8h1.5M12.8 8h1.5M3.5 3.5l1.1 1.1M11.4 11.4l1.1 1.1M12.5 3.5l-1.1 1.1M4.6 11.4l-1.1 1.1" />
	</Icon>
);
export const MoonIcon = () => (
	<Icon>
		<path d="M13.2 9.7A5.6 5.6 0 0 1 6.3 2.8a5.6 5.6 0 1 0 6.9 6.9z" />
	</Icon>
);
export const SystemIcon = () => (
	<Icon>
		<circle cx="8" cy="8" r="5.5" />
		<path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor" />
	</Icon>
);
export const DownloadIcon = () => (
	<Icon>
		<path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.3h10" />
	</Icon>
);
export const FlipIcon = () => (
	<Icon>
		<path d="M5 13V3M2.5 5.5 5 3l2.5 2.5M11 3v10M8.5 10.5 11 13l2.5-2.5" />
	</Icon>
);
export const ResetIcon = () => (
	<Icon>
		<path d="M2.5 6V2.5H6M13.5 6V2.5H10M2.5 10v3.5H6M13.5 10v3.5H10" />
	</Icon>
);

export const BackIcon = () => (
	<Icon>
		<path d="M9.8 3.5 5.2 8l4.6 4.5" />
	</Icon>
);
export const FlameIcon = () => (
	<Icon>
		<path d="M8.3 1.8c.5 2.3-.6 3.3-1.7 4.6C5.3 7.8 4 9.2 4 11a4 4 0 0 0 8 0c0-1.7-.8-2.8-1.5-3.8-.2.9-.6 1.4-1.2 1.8.4-2.3.2-4.8-1-7.2z" />
	</Icon>
);
export const SwapIcon = () => (
	<Icon>
		<path d="M3 5.5h9M9.5 3 12 5.5 9.5 8M13 10.5H4M6.5 8 4 10.5 6.5 13" />
	</Icon>
);
export const CopyIcon = () => (
	<Icon size={13}>
		<rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
		<path d="M3.5 10.5h-.5a.5.5 0 0 1-.5-.5V3a.5.5 0 0 1 .5-.5h7a.5.5 0 0 1 .5.5v.5" />
	</Icon>
);
export const MoreIcon = () => (
	<Icon>
		<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.2" />
	</Icon>
);

export const Logo = () => (
	<svg class="logo" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" focusable="false">
		<path
			d="M16.6 2c.9 4.6-1.2 6.7-3.4 9.2C10.6 14 8 16.7 8 20.6 8 25.2 11.5 28 16 28s8-2.9 8-7.5c0-3.3-1.5-5.6-3-7.6-.4 1.7-1.1 2.8-2.3 3.6C19.3 11.7 19.2 6.5 16.6 2z"
			fill="#ea580c"
		/>
		<path d="M16.1 15.5c.2 2.3-1 3.3-1.9 4.5-.7.9-1.2 1.8-1.2 2.9 0 1.9 1.3 3.1 3 3.1s3-1.3 3-3.1c0-2.7-1.9-4-2.9-7.4z" fill="#fed7aa" />
		<path class="logo-wick" d="M16 22v8" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
	</svg>
);

export const FoldIcon = ({ open }: { open: boolean }) => <Icon size={14}>{open ? <path d="M4 6l4 4 4-4" /> : <path d="M6 4l4 4-4 4" />}</Icon>;
export const ShareIcon = () => (
	<Icon>
		<path d="M6.6 9.4 9.4 6.6M7.4 4.8l1.2-1.2a2.7 2.7 0 0 1 3.8 3.8l-1.2 1.2M8.6 11.2l-1.2 1.2a2.7 2.7 0 0 1-3.8-3.8l1.2-1.2" />
	</Icon>
);
export const OpenIcon = () => (
	<Icon>
		<path d="M2.5 12.5v-9h4l1.4 1.8h5.6v7.2z" />
		<path d="M8 11V7.6M6.4 9 8 7.4 9.6 9" />
	</Icon>
);
