import { exportChanged } from '../errors/export.ts';
import { archiveOrigin } from './archive-origin.ts';
import type {
  ExportArchive,
  ExportResult,
  ExportTarget,
  FormatWriter,
  WritingOptions,
} from './export-options.ts';
import { MANIFEST_NAME, manifestText } from './manifest.ts';
import type { PlannedPlace } from './plan.ts';
import { exportTo } from './run-export.ts';
import type { Source } from './source.ts';
import { fromLine, quotedPieces } from './write-mbox.ts';
import { ZipWriter } from './write-zip.ts';

/** Takes an export as it is written. */
export interface ExportSink {
  /** Called once, before the first byte: with the number of the commit that the export is of. */
  begin(commit: number): void;
  /** Resolves when more can be taken. The bytes must not change afterwards. */
  write(bytes: Uint8Array): Promise<void>;
}

export interface StreamOptions extends ExportArchive, Pick<WritingOptions, 'signal'> {
  /** A zip is the one that the command writes; an mbox has the messages of all folders. */
  readonly format: 'zip' | 'mbox';
}

/**
 * Exports a selection as one file that is sent as it is made. Every source is proven before its first byte is sent. What
 * cannot be read is named in the manifest of a zip.
 *
 * @throws what `runExport` throws. What was sent is no complete file then: a zip has no directory and cannot be opened.
 */
export async function streamExport(
  { format, signal, ...archive }: StreamOptions,
  sink: ExportSink,
): Promise<ExportResult> {
  const whole: WritingOptions = {
    signal,
    to: `mailkeep.${format}`,
    // The paths of the files within are the same; an mbox has none.
    format: 'zip',
    incremental: false,
    sidecar: false,
    statusHeaders: false,
  };
  const target = format === 'zip' ? zipStream(whole, sink) : mboxStream(sink);
  return exportTo(archiveOrigin(archive), whole, target);
}

function zipStream({ to }: Pick<WritingOptions, 'to'>, sink: ExportSink): ExportTarget {
  return {
    manifest: MANIFEST_NAME,
    recall: () => Promise.resolve(),
    begin(plan, commit) {
      sink.begin(commit);
      const file = {
        write: (bytes: Uint8Array) => sink.write(bytes),
        discard: () => Promise.resolve(),
      };
      // There is no earlier export to take anything from.
      const earlier = () => Promise.reject(exportChanged(to));
      return Promise.resolve(
        new ZipWriter({ file, final: to, plan, earlier, sidecar: async () => null }),
      );
    },
    async finish(writer, plan, head) {
      if (!(writer instanceof ZipWriter)) return;
      await writer.addManifest(
        manifestText({ head, entries: plan.entries(), files: [], missing: plan.missing() }),
      );
      await writer.finish();
    },
    discard: (writer) => writer.discard(),
  };
}

function mboxStream(sink: ExportSink): ExportTarget {
  return {
    manifest: '',
    recall: () => Promise.resolve(),
    begin(plan, commit) {
      sink.begin(commit);
      const writer: FormatWriter = {
        width: 1,
        provenFirst: true,
        async put(rank, place, open) {
          await putIntoMbox(sink, place, await open());
          plan.done(rank, place);
          return 'written';
        },
        keep: () => Promise.resolve(),
        finish: () => Promise.resolve(),
        discard: () => Promise.resolve(),
      };
      return Promise.resolve(writer);
    },
    finish: (writer) => writer.finish(),
    discard: (writer) => writer.discard(),
  };
}

async function putIntoMbox(
  sink: ExportSink,
  { line }: Pick<PlannedPlace, 'line'>,
  source: Source,
): Promise<void> {
  await sink.write(Buffer.from(fromLine(line)));
  for await (const piece of quotedPieces(source.pieces())) await sink.write(Buffer.from(piece));
  await sink.write(Buffer.from('\n'));
}
