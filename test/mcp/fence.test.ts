import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Fence, makeHarmless } from '../../src/web/mcp-tools.ts';

const RANDOM = Buffer.from('00112233445566778899aabb', 'hex');
const MARKER = RANDOM.toString('hex');
const fence = new Fence(RANDOM);

/** What a sender would write who knew even the marker. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 8 }),
      fc.constantFrom(
        '⟦',
        '⟧',
        MARKER,
        `${MARKER}⟧`,
        `⟦${MARKER} `,
        fence.notice(),
        '\u202e',
        '\u{e0041}',
        '\ud800',
        'https://evil.example/',
        '![x](https://evil.example/a.png)',
        '[click][1]',
        '<img src=x>',
        'javascript:alert(1)',
        '![1]\n\n[1]: //evil.example/a.png',
        '[1]',
        ']',
        ':',
        '_www.evil.example_',
        '\ufdd0',
        '\u{1fffe}',
      ),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

test('no sequence of what a sender wrote ends the fence or imitates the notice', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      const fenced = fence.around(text);
      const inner = fenced.slice(`⟦${MARKER} `.length, -` ${MARKER}⟧`.length);
      expect(fenced.startsWith(`⟦${MARKER} `)).toBe(true);
      expect(fenced.endsWith(` ${MARKER}⟧`)).toBe(true);
      expect(inner).not.toMatch(/[⟦⟧]/);
      expect(inner).not.toContain(fence.notice());
    }),
    { numRuns: 2_000 },
  );
});

test('what shows nothing or turns text around is shown', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(makeHarmless(text)).not.toMatch(
        /[\p{Cf}\p{Co}\p{Cs}\p{NChar}\u2028\u2029]|(?![\n\t])\p{Cc}/u,
      );
    }),
    { numRuns: 2_000 },
  );
  expect(makeHarmless('a\u202eb\u200bc\ufeff')).toBe('a\\u{202e}b\\u{200b}c\\u{feff}');
  expect(makeHarmless('line\r\nnext\ttab')).toBe('line\nnext\ttab');
});

test('links and pictures do not work, and can still be read', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(makeHarmless(text)).not.toMatch(/:\/\/|\]\(|\]\[|\]:|www\.|<[a-z]|\bjavascript:/i);
    }),
    { numRuns: 2_000 },
  );
  expect(makeHarmless('see https://example.org/a')).toBe('see https[:]//example.org/a');
});

test('every answer has a marker of its own', () => {
  const notices = new Set(Array.from({ length: 100 }, () => new Fence().notice()));
  expect(notices.size).toBe(100);
});
