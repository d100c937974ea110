import type { SegmentFile } from '../archive/format.ts';

/** Returns that many random bytes. */
export type Random = (bytes: number) => Buffer;

/** Commits, by their numbers. */
interface Commits {
  readonly first: number;
  readonly last: number;
}

/**
 * Names of the objects of one archive. Two uploads never have the same name, whatever they hold: a deletion that arrives
 * late removes nothing else. With the metadata of the objects, the names are enough to see what an archive consists of.
 */
export class ObjectNames {
  readonly #folder: string;

  /**
   * @param of the id of the fleet, and that of the archive's log
   * @param random never returns the same 8 bytes twice
   */
  constructor(
    of: { readonly fleet: string; readonly logId: Buffer },
    private readonly random: Random,
  ) {
    this.#folder = `${of.fleet}/${of.logId.toString('hex')}`;
  }

  /** Names a sealed segment. */
  sealed(file: SegmentFile, commits: Commits, epoch: number): string {
    return `${this.#folder}/s/${placeOf(file)}/${this.#unique(rangeOf(commits), epoch)}.seg`;
  }

  /** Names a chunk: commits of a segment as they are in its first generation. */
  chunk(segment: number, commits: Commits, epoch: number): string {
    const place = placeOf({ segment, generation: 1 });
    return `${this.#folder}/c/${place}/${this.#unique(rangeOf(commits), epoch)}.chunk`;
  }

  /** Names a snapshot of the catalog, by the commit that it has reached. */
  snapshot(commit: number, epoch: number): string {
    return `${this.#folder}/catalog/${this.#unique(String(commit), epoch)}.sqlite.z`;
  }

  #unique(what: string, epoch: number): string {
    return `${what}.${epoch}.${this.random(8).toString('hex')}`;
  }
}

function placeOf({ segment, generation }: SegmentFile): string {
  return `${String(segment).padStart(10, '0')}.${generation}`;
}

function rangeOf({ first, last }: Commits): string {
  return `${first}-${last}`;
}
