import { forEachConcurrent } from '../core/concurrency.ts';
import { exportError } from './errors.ts';
import { realExportFiles } from './export-files.ts';
import { MANIFEST_NAME, MANIFEST_VERSION } from './export-manifest.ts';
import {
  fromLine,
  openFolderTarget,
  openZipTarget,
  quotedPieces,
  ZipWriter,
} from './export-target.ts';
import type { ManifestHead } from './manifest-shapes.ts';
import {
  type ExportArchive,
  type ExportFailure,
  type ExportOptions,
  type ExportPlan,
  type ExportTarget,
  type FormatWriter,
  missingPlace,
  openSource,
  type PlannedExport,
  type PlannedPlace,
  planPlaces,
  type SourceReader,
  unreadableReason,
  type WritingOptions,
} from './plan-export.ts';

type Placed = ReturnType<ExportPlan['places']> extends Generator<infer P> ? P : never;

const MAX_FAILURES = 10_000;

/**
 * Exports the selected places with bit-exact sources. Reports messages with damaged, purged or incomplete bytes, and
 * exports the others. Memory use does not grow with the number or size of messages.
 *
 * @throws export-target-foreign, export-format-differs, export-manifest-damaged, export-changed: nothing was written;
 * export-disk-full, export-write-failed: finished files are complete, and repeating the export continues it
 */
export async function runExport(options: ExportOptions): Promise<ExportResult> {
  const files = options.files ?? realExportFiles;
  const target =
    options.format === 'zip' ? openZipTarget(options, files) : openFolderTarget(options, files);
  return exportTo(options, options, target);
}

export type ExportResult = Awaited<ReturnType<typeof exportTo>>;

async function exportTo(archive: ExportArchive, options: WritingOptions, target: ExportTarget) {
  const { plan, ...planned } = await planPlaces(archive, options, target);
  try {
    const writer = await target.begin(plan, (planned.asOf ?? planned.commit).number);
    const run = new ExportRun(archive.sources, options, plan, writer);
    try {
      const finished = await run.all();
      if (finished) checkAllCounted(planned, run.counts, plan);
      const { commit, asOf, selection } = planned;
      const told = { format: options.format, commit, asOf, selection };
      const head: ManifestHead = { mailkeep: MANIFEST_VERSION, ...told };
      if (finished) await writer.finish(head);
      else await writer.discard();
    } catch (error) {
      await writer.discard().catch(() => {});
      throw error;
    }
    const { commit, asOf, places, skipped, kept, quarantined } = planned;
    const { exported, there, bytes, damaged, purged, replaced } = run.counts;
    return {
      ...{ to: options.to, format: options.format, commit, asOf },
      places,
      ...{ exported, bytes },
      skipped: skipped + there,
      /** Places outside the selection, from earlier exports to this target. */
      kept: kept - replaced,
      ...{ quarantined, damaged, purged },
      failures: [...planned.failures, ...run.failures].slice(0, MAX_FAILURES),
      manifest: target.manifest,
      /** Repeating an interrupted export continues it. */
      interrupted: options.signal.aborted,
    };
  } finally {
    plan.close();
  }
}

function checkAllCounted(
  { places, skipped, kept, quarantined }: Omit<PlannedExport, 'plan'>,
  { exported, there, damaged, purged, replaced }: ExportRun['counts'],
  plan: ExportPlan,
): void {
  const total = exported + there + skipped + damaged + purged + quarantined;
  if (total !== places) throw exportError('export-incomplete', { places, told: total });
  const { due, done, earlier, failed } = plan.tally();
  const planned = due + done + earlier + failed + quarantined - (kept - replaced);
  const isConsistent =
    due === 0 &&
    done === exported + there &&
    earlier === skipped + kept - replaced &&
    failed === damaged + purged;
  if (!isConsistent) throw exportError('export-incomplete', { places, told: planned });
}

class ExportRun {
  readonly counts = { exported: 0, there: 0, bytes: 0, damaged: 0, purged: 0, replaced: 0 };
  readonly failures: ExportFailure[] = [];

  constructor(
    private readonly sources: SourceReader,
    private readonly options: Pick<WritingOptions, 'signal' | 'onProgress'>,
    private readonly plan: ExportPlan,
    private readonly writer: FormatWriter,
  ) {}

