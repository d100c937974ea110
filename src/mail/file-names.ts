import { terminalLine } from '../core/terminal-safe.ts';

const RESERVED =
  /^(?:con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(?:\.|$)/i;

/** Maximum number of UTF-16 units to read from a name. Longer than any system accepts, but cheap to process. */
const NAME_LENGTH = 1_024;

/**
 * Returns a path component that any system accepts: a single NFC line without separators, controls or bidi controls. It
 * is neither hidden nor a device name, and has no trailing blanks or dots. Reads only the first 1,024 UTF-16 units.
 * Returns an empty string if nothing remains.
 */
export function portableName(text: string): string {
  const line = trimEnd(
    terminalLine(
      text
        .slice(0, NAME_LENGTH)
        .replace(/\p{Cc}/gu, '')
        .normalize('NFC'),
    )
      .replace(/[<>:"|?*/\\]/g, '_')
      // Hidden files, and names that look like options, would surprise the user.
      .replace(/^[.\-~\s]+/, '_'),
  );
  if (/^_*$/.test(line)) return '';
  return RESERVED.test(line) ? `_${line}` : line;
}

/** Truncates a name to `bytes` bytes of UTF-8 without splitting a character or leaving a trailing blank or dot. */
export function truncateName(name: string, bytes: number): string {
  if (Buffer.byteLength(name) <= bytes) return name;
  let size = 0;
  let result = '';
  for (const char of name) {
    size += Buffer.byteLength(char);
    if (size > bytes) break;
    result += char;
  }
  return trimEnd(result);
}

/** Avoids a regular expression, which would take quadratic time. */
function trimEnd(name: string): string {
  let end = name.length;
  while (end > 0 && /[.\s]/.test(name.charAt(end - 1))) end -= 1;
  return name.slice(0, end);
}

/** Returns the same text for names that a case-insensitive or normalising file system treats as the same. */
export function foldedName(name: string): string {
  return name.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC');
}

/** Bytes of UTF-8. File systems allow 255, and a number may be appended. */
const MAX_NAME_BYTES = 200;
const MAX_EXTENSION_BYTES = 20;
/**
 * Returns a file name that is safe on any system: no path, no controls or bidi controls, not hidden, not a device name,
 * and at most 200 bytes with its extension. It differs from every name in `taken`, ignoring case, and is added there.
 *
 * @param options.fallback a safe name to use if nothing remains of `name`
 * @param options.taken names in use, folded by this function
 */
export function safeFileName(
  name: string | null,
  options: { readonly fallback: string; readonly taken: Set<string> },
): string {
  const base = harmlessFileName(name ?? '') || harmlessFileName(options.fallback) || 'attachment';
  const [stem, extension] = splitExtension(base);
  for (let number = 1; ; number++) {
    const candidate =
      number === 1 ? shorten(stem, extension, '') : shorten(stem, extension, ` (${number})`);
    const key = foldedName(candidate);
    if (options.taken.has(key)) continue;
    options.taken.add(key);
    return candidate;
  }
}

function harmlessFileName(name: string): string {
  // Any directories in the path are the sender's own.
  const last =
    name
      .split(/[/\\]/)
      .filter((part) => !/^[\s.]*$/.test(part))
      .at(-1) ?? '';
  // Shorten a long name in the middle to keep the extension.
  const half = NAME_LENGTH / 2;
  return portableName(
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
  return `${trimEnd(truncateName(stem, room))}${number}${extension}`;
}
