import { terminalLine } from '../core/terminal-safe.ts';

/** Device names that Windows opens in every folder, whatever extension follows. */
const RESERVED =
  /^(?:con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(?:\.|$)/i;

/**
 * Code units of a name that are read: more than any system accepts, and few enough that mail cannot cause much work
 * with them.
 */
const NAME_LENGTH = 1_024;

/**
 * Returns one component of a path that any system accepts: one line in Unicode's composed form, without separators,
 * controls, characters that Windows refuses or that change the direction of text; not hidden, no device, and without
 * blanks or dots at its end. Of a longer text only the first 1,024 code units are read. Empty if nothing remains.
 */
export function harmlessName(text: string): string {
  const line = withoutBareEnd(
    terminalLine(
      text
        .slice(0, NAME_LENGTH)
        .replace(/\p{Cc}/gu, '')
        .normalize('NFC'),
    )
      .replace(/[<>:"|?*/\\]/g, '_')
      // Hidden files and names that read as options surprise whoever works in the folder.
      .replace(/^[.\-~\s]+/, '_'),
  );
  if (/^_*$/.test(line)) return '';
  return RESERVED.test(line) ? `_${line}` : line;
}

/** The beginning of a name in at most `bytes` bytes of UTF-8, no character cut in half, no blank or dot bared. */
export function cutName(name: string, bytes: number): string {
  if (Buffer.byteLength(name) <= bytes) return name;
  let used = 0;
  let kept = '';
  for (const char of name) {
    used += Buffer.byteLength(char);
    if (used > bytes) break;
    kept += char;
  }
  return withoutBareEnd(kept);
}

/** Without the blanks and dots at its end. An expression for them would try again from each of those within. */
function withoutBareEnd(name: string): string {
  let end = name.length;
  while (end > 0 && /[.\s]/.test(name.charAt(end - 1))) end -= 1;
  return name.slice(0, end);
}

/** The same text for all names that a file system without case, or with one form of accents, takes for the same. */
export function foldedName(name: string): string {
  return name.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC');
}

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
