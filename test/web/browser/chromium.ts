import { type Browser, type BrowserServer, chromium, type LaunchOptions } from 'playwright-core';
import { absent, fileOf } from '../../peers/programs.ts';
import type { TrapServer } from './trap-server.ts';

/** Debian's names for Chromium. The first draws no windows, which takes less processor time. */
const PROGRAMS = ['chromium-headless-shell', 'chromium'] as const;
const PROGRAM = PROGRAMS.find((program) => fileOf(program) !== undefined) ?? PROGRAMS[0];

const ARGUMENTS = [
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Text is drawn the same on every machine with the same fonts.
  '--font-render-hinting=none',
  '--disable-lcd-text',
  '--force-color-profile=srgb',
  '--hide-scrollbars',
];

/** Only the fonts that tests name. */
const FONTS = new URL('fonts.conf', import.meta.url).pathname;

/**
 * True where there is no Chromium: tests that need one are skipped, and a warning says why.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export const withoutChromium = absent(PROGRAM);

/** Starts Chromium. A test file starts it once, and each test has a context of its own. */
export function launchChromium(options: LaunchOptions = {}): Promise<Browser> {
  return chromium.launch({ ...usual(), ...options });
}

/** Starts a Chromium that can be killed when it hangs, for pages that nothing protects it from. */
export function launchKillable(options: LaunchOptions = {}): Promise<BrowserServer> {
  return chromium.launchServer({ ...usual(), ...options });
}

function usual(): LaunchOptions {
  const executablePath = fileOf(PROGRAM);
  if (executablePath === undefined) throw new Error(`${PROGRAM} cannot be found in PATH`);
  // Chromium has no sandbox of its own where it runs as root.
  const isRoot = process.getuid?.() === 0;
  return {
    executablePath,
    args: [...ARGUMENTS, ...(isRoot ? ['--no-sandbox'] : [])],
    env: { ...process.env, FONTCONFIG_FILE: FONTS },
  };
}

/** The trap as a proxy for all but one port. The last rule that fits counts, and loopback has a rule of its own. */
export function throughTrap(trap: TrapServer, port: number): NonNullable<LaunchOptions['proxy']> {
  return { server: trap.url, bypass: `<-loopback>,127.0.0.1:${port}` };
}
