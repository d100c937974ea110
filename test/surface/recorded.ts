import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

/** Sections with entries: what is relied on, and what is recorded of it. */
export type Recording = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Environment variable that makes these tests write the recordings instead of comparing with them. */
const RECORD = 'RECORD_SURFACE';

/**
 * Fails unless `<name>.json` in this folder holds exactly what was found. With `RECORD_SURFACE=1` it writes the file
 * first: `RECORD_SURFACE=1 npx vitest run test/surface`, then review the diff.
 */
export function expectRecorded(name: string, found: Recording): void {
  const file = recordingFile(name);
  const text = recordingText(found);
  if (isRecording()) writeFileSync(file, text);
  const recorded = existsSync(file) ? readFileSync(file, 'utf8') : '';
  expect(
    text,
    `${name}.json no longer matches. If the change is wanted: ${RECORD}=1 npx vitest run test/surface`,
  ).toBe(recorded);
}

/** Returns the path of a recording. */
export function recordingFile(name: string): string {
  return fileURLToPath(new URL(`${name}.json`, import.meta.url));
}

/** Returns whether recordings are to be written. */
export function isRecording(): boolean {
  return process.env[RECORD] === '1';
}

/** Returns sorted JSON with one entry a line. */
function recordingText(found: Recording): string {
  const sections = sorted(found).map(([name, entries]) => [
    name,
    Object.fromEntries(sorted(entries)),
  ]);
  return `${JSON.stringify(Object.fromEntries(sections), null, 2)}\n`;
}

/** By code units, so that every machine sorts alike. */
function sorted<T>(record: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(record).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
