import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  CONFIRM_AFTER_MS,
  type EarlierFetch,
  type FetchFacts,
  type FetchVerdict,
  judgeSource,
  learnSizes,
  MAX_FETCHES_PER_RUN,
  MIN_RULE_MESSAGES,
  NO_LESSONS,
  type SizeLessons,
  type SizeRule,
  trustedRule,
} from '../../src/sync/fetch-source.ts';

const NOW = 1_700_000_000_000;
const listing = { size: 1000, messageId: '<a@example.org>' };

function fetched(size: number, more: Partial<FetchFacts> = {}): FetchFacts {
  return {
    size,
    sha256: `hash of ${size}`,
    messageId: 'a@example.org',
    looksLikeMail: true,
    crlf: 30,
    bareLf: 0,
    ...more,
  };
}

const page = (size: number, more: Partial<FetchFacts> = {}) =>
  fetched(size, { looksLikeMail: false, messageId: null, crlf: 0, bareLf: 9, ...more });

function judge(
  fetches: readonly [FetchFacts, ...FetchFacts[]],
  more: {
    readonly of?: { readonly size: number; readonly messageId: string | null };
    readonly earlier?: readonly EarlierFetch[];
    readonly rule?: SizeRule;
  } = {},
): string {
  const judgement: FetchVerdict = judgeSource({
    listing: more.of ?? listing,
    fetches,
    earlier: more.earlier ?? [],
    rule: more.rule ?? null,
    now: NOW,
  });
  switch (judgement.verdict) {
    case 'accept':
      return judgement.mark === undefined ? 'accept' : `accept ${judgement.mark}`;
    case 'again':
      return 'again';
    case 'quarantine':
      return `quarantine ${judgement.reason}`;
  }
}

describe('a source of the listed size', () => {
  test('is whole at once', () => {
    expect(judge([fetched(1000)])).toBe('accept');
  });

  test('is whole although the Message-ID is another: sizes do not agree by chance', () => {
    expect(judge([fetched(1000, { messageId: 'b@example.org' })])).toBe('accept');
  });

  test('is whole when it comes on the second fetch', () => {
    expect(judge([fetched(400), fetched(1000)])).toBe('accept');
  });
});

describe('a shorter source', () => {
  const short = fetched(990);
  const longAgo = { at: NOW - CONFIRM_AFTER_MS, sha256: short.sha256 };

  test('is fetched three times in a run, then quarantined', () => {
    expect(judge([short])).toBe('again');
    expect(judge([short, short])).toBe('again');
    expect(judge([short, short, short])).toBe('quarantine short');
  });

  test('is accepted and marked when another run ten minutes later gets the same', () => {
    expect(judge([short, short, short], { earlier: [longAgo] })).toBe('accept shorter-twice');
  });

  test.each([
    ['a moment too early', [{ at: NOW - CONFIRM_AFTER_MS + 1, sha256: short.sha256 }]],
    ['of other bytes', [{ at: 0, sha256: 'other' }]],
    ['none', []],
  ])('is not accepted by an earlier fetch that was %s', (_name, earlier) => {
    expect(judge([short, short, short], { earlier })).toBe('quarantine short');
  });

  test('without the listed Message-ID is never accepted, whatever confirms it', () => {
    for (const messageId of [null, 'b@example.org']) {
      const other = { ...short, messageId };
      expect(judge([other, other, other], { earlier: [longAgo] })).toBe('quarantine short');
    }
  });
});

describe('a longer source', () => {
  const long = fetched(1010);

  test('is accepted and marked when two fetches agree, side by side or not', () => {
    expect(judge([long])).toBe('again');
    expect(judge([long, long])).toBe('accept longer-twice');
    expect(judge([long, fetched(700), long])).toBe('accept longer-twice');
  });

  test('of other bytes each time is not accepted', () => {
    const fetches = ['1', '2', '3'].map((sha256) => fetched(1010, { sha256 }));
    const [first = long, ...rest] = fetches;
    expect(judge([first, ...rest])).toBe('quarantine size-disagrees');
  });

  test('without the listed Message-ID is never accepted', () => {
    const other = { ...long, messageId: 'b@example.org' };
    expect(judge([other, other, other])).toBe('quarantine size-disagrees');
  });
});

