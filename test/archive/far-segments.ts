import { basename } from 'node:path';
import { logFolder, parseSegmentName, type SegmentFile } from '../../src/archive/format.ts';
import type { SegmentStore } from '../../src/archive/segment-files.ts';
import type { SimulatedDisk } from './simulated-disk.ts';

/** Keeps files of segments outside of the log's folder until they are asked for. */
export class FarSegments implements SegmentStore {
  readonly #far = new Map<number, Map<string, Buffer>>();
  /** Segments that were asked for, in order. */
  readonly fetched: number[] = [];
  readonly published: SegmentFile[] = [];
  /** Called before a file is taken. */
  publishing: (sealed: SegmentFile) => void = () => {};

  constructor(
    private readonly disk: SimulatedDisk,
    private readonly dir: string,
  ) {}

  /** Takes the files of a segment out of the folder. */
  evict(segment: number): void {
    const files = new Map(this.#far.get(segment));
    for (const path of this.#paths(segment)) {
      files.set(path, this.disk.read(path));
      this.disk.delete(path);
    }
    this.#far.set(segment, files);
  }

  present(segment: number): boolean {
    return !this.#far.has(segment);
  }

  async fetch(segments: readonly number[]): Promise<void> {
    for (const segment of segments) {
      const files = this.#far.get(segment);
      if (files === undefined) continue;
      this.fetched.push(segment);
      for (const [path, bytes] of files) this.disk.put(path, bytes);
      this.#far.delete(segment);
    }
  }

  async publish(sealed: SegmentFile): Promise<void> {
    this.publishing(sealed);
    this.published.push(sealed);
  }

  /** The files of a segment in the folder. */
  #paths(segment: number): string[] {
    const folder = `${logFolder(this.dir)}/`;
    return this.disk
      .paths()
      .filter((path) => path.startsWith(folder))
      .filter((path) => parseSegmentName(basename(path))?.segment === segment);
  }
}
