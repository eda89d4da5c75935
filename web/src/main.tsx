// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import { App } from './app/app';
import './style.css';
import { startTheme } from './ui/theme';

startTheme();
render(<App />, document.getElementById('app')!);