describe('the listed Message-ID', () => {
  test.each([
    ['<a@example.org>', 'a@example.org'],
    ['a@example.org', 'a@example.org'],
    [' <a@example.org> ', 'a@example.org'],
    [null, null],
    ['', null],
    ['<>', null],
  ])('%j is carried by %j', (listed, carried) => {
    const of = { size: 1000, messageId: listed };
    const long = fetched(1010, { messageId: carried });
    expect(judge([long, long], { of })).toBe('accept longer-twice');
  });

  test('is missing when the listing has none and the source has one', () => {
    const long = fetched(1010);
    expect(judge([long, long, long], { of: { size: 1000, messageId: null } })).toBe(
      'quarantine size-disagrees',
    );
  });
});

describe('a web page', () => {
  test.each([
    ['shorter', 500],
    ['longer', 5000],
    ['as long as listed', 1000],
  ])('that is %s is never mail, however often it comes', (_name, size) => {
    const portal = page(size);
    const earlier = [{ at: 0, sha256: portal.sha256 }];
    expect(judge([portal], { earlier })).toBe('again');
    expect(judge([portal, portal], { earlier })).toBe('again');
    expect(judge([portal, portal, portal], { earlier })).toBe('quarantine not-mail');
  });

  test('is not mail either where the message has no Message-ID', () => {
    const of = { size: 1000, messageId: null };
    for (const size of [500, 5000]) {
      const portal = page(size);
      const earlier = [{ at: 0, sha256: portal.sha256 }];
      expect(judge([portal, portal, portal], { of, earlier })).toBe('quarantine not-mail');
    }
  });

  test('is mail after all when it carries the listed Message-ID, or has the listed size to the byte', () => {
    const odd = fetched(1000, { looksLikeMail: false });
    expect(judge([odd])).toBe('accept');
    expect(judge([page(1000)], { of: { size: 1000, messageId: null } })).toBe('accept');
  });

  test('does not stand in the way of the mail that comes after it', () => {
    expect(judge([page(500), fetched(1000)])).toBe('accept');
  });
});

describe('a rule of the host', () => {
  test('accepts at once what it explains, and nothing else', () => {
    const rule: SizeRule = { kind: 'lf' };
    expect(judge([fetched(1030)], { rule })).toBe('accept host-rule');
    expect(judge([fetched(1029)], { rule })).toBe('again');
    expect(judge([fetched(1030, { messageId: 'b@example.org' })], { rule })).toBe('again');
    expect(judge([page(1030, { crlf: 30 })], { rule })).toBe('again');
  });

  test.each<[SizeRule, FetchFacts]>([
    [{ kind: 'lf' }, fetched(1030, { crlf: 30 })],
    [{ kind: 'crlf' }, fetched(970, { crlf: 0, bareLf: 30 })],
    [{ kind: 'offset', bytes: 2 }, fetched(998)],
    [{ kind: 'offset', bytes: -120 }, fetched(1120)],
  ])('%j is learned after twenty messages', (rule, facts) => {
    let lessons: SizeLessons = NO_LESSONS;
    for (let i = 0; i < MIN_RULE_MESSAGES; i += 1) {
      expect(trustedRule(lessons)).toBeNull();
      // Different numbers of lines, so that no constant explains a rule of line ends.
      const crlf = facts.crlf === 0 ? 0 : facts.crlf + i;
      const bareLf = facts.bareLf === 0 ? 0 : facts.bareLf + i;
      const source = { ...facts, crlf, bareLf };
      lessons = learnSizes(lessons, { ...listing, size: listedSize(rule, source) }, source);
    }
    expect(trustedRule(lessons)).toEqual(rule);
    expect(JSON.parse(JSON.stringify(lessons))).toEqual(lessons);
  });

  test('is unlearned by one message whose size is as listed: a rule holds always', () => {
    let lessons: SizeLessons = NO_LESSONS;
    const source = fetched(1030);
    for (let i = 0; i < 25; i += 1) lessons = learnSizes(lessons, listing, source);
    expect(trustedRule(lessons)).not.toBeNull();
    expect(trustedRule(learnSizes(lessons, listing, undefined))).toBeNull();
    expect(trustedRule(learnSizes(lessons, listing, fetched(1000)))).toBeNull();
  });

  test('is not learned from what does not carry the listed Message-ID', () => {
    const stranger = fetched(1030, { messageId: 'b@example.org' });
    expect(learnSizes(NO_LESSONS, listing, stranger)).toBe(NO_LESSONS);
  });

  test('is not learned from messages cut anywhere', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 40, maxLength: 40 }),
        (cuts) => {
          fc.pre(new Set(cuts.slice(0, 20)).size > 1 && new Set(cuts.slice(20)).size > 1);
          let lessons: SizeLessons = NO_LESSONS;
          let learned = false;
          cuts.forEach((cut, i) => {
            const source = fetched(1000 - cut, { crlf: 30 + i });
            lessons = learnSizes(lessons, listing, source);
            learned ||= trustedRule(lessons) !== null;
          });
          expect(learned).toBe(longestRun(cuts) >= MIN_RULE_MESSAGES);
        },
      ),
    );
  });
});

