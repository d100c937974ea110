import type { FileLayer } from '../../archive/files/file-layer.ts';
import { readMessagePayload } from '../../archive/format/recipe.ts';
import { RECORD_KIND } from '../../archive/format/records.ts';
import type { IsForgotten } from '../../archive/mend/mend-segment.ts';
import { type ScanEvent, scanLog } from '../../archive/read/scan-log.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';

/**
 * What the logs say was forgotten on purpose, and until which commit: what was stored again behind it is mail. Damage is
 * passed over.
 *
 * @param dirs folders of the archive
 */
export async function forgottenIn(files: FileLayer, dirs: readonly string[]): Promise<IsForgotten> {
  const until = new Map<string, number>();
  for (const dir of dirs) {
    for await (const event of readable(files, dir)) {
      if (event.what !== 'batch') continue;
      const { number } = event.batch.commit;
      for (const record of event.batch.records) {
        if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
        const { message, blobs = [], again = false } = record.fact;
        if (again) continue;
        for (const name of [`message ${message}`, ...blobs.map((blob) => `blob ${blob}`)]) {
          until.set(name, Math.max(number, until.get(name) ?? 0));
        }
      }
    }
  }
  return ({ kind, hash, payload }, commit) => {
    if (until.size === 0) return false;
    let name: string | undefined;
    if (kind === RECORD_KIND.blob) name = `blob ${hash.toString('hex')}`;
    else if (kind === RECORD_KIND.message && payload !== undefined) {
      name = `message ${readMessagePayload(payload)?.recipe.sha256}`;
    }
    return name !== undefined && commit < (until.get(name) ?? 0);
  };
}

/** A folder whose FORMAT is damaged tells nothing: what its files themselves mark as purged is known without it. */
async function* readable(
  files: FileLayer,
  dir: string,
): AsyncGenerator<ScanEvent, void, undefined> {
  try {
    yield* scanLog({ dir, files });
  } catch (error) {
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
}
