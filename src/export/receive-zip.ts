import path from 'node:path';
import { aboveMissing, NewFile, realExportFiles, temporaryName, writing } from './export-files.ts';
import { sweepZip } from './target.ts';
import { lookAtZip } from './target-zip.ts';

/**
 * Writes a zip that another machine makes. It appears under its name only when it is complete, and replaces an earlier export
 * only.
 *
 * @param take gives the bytes as they come, and resolves with whether they are a complete zip; if not, nothing stays
 * @throws export-target-foreign: nothing was written; export-disk-full, export-write-failed; what `take` throws
 */
export async function receiveZip(
  to: string,
  take: (write: (bytes: Uint8Array) => Promise<void>) => Promise<boolean>,
): Promise<void> {
  const files = realExportFiles;
  const folder = path.dirname(to);
  (await lookAtZip(files, to))?.close();
  const temporary = path.join(folder, `.${path.basename(to)}${temporaryName(process.pid, 1)}`);
  const file = await writing(to, async () => {
    const above = aboveMissing(files, folder);
    files.makeFolder(folder);
    for (const parent of above) await files.syncFolder(parent);
    await sweepZip(files, to);
    return NewFile.create(files, temporary);
  });
  let isNamed = false;
  try {
    if (!(await take((bytes) => writing(to, () => file.write(bytes))))) return;
    await writing(to, async () => {
      await file.finish(to);
      isNamed = true;
      await files.syncFolder(folder);
    });
  } finally {
    if (!isNamed) await file.discard();
  }
}
