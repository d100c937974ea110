import { createHash } from 'node:crypto';
import path from 'node:path';
import { type ExportFiles, ExportFolder } from './export-files.ts';
import type { ExportTarget, WritingOptions } from './export-options.ts';
import { MANIFEST_NAME, type ManifestEntry, manifestText, UNFINISHED_NAME } from './manifest.ts';
import type { ExportOrigin } from './origin.ts';
import type { ExportPlan } from './plan.ts';
import { type Sidecar, sidecarOf, sidecarsText, sidecarText } from './sidecar.ts';
import { type FolderTarget, fileLines, inspectFolder, manifestEvents } from './target.ts';
import { FileWriter } from './write-files.ts';
import { MboxWriter } from './write-mbox.ts';

/** Returns where the sidecars of a folder go: next to its mbox, or next to `cur/` and `new/`. */
export function folderSidecarPath(messagePath: string): string {
  return messagePath.endsWith('.mbox')
    ? messagePath.replace(/\.mbox$/, '.json')
    : messagePath.replace(/cur\/[^/]*$/, 'mailkeep-sidecar.json');
}

/** Writes one file of sidecars for each folder of the export. */
export async function writeFolderSidecars(
  folder: ExportFolder,
  plan: ExportPlan,
  sidecar: (entry: ManifestEntry) => Promise<Sidecar>,
): Promise<void> {
  const entries = plan.entries();
  let next = entries.next();
  while (next.done !== true) {
    const path = folderSidecarPath(next.value.path);
    const inFolder = async function* (): AsyncGenerator<Sidecar> {
      while (next.done !== true && folderSidecarPath(next.value.path) === path) {
        yield await sidecar(next.value);
        next = entries.next();
      }
    };
    // What a killed run left of one.
    await folder.sweep(path.split('/').slice(0, -1).join('/'));
    const digest = createHash('sha256');
    let size = 0;
    await folder.put(path, async (file) => {
      for await (const text of sidecarsText(inFolder())) {
        const bytes = Buffer.from(text);
        digest.update(bytes);
        size += bytes.length;
        await file.write(bytes);
      }
    });
    plan.addFile({ path, sha256: digest.digest('hex'), size });
  }
}

/** An export into a folder: .eml files, mboxes or Maildirs. */
export function openFolderTarget(
  origin: ExportOrigin,
  options: WritingOptions,
  files: ExportFiles,
): ExportTarget {
  const { to, format, incremental, statusHeaders } = options;
  const folder = new ExportFolder(files, to, options.pid ?? process.pid);
  const manifest = path.join(to, MANIFEST_NAME);
  let found: FolderTarget = { finished: false, unfinished: false };
  let commit = 0;
  const sidecar = async (entry: ManifestEntry) =>
    sidecarOf(entry, await origin.history(entry.sha256), commit);
  return {
    manifest,
    async recall(plan) {
      found = await inspectFolder(files, to);
      if (!found.finished) return;
      for await (const event of manifestEvents(manifest, fileLines(files, manifest), format)) {
        if (event.what === 'entry') plan.addEarlier(event.entry);
        else if (event.what === 'file') plan.addFile(event.file);
        else if (event.what === 'missing' && incremental) plan.addMissing(event.place);
      }
    },
    async begin(plan, of) {
      commit = of;
      folder.makeFolder('');
      await folder.sweep('');
      // Durable before the first message, so that what a kill leaves is known for an export.
      const marker = Buffer.from(`${JSON.stringify({ mailkeep: 'unfinished export', format })}\n`);
      await folder.put(UNFINISHED_NAME, (file) => file.write(marker));
      await folder.sync();
      const resumed = found.unfinished;
      if (format === 'mbox') {
        return new MboxWriter({ folder, plan, statusHeaders, incremental, resumed });
      }
      if (format === 'maildir') {
        return new FileWriter({
          folder,
          plan,
          resumed,
          prepare: (cur) => {
            for (const part of ['new', 'tmp']) folder.makeFolder(cur.replace(/cur$/, part));
          },
          temporaryIn: (file) => file.replace(/cur\/[^/]*$/, 'tmp'),
          sidecar: async () => null,
        });
      }
      return new FileWriter({
        folder,
        plan,
        resumed,
        sidecar: async (entry) => (options.sidecar ? sidecarText(await sidecar(entry)) : null),
      });
    },
    async finish(writer, plan, head) {
      await writer.finish();
      if (options.sidecar && format !== 'eml') {
        await writeFolderSidecars(folder, plan, sidecar);
      }
      const parts = {
        head,
        entries: plan.entries(),
        files: plan.files(),
        missing: plan.missing(),
      };
      await folder.put(MANIFEST_NAME, async (file) => {
        for (const piece of manifestText(parts)) await file.write(Buffer.from(piece));
      });
      await folder.sync();
      await folder.remove(UNFINISHED_NAME);
      await folder.sync();
    },
    discard: (writer) => writer.discard(),
  };
}
