// SPDX-License-Identifier: Apache-2.0
import * as T from '../base/texts';
import { IconButton } from './controls';
import { MoonIcon, SunIcon, SystemIcon } from './icons';
import type { useTheme } from './theme';

export function ThemeToggle({ theme }: { theme: ReturnType<typeof useTheme> }) {
	const icon = { system: <SystemIcon />, light: <SunIcon />, dark: <MoonIcon /> }[theme.choice];
	const title = T.theme[theme.choice];
	return (
		<IconButton label={title} testId="theme-toggle" onClick={theme.next}>
			{icon}
		</IconButton>
	);
}
