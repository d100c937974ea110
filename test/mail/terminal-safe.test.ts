import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  displayWidth,
  fitColumns,
  padColumns,
  terminalLine,
  terminalSafe,
} from '../../src/core/terminal-safe.ts';

/** Written out apart from the source: what must never reach a terminal. */
function isForbidden(code: number, multiLine: boolean): boolean {
  if (code < 0x20) return !(multiLine && (code === 0x0a || code === 0x09));
  return (
    (code >= 0x7f && code <= 0x9f) ||
    code === 0xad ||
    code === 0x61c ||
    code === 0x180e ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0xfeff ||
    (code >= 0xd800 && code <= 0xdfff) ||
    (code >= 0xe0000 && code <= 0xe007f)
  );
}

function forbidden(text: string, multiLine: boolean): string[] {
  return [...text]
    .map((char) => char.codePointAt(0) ?? 0)
    .filter((code) => isForbidden(code, multiLine))
    .map((code) => code.toString(16));
}

/** Any UTF-16 units, lone surrogates too, with the dangerous ones much more likely than chance. */
const soup = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 0xffff }),
      fc.integer({ min: 0, max: 0xa0 }),
      fc.integer({ min: 0x2000, max: 0x206f }),
      fc.constantFrom(0xdb40, 0xdc01, 0xdc7f, 0xd83d, 0xde00, 0xfeff, 0x61c, 0xad, 0x180e),
    ),
  )
  .map((units) => String.fromCharCode(...units));

describe('terminalSafe', () => {
  it('leaves no forbidden code point, whatever comes in', () => {
    fc.assert(
      fc.property(soup, (text) => {
        expect(forbidden(terminalSafe(text), true)).toEqual([]);
        expect(forbidden(terminalLine(text), false)).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });

  it('changes nothing the second time', () => {
    fc.assert(
      fc.property(soup, (text) => {
        expect(terminalSafe(terminalSafe(text))).toBe(terminalSafe(text));
        expect(terminalLine(terminalLine(text))).toBe(terminalLine(text));
      }),
    );
  });

  it('shows escape sequences instead of obeying them', () => {
    expect(terminalSafe('\x1b[2Jgone\x1b]0;title\x07')).toBe('␛[2Jgone␛]0;title␇');
    expect(terminalSafe('\x9b31mred')).toBe('\ufffd31mred');
  });

  it('takes the reversing out of a reversed file name', () => {
    expect(terminalLine('invoice\u202Efdp.exe')).toBe('invoicefdp.exe');
    expect(terminalLine('\u2067a\u2069\u200b')).toBe('a');
  });

  it('keeps lines apart in several lines and joins them in one', () => {
    expect(terminalSafe('a\r\nb\rc\u2028d\te')).toBe('a\nb\nc\nd\te');
    expect(terminalLine('  a\r\nb\rc\u2028d\te ')).toBe('a b c d e');
  });

  it('keeps what people write', () => {
    const text = 'Grüße, 你好, שלום, a\u0301, 👩🏽, ﷽, ½ €';
    expect(terminalSafe(text)).toBe(text);
  });

  it('replaces halves of characters', () => {
    expect(terminalSafe('a\ud83d b\ude00')).toBe('a\ufffd b\ufffd');
    expect(terminalSafe('😀')).toBe('😀');
  });
});

describe('columns', () => {
  it('counts wide characters twice and marks not at all', () => {
    expect(displayWidth('abc')).toBe(3);
    expect(displayWidth('日本')).toBe(4);
    expect(displayWidth('한국')).toBe(4);
    expect(displayWidth('e\u0301')).toBe(1);
    expect(displayWidth('👍🏽')).toBe(2);
    expect(displayWidth('ñ')).toBe(1);
  });

  it('cuts to the columns there are and says so', () => {
    expect(fitColumns('abcdef', 6)).toBe('abcdef');
    expect(fitColumns('abcdefg', 6)).toBe('abcde…');
    expect(fitColumns('日本語', 6)).toBe('日本語');
    expect(fitColumns('日本語', 5)).toBe('日本…');
    expect(fitColumns('日本語', 4)).toBe('日…');
    expect(fitColumns('日本語', 1)).toBe('…');
    expect(fitColumns('abc', 0)).toBe('');
    expect(padColumns('日本語', 8)).toBe('日本語  ');
    expect(padColumns('日本語', 4)).toBe('日… ');
  });

  it('never exceeds the columns and never splits a character', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 0, max: 40 }),
        (text, columns) => {
          const line = terminalLine(text);
          const fitted = fitColumns(line, columns);
          expect(displayWidth(fitted)).toBeLessThanOrEqual(columns);
          expect(forbidden(fitted, false)).toEqual([]);
          expect(displayWidth(padColumns(line, columns))).toBe(columns);
        },
      ),
    );
  });
});
