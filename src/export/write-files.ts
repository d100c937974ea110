import { createHash } from 'node:crypto';
import { type ExportFolder, writing } from './export-files.ts';
import type { FormatWriter } from './export-options.ts';
import { hashFile } from './hash-file.ts';
import type { ManifestEntry } from './manifest.ts';
import { type ExportPlan, entryOf, type PlannedPlace } from './plan.ts';
import type { Source } from './source.ts';

/** Files that are synced at a time: a disk takes several as fast as one. */
const WIDTH = 8;

interface FileWriterDeps {
  readonly folder: ExportFolder;
  readonly plan: ExportPlan;
  /** Where the unfinished file for this path (relative) lies; by default next to it. */
  readonly temporaryIn?: (path: string) => string;
  /** Called before the first file of each folder is written. */
  readonly prepare?: (folder: string) => void;
  /** The sidecar of a message, or null for none. */
  readonly sidecar: (entry: ManifestEntry) => Promise<string | null>;
  /** True when an earlier run may have left files that no manifest lists. */
  readonly resumed: boolean;
}

/** One file a place: .eml and Maildir. A file's time is the received date. */
export class FileWriter implements FormatWriter {
  readonly width = WIDTH;
  readonly provenFirst = false;
  readonly #prepared = new Map<string, Promise<void>>();

  constructor(private readonly deps: FileWriterDeps) {}

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const { folder, plan } = this.deps;
    await this.#prepare(place.path.split('/').slice(0, -1).join('/'));
    const there = await this.#isThere(place);
    if (!there) {
      const source = await open();
      const { date } = place.line;
      const temporaryIn = this.deps.temporaryIn?.(place.path);
      await folder.put(
        place.path,
        async (file) => {
          for await (const piece of source.pieces()) await file.write(piece);
        },
        {
          ...(date === null ? {} : { modified: Math.max(0, Date.parse(date)) }),
          ...(temporaryIn === undefined ? {} : { temporaryIn }),
        },
      );
    }
    plan.done(rank, place);
    await this.#putSidecar(place);
    return there ? 'there' : 'written';
  }

  async keep(): Promise<void> {
    // Its file is there.
  }

  async finish(): Promise<void> {
    await this.deps.folder.sync();
  }

  async discard(): Promise<void> {
    await this.deps.folder.sync();
  }

  /** Once a folder; everybody who writes there waits for it. */
  #prepare(path: string): Promise<void> {
    const known = this.#prepared.get(path);
    if (known !== undefined) return known;
    const preparing = this.#prepareFolder(path);
    this.#prepared.set(path, preparing);
    return preparing;
  }

  async #prepareFolder(path: string): Promise<void> {
    const { folder, prepare, resumed, temporaryIn } = this.deps;
    await writing(folder.absolute(path), async () => {
      folder.makeFolder(path);
      prepare?.(path);
    });
    if (!resumed) return;
    await folder.sweep(path);
    if (temporaryIn !== undefined) await folder.sweep(temporaryIn(`${path}/x`));
  }

  /** True when the file has its name and its bytes already; one under the name of an earlier export is renamed. */
  async #isThere({ path, before, line }: PlannedPlace): Promise<boolean> {
    const { folder, plan } = this.deps;
    const { files } = folder;
    const whole = (relative: string): boolean => {
      const absolute = folder.absolute(relative);
      return files.kindOf(absolute) === 'file' && hashFile(files, absolute).sha256 === line.id;
    };
    if (whole(path)) return true;
    if (before === null || !whole(before)) return false;
    await folder.rename(before, path);
    const old = sidecarPath(before);
    if (plan.file(old) !== undefined) {
      plan.dropFile(old);
      if (files.kindOf(folder.absolute(old)) === 'file') await folder.remove(old);
    }
    return true;
  }

  async #putSidecar(place: PlannedPlace): Promise<void> {
    const { folder, plan, sidecar } = this.deps;
    const entry = entryOf(place);
    const text = await sidecar(entry);
    if (text === null) return;
    const path = sidecarPath(place.path);
    const bytes = Buffer.from(text);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const absolute = folder.absolute(path);
    const { files } = folder;
    const same = files.kindOf(absolute) === 'file' && hashFile(files, absolute).sha256 === sha256;
    if (!same) await folder.put(path, (file) => file.write(bytes));
    plan.addFile({ path, sha256, size: bytes.length });
  }
}

export function sidecarPath(path: string): string {
  return path.replace(/\.eml$/, '.json');
}
