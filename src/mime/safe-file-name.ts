import { terminalLine } from '../mail/terminal-safe.ts';

/** Bytes of UTF-8; file systems allow 255, and a number may still be added. */
const MAX_NAME_BYTES = 200;
/** An extension longer than this is part of the name. */
const MAX_EXTENSION_BYTES = 20;
/** Device names that Windows opens in every folder, whatever extension follows. */
const RESERVED =
  /^(?:con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(?:\.|$)/i;

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
    const folded = fold(candidate);
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
  const line = terminalLine(last.replace(/\p{Cc}/gu, '').normalize('NFC'))
    .replace(/[<>:"|?*/\\]/g, '_')
    // Hidden files and names that read as options surprise whoever works in the folder.
    .replace(/^[.\-~\s]+/, '_')
    .replace(/[.\s]+$/, '');
  if (/^_*$/.test(line)) return '';
  return RESERVED.test(line) ? `_${line}` : line;
}

function splitExtension(name: string): [string, string] {
  const dot = name.lastIndexOf('.');
  if (dot <= 0 || Buffer.byteLength(name.slice(dot)) > MAX_EXTENSION_BYTES) return [name, ''];
  return [name.slice(0, dot), name.slice(dot)];
}

function shorten(stem: string, extension: string, number: string): string {
  const room = MAX_NAME_BYTES - Buffer.byteLength(extension) - Buffer.byteLength(number);
  let kept = stem;
  if (Buffer.byteLength(stem) > room) {
    let bytes = 0;
    kept = '';
    for (const char of stem) {
      bytes += Buffer.byteLength(char);
      if (bytes > room) break;
      kept += char;
    }
  }
  // Cutting may have bared a blank or a dot.
  return `${kept.replace(/[.\s]+$/, '')}${number}${extension}`;
}

/** Names that a file system without case, or with one form of accents, takes for the same. */
function fold(name: string): string {
  return name.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC');
}