  /** Writes and keeps all places. Returns false if the signal stopped it. */
  async all(): Promise<boolean> {
    const { signal, onProgress } = this.options;
    const due = this.plan.due();
    let [done, bytes] = [0, 0];
    try {
      await forEachConcurrent(
        this.#untilAborted(),
        this.writer.width,
        async ({ rank, outcome, place }) => {
          if (outcome === 'earlier' && !(await this.writer.keep(rank, place.entry)))
            this.counts.replaced += 1;
          if (outcome !== 'due') return;
          await this.#put(rank, place);
          done += 1;
          bytes += place.entry.size;
          onProgress?.({ done, of: due.places, bytes, ofBytes: due.bytes });
        },
      );
    } catch (error) {
      // An interrupted write leaves nothing behind, so its error does not matter.
      const isAbort = signal.aborted && error instanceof Error && error.name === 'AbortError';
      if (!isAbort) throw error;
    }
    return !signal.aborted;
  }

  *#untilAborted(): Generator<Placed> {
    for (const placed of this.plan.places()) {
      if (this.options.signal.aborted) return;
      yield placed;
    }
  }

  async #put(rank: number, place: PlannedPlace): Promise<void> {
    const { sha256: id, size } = place.entry;
    try {
      const result = await this.writer.put(rank, place, () =>
        openSource(this.sources, id, size, this.writer.provenFirst),
      );
      if (result === 'there') this.counts.there += 1;
      else {
        this.counts.exported += 1;
        this.counts.bytes += size;
      }
    } catch (error) {
      const reason = unreadableReason(error);
      if (reason === undefined) throw error;
      const entry = missingPlace(place.entry, id, reason);
      this.plan.failed(rank);
      this.plan.addMissing(entry);
      this.counts[reason] += 1;
      if (this.failures.length < MAX_FAILURES) this.failures.push(entry);
    }
  }
}

export interface ExportSink {
  /** Called before the first byte with the number of the exported commit. */
  begin(commit: number): void;
  /** Resolves when more can be written. The caller must not modify the bytes afterwards. */
  write(bytes: Uint8Array): Promise<void>;
}

export interface StreamOptions extends ExportArchive, Pick<WritingOptions, 'signal'> {
  /** A zip matches the output of the `export` command. An mbox contains the messages from all folders. */
  readonly format: 'zip' | 'mbox';
}

/**
 * Exports a selection as one streamed file. Every source is verified before its first byte is sent. A zip's manifest
 * lists unreadable messages.
 *
 * @throws errors from `runExport`, which leave the file incomplete; a zip then has no directory and cannot be opened
 */
export async function streamExport(
  { format, signal, ...archive }: StreamOptions,
  sink: ExportSink,
): Promise<ExportResult> {
  const settings: WritingOptions = {
    signal,
    to: `mailkeep.${format}`,
    // An mbox contains no paths, so a zip's will do.
    format: 'zip',
    incremental: false,
    sidecar: false,
    statusHeaders: false,
  };
  const target: ExportTarget = {
    manifest: format === 'zip' ? MANIFEST_NAME : '',
    recall: async () => {},
    async begin(plan, commit) {
      sink.begin(commit);
      return format === 'zip' ? zipTo(sink, settings.to, plan) : mboxTo(sink, plan);
    },
  };
  return exportTo(archive, settings, target);
}

function zipTo(sink: ExportSink, final: string, plan: ExportPlan): FormatWriter {
  const nothing = async () => {};
  const file = { write: sink.write.bind(sink), finish: nothing, discard: nothing };
  const earlier = () => Promise.reject(exportError('export-changed', { file: final }));
  return new ZipWriter({ file, final, plan, earlier, sidecar: () => null });
}

function mboxTo(sink: ExportSink, plan: ExportPlan): FormatWriter {
  return {
    width: 1,
    provenFirst: true,
    async put(rank, place, open) {
      const source = await open();
      await sink.write(Buffer.from(fromLine({ from: place.from, date: place.entry.date })));
      for await (const piece of quotedPieces(source.pieces())) await sink.write(Buffer.from(piece));
      await sink.write(Buffer.from('\n'));
      plan.done(rank, place);
      return 'written';
    },
    keep: async () => true,
    finish: async () => {},
    discard: async () => {},
  };
}
