import { terminalLine } from './terminal-safe.ts';

/** Device names that Windows opens in every folder, whatever extension follows. */
const RESERVED =
  /^(?:con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])[ ]*(?:\.|$)/i;

/**
 * Code units of a name that are read: more than any system accepts, and few enough that mail cannot cause much work
 * with them.
 */
export const NAME_LENGTH = 1_024;

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
export function withoutBareEnd(name: string): string {
  let end = name.length;
  while (end > 0 && /[.\s]/.test(name.charAt(end - 1))) end -= 1;
  return name.slice(0, end);
}

/** The same text for all names that a file system without case, or with one form of accents, takes for the same. */
export function foldedName(name: string): string {
  return name.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC');
}
