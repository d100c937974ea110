import { createHash } from 'node:crypto';
import type { ExportFolder } from './export-files.ts';
import type { ManifestEntry } from './manifest.ts';
import type { ExportPlan } from './plan.ts';
import { type Sidecar, sidecarsText } from './sidecar.ts';

/** Where the sidecars of a folder go: beside its mbox, or beside `cur/` and `new/`. */
export function folderSidecarPath(messagePath: string): string {
  return messagePath.endsWith('.mbox')
    ? messagePath.replace(/\.mbox$/, '.json')
    : messagePath.replace(/cur\/[^/]*$/, 'mailkeep-sidecar.json');
}

/** Writes one file of sidecars for each folder of the export. */
export async function writeFolderSidecars(
  folder: ExportFolder,
  plan: ExportPlan,
  sidecar: (entry: ManifestEntry) => Sidecar,
): Promise<void> {
  const entries = plan.entries();
  let next = entries.next();
  while (next.done !== true) {
    const path = folderSidecarPath(next.value.path);
    const inFolder = function* (): Generator<Sidecar> {
      while (next.done !== true && folderSidecarPath(next.value.path) === path) {
        yield sidecar(next.value);
        next = entries.next();
      }
    };
    // What a killed run left of one.
    await folder.sweep(path.split('/').slice(0, -1).join('/'));
    const digest = createHash('sha256');
    let size = 0;
    await folder.put(path, async (file) => {
      for (const text of sidecarsText(inFolder())) {
        const bytes = Buffer.from(text);
        digest.update(bytes);
        size += bytes.length;
        await file.write(bytes);
      }
    });
    plan.addFile({ path, sha256: digest.digest('hex'), size });
  }
}
