import type { ExportOptions, ExportTarget } from './export-options.ts';
import { FolderPaths } from './folder-paths.ts';
import { maildirFileName } from './maildir-file-name.ts';
import type { ManifestHead, MissingPlace } from './manifest.ts';
import { messageName } from './names.ts';
import { ExportPlan, namesakeOf, type PlannedPlace } from './plan.ts';

/** Failures beyond these are counted, and named in the manifest only. */
const MOST_NAMED = 10_000;

export interface Planned {
  readonly plan: ExportPlan;
  readonly commit: ManifestHead['commit'];
  readonly asOf: ManifestHead['asOf'];
  /** Places of the selection. */
  readonly places: number;
  /** Of them, those that an earlier export has. */
  readonly skipped: number;
  /** Places that only an earlier export has. */
  readonly kept: number;
  readonly quarantined: number;
  readonly failures: readonly MissingPlace[];
}

/** Writes down what an export consists of, as of one state of the archive. The caller closes the plan. */
export async function planPlaces(options: ExportOptions, target: ExportTarget): Promise<Planned> {
  const plan = new ExportPlan();
  try {
    await target.recall(plan);
    const earlier = plan.count();
    const read = options.catalog.snapshot(() => readPlaces(options, plan));
    plan.order();
    return { plan, ...read, kept: earlier - read.known };
  } catch (error) {
    plan.close();
    throw error;
  }
}

function readPlaces(options: ExportOptions, plan: ExportPlan) {
  const { catalog, selection, incremental, format } = options;
  const { query, docids = null, mailbox, folder, deleted, asOf } = selection;
  const isNarrowed = query !== null || docids !== null;
  const moment = asOf === null ? {} : { asOf };
  if (query !== null) {
    const { text: _, ...asked } = query;
    plan.narrow(catalog.foundDocids({ ...asked, ...moment }));
  }
  if (docids !== null) plan.narrow(docids);
  const pathOf = pathsOf(options);
  let [places, skipped, known, quarantined] = [0, 0, 0, 0];
  const failures: MissingPlace[] = [];
  const listed = catalog.listPlaces({
    ...(mailbox === null ? {} : { mailbox }),
    ...(folder === null ? {} : { folder }),
    ...moment,
    deleted,
  });
  for (const { line, folder: named, generation, docid } of listed) {
    const { id } = line;
    if (id === null) {
      // Nobody can tell whether a message without bytes would be found.
      if (isNarrowed) continue;
      places += 1;
      quarantined += 1;
      const { mailbox: address, folder: path, uid } = line;
      const at = { mailbox: address, folder: path, ...namesakeOf(named), generation, uid };
      const missing = { id, ...at };
      plan.addMissing({ ...missing, reason: 'quarantined' });
      if (failures.length < MOST_NAMED) failures.push({ ...missing, reason: 'quarantined' });
      continue;
    }
    if (isNarrowed && !plan.isFound(docid)) continue;
    places += 1;
    const place = {
      line: { ...line, id },
      host: named.host,
      resourceId: named.mailbox,
      delimiter: named.delimiter,
      specialUse: named.specialUse,
      namesake: named.namesake,
      generation,
      docid,
    };
    if (plan.has(place)) {
      known += 1;
      if (incremental) {
        skipped += 1;
        continue;
      }
    }
    plan.add({ ...place, path: pathOf(named, place) });
  }
  const { number, hash } = catalog.reached();
  const at = asOf === null ? null : catalog.commitAt(asOf);
  return {
    commit: { number, hash },
    asOf:
      asOf === null
        ? null
        : { number: at?.number ?? 0, time: new Date(at?.time ?? 0).toISOString() },
    places,
    skipped,
    known,
    quarantined,
    failures,
    format,
  };
}

/** Where places go, by format. */
function pathsOf({ format, catalog, platform = process.platform }: ExportOptions) {
  const paths = new FolderPaths(format === 'maildir' ? 'maildir' : 'nested');
  // In the order in which the archive met them, so that a later folder never changes an earlier one's path.
  const met = catalog.folders.all({ gone: true }).toSorted((a, b) => a.id - b.id);
  for (const { folder, ...rest } of met) paths.of({ ...rest, path: folder });
  const infoMark = platform === 'win32' ? ';' : ':';
  return (
    folder: Parameters<FolderPaths['of']>[0],
    { line, generation }: Omit<PlannedPlace, 'path' | 'before'>,
  ): string => {
    const base = paths.of(folder);
    if (format === 'mbox') return `${base}.mbox`;
    if (format === 'maildir') {
      return `${base}/cur/${maildirFileName({ ...line, generation }, infoMark)}`;
    }
    return `${base}/${messageName({ ...line, generation })}.eml`;
  };
}