describe('whatever comes', () => {
  const anyFetch = fc.record({
    size: fc.integer({ min: 0, max: 2000 }),
    sha256: fc.constantFrom('1', '2', '3'),
    messageId: fc.constantFrom('a@example.org', 'b@example.org', null),
    looksLikeMail: fc.boolean(),
    crlf: fc.integer({ min: 0, max: 40 }),
    bareLf: fc.integer({ min: 0, max: 40 }),
  });
  const anyCase = fc.record({
    listed: fc.record({
      size: fc.integer({ min: 0, max: 2000 }),
      messageId: fc.constantFrom('<a@example.org>', null),
    }),
    fetches: fc.array(anyFetch, { minLength: 1, maxLength: MAX_FETCHES_PER_RUN }),
    earlier: fc.array(
      fc.record({
        at: fc.integer({ min: NOW - 2 * CONFIRM_AFTER_MS, max: NOW }),
        sha256: fc.constantFrom('1', '2', '3'),
      }),
      { maxLength: 3 },
    ),
    rule: fc.constantFrom<SizeRule | null>(null, { kind: 'lf' }, { kind: 'offset', bytes: 5 }),
  });

  test('a run ends after three fetches, and nothing of another size goes in without its Message-ID and a mark', () => {
    fc.assert(
      fc.property(anyCase, ({ listed, fetches, earlier, rule }) => {
        const [first, ...rest] = fetches;
        if (first === undefined) return;
        const judgement = judgeSource({
          listing: listed,
          fetches: [first, ...rest],
          earlier,
          rule,
          now: NOW,
        });
        const latest = fetches.at(-1) ?? first;
        if (fetches.length === MAX_FETCHES_PER_RUN) expect(judgement.verdict).not.toBe('again');
        if (judgement.verdict === 'quarantine') expect(fetches).toHaveLength(MAX_FETCHES_PER_RUN);
        if (judgement.verdict !== 'accept') return;
        if (latest.size === listed.size) {
          expect(judgement.mark).toBeUndefined();
          return;
        }
        const id = listed.messageId === null ? null : 'a@example.org';
        expect(latest.messageId).toBe(id);
        expect(judgement.mark).toBeDefined();
        expect(latest.looksLikeMail || id !== null).toBe(true);
        if (judgement.mark === 'shorter-twice') {
          expect(latest.size).toBeLessThan(listed.size);
          expect(
            earlier.some(
              ({ at, sha256 }) => sha256 === latest.sha256 && NOW - at >= CONFIRM_AFTER_MS,
            ),
          ).toBe(true);
        }
        if (judgement.mark === 'longer-twice') {
          expect(latest.size).toBeGreaterThan(listed.size);
          expect(fetches.filter(({ sha256 }) => sha256 === latest.sha256).length).toBeGreaterThan(
            1,
          );
        }
        if (judgement.mark === 'host-rule') expect(rule).not.toBeNull();
      }),
    );
  });
});

function listedSize(rule: SizeRule, source: FetchFacts): number {
  if (rule.kind === 'lf') return source.size - source.crlf;
  return rule.kind === 'crlf' ? source.size + source.bareLf : source.size + rule.bytes;
}

/** The longest run of equal numbers. */
function longestRun(numbers: readonly number[]): number {
  let longest = 0;
  let run = 0;
  numbers.forEach((number, i) => {
    run = i > 0 && numbers[i - 1] === number ? run + 1 : 1;
    longest = Math.max(longest, run);
  });
  return longest;
}
