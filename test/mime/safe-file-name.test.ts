import { isAbsolute, join, resolve, sep } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { portableName, safeFileName, truncateName } from '../../src/mail/file-names.ts';

const safe = (name: string | null, taken = new Set<string>()) =>
  safeFileName(name, { fallback: 'attachment-1', taken });

describe('safeFileName', () => {
  it.each([
    ['report.pdf', 'report.pdf'],
    ['Grüße 你好.txt', 'Grüße 你好.txt'],
    ['/etc/passwd', 'passwd'],
    ['..\\..\\boot.ini', 'boot.ini'],
    ['C:\\Temp\\a.doc', 'a.doc'],
    ['../..', 'attachment-1'],
    ['.', 'attachment-1'],
    ['', 'attachment-1'],
    [null, 'attachment-1'],
    ['folder/', 'folder'],
    ['.bashrc', '_bashrc'],
    ['-rf', '_rf'],
    ['a:b*c?.txt', 'a_b_c_.txt'],
    ['trailing. . ', 'trailing'],
    ['CON', '_CON'],
    ['con.txt', '_con.txt'],
    ['LPT1.tar.gz', '_LPT1.tar.gz'],
    ['console.log', 'console.log'],
    ['a\0b\x1b[2J.txt', 'ab[2J.txt'],
    ['invoice\u202Efdp.exe', 'invoicefdp.exe'],
    ['two\r\nlines.txt', 'twolines.txt'],
    ['lone\ud800.txt', 'lone\ufffd.txt'],
  ])('%j becomes %j', (name, expected) => {
    expect(safe(name)).toBe(expected);
  });

  it('numbers names that a file system may not distinguish', () => {
    const taken = new Set<string>();
    expect(safe('Photo.JPG', taken)).toBe('Photo.JPG');
    expect(safe('photo.jpg', taken)).toBe('photo (2).jpg');
    expect(safe('PHOTO.jpg', taken)).toBe('PHOTO (3).jpg');
    expect(safe('e\u0301.txt', taken)).toBe('é.txt');
    expect(safe('\u00e9.txt', taken)).toBe('é (2).txt');
    expect(safe(null, taken)).toBe('attachment-1');
    expect(safe(null, taken)).toBe('attachment-1 (2)');
  });

  it('shortens long names by bytes, and keeps the extension', () => {
    const name = safe(`${'日'.repeat(300)}.pdf`);
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
    expect(name.endsWith('日.pdf')).toBe(true);
  });

  it.each(['x.', 'x ', '. ', 'x/', 'x\\\\.', '\ud83d\ude00.'])(
    'makes no more work of a million characters of %j than of a thousand',
    (piece) => {
      // Trying again from each of them would take hours.
      const long = piece.at(-1)?.repeat(1_000_000) ?? '';
      const name = safe(`${piece}${long}${piece}${long}x.pdf`);
      expect(name.endsWith('.pdf')).toBe(true);
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
      expect(truncateName(portableName(`x${long}x`), 72)).toMatch(/^x/);
      expect(truncateName(`x${long}x`, 900_000)).toMatch(/^x/);
    },
    20_000,
  );

  it('stays one harmless component in the folder, whatever comes', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 5 }),
      fc.constantFrom('/', '\\', '..', '.', ' ', ':', 'con', 'aux.', '\0', '\u202e', '~', 'x'),
      fc.string({ unit: 'grapheme', maxLength: 120 }),
    );
    const names = fc.array(
      fc.array(piece, { maxLength: 8 }).map((p) => p.join('')),
      {
        maxLength: 6,
      },
    );
    fc.assert(
      fc.property(names, (list) => {
        const taken = new Set<string>();
        const given = list.map((name) => safe(name, taken));
        expect(new Set(given.map((name) => name.toLowerCase())).size).toBe(given.length);
        for (const name of given) {
          expect(name).not.toMatch(/[/\\<>:"|?*\p{Cc}\p{Surrogate}\u202a-\u202e\u2066-\u2069]/u);
          expect(name).not.toMatch(/^[.\-~ ]|[. ]$|^$/);
          expect(name).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i);
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
          expect(isAbsolute(name)).toBe(false);
          expect(resolve('/folder', name)).toBe(`/folder${sep}${name}`);
          expect(join('a', name)).toBe(`a${sep}${name}`);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
