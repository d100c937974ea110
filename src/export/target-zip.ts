import path from 'node:path';
import { exportChanged, exportTargetForeign } from '../errors/export.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import { aboveMissing, type ExportFiles, NewFile, temporaryName, writing } from './export-files.ts';
import type { ExportTarget, WritingOptions } from './export-options.ts';
import { MANIFEST_NAME, type ManifestEntry, manifestText } from './manifest.ts';
import type { ExportOrigin } from './origin.ts';
import { ZipReader, ZipUnreadable } from './read-zip.ts';
import { sidecarOf, sidecarText } from './sidecar.ts';
import { openSource, type Source } from './source.ts';
import { linesOf, manifestEvents, sweepZip } from './target.ts';
import { ZipWriter } from './write-zip.ts';

/**
 * Opens an export into a zip file. The file appears under its name only when it is complete, and replaces the earlier
 * one: with `incremental` the messages of the earlier one come first.
 */
export function openZipTarget(
  origin: ExportOrigin,
  options: WritingOptions,
  files: ExportFiles,
): ExportTarget {
  const { to, incremental, sidecar } = options;
  const temporary = path.join(
    path.dirname(to),
    `.${path.basename(to)}${temporaryName(options.pid ?? process.pid, 1)}`,
  );
  let old: ZipReader | undefined;
  let file: NewFile | undefined;
  const forget = (): void => {
    old?.close();
    old = undefined;
  };
  /** From the archive; what was purged there is still in the zip before. */
  const earlier = async (entry: ManifestEntry): Promise<Source> => {
    // What is far away need not come a second time.
    const nearby = origin.sources.bring && (await provenPieces(old, entry));
    if (nearby !== undefined) return { pieces: () => nearby };
    try {
      return await openSource(origin.sources, entry.sha256, entry.size, true);
    } catch (error) {
      const gone = hasCode(error, 'bytes-purged') || hasCode(error, 'bytes-unknown');
      const pieces = gone ? await provenPieces(old, entry) : undefined;
      if (pieces !== undefined) return { pieces: () => pieces };
      throw gone ? exportChanged(to) : error;
    }
  };
  return {
    manifest: MANIFEST_NAME,
    async recall(plan) {
      old = await lookAtZip(files, to);
      if (old === undefined || !incremental) return;
      const pieces = await old.pieces(MANIFEST_NAME);
      if (pieces === undefined) return;
      for await (const event of manifestEvents(to, linesOf(pieces), 'zip')) {
        if (event.what === 'entry') plan.addEarlier(event.entry);
        else if (event.what === 'missing') plan.addMissing(event.place);
      }
    },
    async begin(plan, commit) {
      file = await writing(to, async () => {
        const folder = path.dirname(to);
        const above = aboveMissing(files, folder);
        files.makeFolder(folder);
        for (const parent of above) await files.syncFolder(parent);
        await sweepZip(files, to);
        return await NewFile.create(files, temporary);
      });
      return new ZipWriter({
        file,
        final: to,
        plan,
        earlier,
        sidecar: async (entry) =>
          sidecar
            ? sidecarText(sidecarOf(entry, await origin.history(entry.sha256), commit))
            : null,
      });
    },
    async finish(writer, plan, head) {
      if (!(writer instanceof ZipWriter) || file === undefined) return;
      await writer.addManifest(
        manifestText({ head, entries: plan.entries(), files: [], missing: plan.missing() }),
      );
      await writer.finish();
      const whole = file;
      await writing(to, async () => {
        await whole.finish(to);
        await files.syncFolder(path.dirname(to));
      });
      forget();
    },
    async discard(writer) {
      forget();
      await writer.discard();
    },
  };
}

/** The zip at a path that an earlier export made, or undefined for none. @throws export-target-foreign */
async function lookAtZip(files: ExportFiles, to: string): Promise<ZipReader | undefined> {
  const kind = await writing(to, async () => files.kindOf(to));
  if (kind === undefined) return undefined;
  if (kind !== 'file') throw exportTargetForeign(to, 'file');
  try {
    const zip = await writing(to, () => ZipReader.open(to));
    if (zip.hasManifest) return zip;
    zip.close();
  } catch (error) {
    if (!(error instanceof ZipUnreadable)) throw error;
  }
  throw exportTargetForeign(to, 'file');
}

async function provenPieces(old: ZipReader | undefined, entry: ManifestEntry) {
  return (await old?.holds(entry)) === true ? await old?.pieces(entry.path) : undefined;
}
