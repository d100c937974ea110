import { createReadStream } from 'node:fs';
import { type FilePath, joinedPath, shownPath } from '../disk/byte-path.ts';
import { openRegularFile } from '../disk/regular-file.ts';
import { importManifestDamaged, importNoMail } from '../errors/import.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { MANIFEST_NAME, ManifestDamaged } from '../export/manifest.ts';
import { ZipReader, ZipUnreadable } from '../export/read-zip.ts';
import { linesOf } from '../export/target.ts';
import { ExportIndex } from './export-index.ts';
import { exportAround, type InExport } from './find-mail.ts';
import { isZip } from './unpack-zip.ts';

interface Manifest {
  readonly path: string;
  /** Null for one that cannot be used. */
  readonly index: ExportIndex | null;
  /** The parts of the export that are imported; an empty text for all of it. */
  readonly parts: Set<string>;
}

interface OpenZip {
  readonly zip: ZipReader;
  readonly index: ExportIndex;
}

/** The manifests of the exports that an import meets, each read once. Close it: the indexes are databases. */
export class Manifests {
  readonly #folders = new Map<string, Manifest>();
  readonly #zips = new Map<string, OpenZip>();
  /** The export that the path lies in which is imported now. */
  #around: string | undefined;

  /** Reads the manifest of the export that a named path lies in, if it lies in one. */
  async around(given: FilePath): Promise<void> {
    const at = exportAround(given);
    this.#around = at === null ? undefined : shownPath(at.root);
    if (at !== null) (await this.#manifest(at.root)).parts.add(at.path);
  }

  /** Returns the index of the export that a file lies in; null where there is none, or a damaged one. */
  async of(at: InExport | null): Promise<ExportIndex | null> {
    if (at === null) return null;
    const manifest = await this.#manifest(at.root);
    // Found on the way down: all of that export is below the path that was named.
    if (shownPath(at.root) !== this.#around) manifest.parts.add('');
    return manifest.index;
  }

  /**
   * Opens a zip with an export in it; null for any other zip.
   *
   * @throws import-no-mail for a file that is not a zip, import-manifest-damaged
   */
  async zip(file: FilePath): Promise<OpenZip | null> {
    const shown = shownPath(file);
    const known = this.#zips.get(shown);
    if (known !== undefined) return known;
    if (typeof file !== 'string') throw importNoMail(shown);
    let zip: ZipReader | undefined;
    let isKept = false;
    try {
      zip = await ZipReader.open(file);
      const pieces = await zip.pieces(MANIFEST_NAME);
      if (pieces === undefined) return null;
      const opened = { zip, index: await ExportIndex.read(linesOf(pieces)) };
      this.#zips.set(shown, opened);
      isKept = true;
      return opened;
    } catch (error) {
      if (error instanceof ManifestDamaged) throw importManifestDamaged(shown);
      // Within the manifest as well: its bytes are not what the zip says.
      if (!(error instanceof ZipUnreadable)) throw error;
      // Its names may not be fit for a zip that we write.
      if (zip === undefined && (await isZip(file))) return null;
      throw importNoMail(shown);
    } finally {
      if (!isKept) zip?.close();
    }
  }

  /** Paths of messages that a manifest lists in the parts that were imported, and that are not there. */
  *unmet(): Generator<string> {
    for (const { path, index, parts } of this.#folders.values()) {
      const root = path.slice(0, -MANIFEST_NAME.length);
      // What lies in another part that was imported is not listed twice.
      const outermost = [...parts].filter((part) => !isWithin(part, parts));
      for (const part of outermost) for (const at of index?.unmet(part) ?? []) yield `${root}${at}`;
    }
    for (const [file, { index }] of this.#zips) {
      for (const at of index.unmet('')) yield `${file}/${at}`;
    }
  }

  /** Every manifest that was met, and whether it was used. */
  list(): { readonly path: string; readonly used: boolean }[] {
    return [
      ...[...this.#folders.values()].map(({ path, index }) => ({ path, used: index !== null })),
      ...[...this.#zips.keys()].map((path) => ({ path, used: true })),
    ];
  }

  close(): void {
    for (const { index } of this.#folders.values()) index?.close();
    for (const { zip, index } of this.#zips.values()) {
      index.close();
      zip.close();
    }
  }

  async #manifest(root: FilePath): Promise<Manifest> {
    const shown = shownPath(root);
    const known = this.#folders.get(shown);
    if (known !== undefined) return known;
    const file = joinedPath(root, MANIFEST_NAME);
    const index = await indexOf(file);
    const manifest = { path: shownPath(file), index, parts: new Set<string>() };
    this.#folders.set(shown, manifest);
    return manifest;
  }
}

/** True for a path of an export with a folder among `parts` that it lies in. */
function isWithin(path: string, parts: ReadonlySet<string>): boolean {
  if (path === '') return false;
  if (parts.has('')) return true;
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1))
    if (parts.has(path.slice(0, at))) return true;
  return false;
}

/** Null for a manifest that is damaged or cannot be read: the import does without. */
async function indexOf(file: FilePath): Promise<ExportIndex | null> {
  try {
    return await ExportIndex.read(linesOf(createReadStream(file, { fd: openRegularFile(file) })));
  } catch (error) {
    if (error instanceof ManifestDamaged || errnoOf(error) !== undefined) return null;
    throw error;
  }
}
