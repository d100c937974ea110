import {
  cutName,
  foldedName,
  harmlessName,
  NAME_LENGTH,
  withoutBareEnd,
} from '../mail/file-names.ts';

/** Bytes of UTF-8; file systems allow 255, and a number may still be added. */
const MAX_NAME_BYTES = 200;
/** An extension longer than this is part of the name. */
const MAX_EXTENSION_BYTES = 20;
/**
 * A file name from mail that is safe to create in a folder on any system: no path, no separators, controls or
 * characters that change the direction of text; not hidden, not a device, no longer than 200 bytes (its
 * extension kept), and unlike every name in `taken` even where case does not count. The chosen name is added
 * to `taken`.
 *
 * @param name as the mail gives it, or null where it gives none
 * @param options.fallback a safe name, used where nothing of `name` remains
 * @param options.taken names in use, folded by this function
 */
export function safeFileName(
  name: string | null,
  options: { readonly fallback: string; readonly taken: Set<string> },
): string {
  const safe = harmless(name ?? '') || harmless(options.fallback) || 'attachment';
  const [stem, extension] = splitExtension(safe);
  for (let number = 1; ; number++) {
    const candidate =
      number === 1 ? shorten(stem, extension, '') : shorten(stem, extension, ` (${number})`);
    const folded = foldedName(candidate);
    if (options.taken.has(folded)) continue;
    options.taken.add(folded);
    return candidate;
  }
}

function harmless(name: string): string {
  // A path names its last component; the folders before it are the sender's.
  const last =
    name
      .split(/[/\\]/)
      .filter((part) => !/^[\s.]*$/.test(part))
      .at(-1) ?? '';
  // What is cut out of a long name is its middle: the extension stays.
  const half = NAME_LENGTH / 2;
  return harmlessName(
    last.length <= NAME_LENGTH ? last : `${last.slice(0, half)}${last.slice(-half)}`,
  );
}

function splitExtension(name: string): [string, string] {
  const dot = name.lastIndexOf('.');
  if (dot <= 0 || Buffer.byteLength(name.slice(dot)) > MAX_EXTENSION_BYTES) return [name, ''];
  return [name.slice(0, dot), name.slice(dot)];
}

function shorten(stem: string, extension: string, number: string): string {
  const room = MAX_NAME_BYTES - Buffer.byteLength(extension) - Buffer.byteLength(number);
  // Without its extension, the name may end in a blank or a dot.
  return `${withoutBareEnd(cutName(stem, room))}${number}${extension}`;
}
