import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { logFolder } from '../archive/format.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import { DISK_DAYS, utcDay, utcDayBefore } from '../core/state-runs.ts';
import type { Catalog } from './catalog.ts';
import { catalogFile } from './database.ts';

/** A day's sample is replaced at most hourly, so that the last one dates from near the end of the day. */
const AGAIN_MS = 3_600_000;

/** Records the archive's size once a day. Skips the day if reading or writing fails. */
export function recordDiskSample(
  state: Memory,
  archive: { readonly catalog: Pick<Catalog, 'totals'>; readonly dataDir: string },
  now: number,
): void {
  try {
    noteOn(state, utcDay(now), now, archive);
  } catch (error) {
    if (!(error instanceof MailkeepError) && errnoOf(error) === undefined) throw error;
  }
}

type Memory = Pick<StateFile, 'get' | 'set' | 'entries' | 'together'>;

function noteOn(
  state: Memory,
  day: string,
  now: number,
  { catalog, dataDir }: Parameters<typeof recordDiskSample>[1],
): void {
  const previous = state.get('disk-sample', day);
  if (previous !== undefined && Math.abs(now - previous.at) < AGAIN_MS) return;
  const log = directoryBytes(logFolder(dataDir));
  const sample = { at: now, log, catalog: fileBytes(catalogFile(dataDir)) };
  const mail = catalog.totals().bytes;
  state.together(() => {
    state.set('disk-sample', day, { ...sample, mail });
    if (previous !== undefined) return;
    const oldest = utcDayBefore(now, DISK_DAYS);
    for (const { key: oldDay } of state.entries('disk-sample'))
      if (oldDay < oldest) state.set('disk-sample', oldDay, null);
  });
}

export function directoryBytes(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + fileBytes(path.join(folder, name)), 0);
}

/** Returns the size in bytes, or 0 if a writer has just replaced the file. */
export function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
