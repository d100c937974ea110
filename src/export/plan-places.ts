import type { ExportTarget, WritingOptions } from './export-options.ts';
import type { MissingPlace } from './manifest.ts';
import { messageName } from './names.ts';
import type { ExportOrigin, Selected, SelectedPlace } from './origin.ts';
import { FolderPaths, maildirFileName, type NamedFolder } from './paths.ts';
import { ExportPlan, namesakeOf, type PlannedPlace } from './plan.ts';

/** Failures beyond these are counted, and named in the manifest only. */
const MOST_NAMED = 10_000;

export interface Planned extends Selected {
  readonly plan: ExportPlan;
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
export async function planPlaces(
  origin: ExportOrigin,
  options: WritingOptions,
  target: ExportTarget,
): Promise<Planned> {
  const plan = new ExportPlan();
  try {
    await target.recall(plan);
    const earlier = plan.count();
    const planning = new Planning(plan, options);
    const selected = await origin.select({
      folders: (met) => planning.folders(met),
      place: (place) => planning.place(place),
    });
    plan.order();
    const { places, skipped, quarantined, failures, known } = planning;
    return {
      ...{ ...selected, plan, places, skipped, quarantined, failures },
      kept: earlier - known,
    };
  } catch (error) {
    plan.close();
    throw error;
  }
}

/** Adds the places of a selection to a plan. */
class Planning {
  places = 0;
  skipped = 0;
  quarantined = 0;
  /** Places that an earlier export has, whether they are written again or not. */
  known = 0;
  readonly failures: MissingPlace[] = [];
  readonly #paths: FolderPaths;

  constructor(
    private readonly plan: ExportPlan,
    private readonly options: WritingOptions,
  ) {
    this.#paths = new FolderPaths(options.format === 'maildir' ? 'maildir' : 'nested');
  }

  /** In the order in which the archive met them, so that a later folder never changes an earlier one's path. */
  folders(met: readonly NamedFolder[]): void {
    for (const folder of met) this.#paths.of(folder);
  }

  place({ line, folder: named, generation, docid }: SelectedPlace): void {
    this.places += 1;
    const { id } = line;
    if (id === null) {
      this.#missing({ line, folder: named, generation });
      return;
    }
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
    if (this.plan.has(place)) {
      this.known += 1;
      if (this.options.incremental) {
        this.skipped += 1;
        return;
      }
    }
    this.plan.add({ ...place, path: this.#pathOf(named, place) });
  }

  #missing({ line, folder, generation }: Omit<SelectedPlace, 'docid'>): void {
    this.quarantined += 1;
    const { mailbox: address, folder: path, uid } = line;
    const at = { mailbox: address, folder: path, ...namesakeOf(folder), generation, uid };
    const missing = { id: null, ...at, reason: 'quarantined' } as const;
    this.plan.addMissing(missing);
    if (this.failures.length < MOST_NAMED) this.failures.push(missing);
  }

  #pathOf(
    folder: NamedFolder,
    { line, generation }: Omit<PlannedPlace, 'path' | 'before'>,
  ): string {
    const { format, platform = process.platform } = this.options;
    const base = this.#paths.of(folder);
    if (format === 'mbox') return `${base}.mbox`;
    if (format === 'maildir') {
      const infoMark = platform === 'win32' ? ';' : ':';
      return `${base}/cur/${maildirFileName({ ...line, generation }, infoMark)}`;
    }
    return `${base}/${messageName({ ...line, generation })}.eml`;
  }
}
