import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  acceptableName,
  type Layout,
  type NameRules,
  type SourceFolder,
  targetFolders,
} from '../../src/transfer/restore-selection.ts';

const DOVECOT: NameRules = { delimiter: '/', prefix: '', refused: '.', specialUse: new Map() };
const CYRUS: NameRules = {
  delimiter: '.',
  prefix: 'INBOX.',
  refused: '"\\%',
  specialUse: new Map([['\\Sent', 'INBOX.Sent']]),
};
const IN_PLACE: Layout = { kind: 'in-place' };
const BELOW: Layout = { kind: 'below', levels: ['Restored', '2026-11-23'], byAddress: false };

function folder(path: string, more: Partial<SourceFolder> = {}): SourceFolder {
  return { address: 'anna@mail.example', path, delimiter: '/', specialUse: null, ...more };
}

function paths(sources: readonly SourceFolder[], layout: Layout, rules: NameRules): string[] {
  return targetFolders(sources, layout, rules).map(({ path }) => path);
}

describe('target folders', () => {
  test('levels are parted by the delimiter of the server, below the prefix of its namespace', () => {
    const sources = [folder('INBOX'), folder('Lists/rust')];
    expect(paths(sources, BELOW, DOVECOT)).toEqual([
      'Restored/2026-11-23/INBOX',
      'Restored/2026-11-23/Lists/rust',
    ]);
    expect(paths(sources, BELOW, CYRUS)).toEqual([
      'INBOX.Restored.2026-11-23.INBOX',
      'INBOX.Restored.2026-11-23.Lists.rust',
    ]);
    expect(paths(sources, IN_PLACE, CYRUS)).toEqual(['INBOX', 'INBOX.Lists.rust']);
  });

  test('several mailboxes have a level each', () => {
    const sources = [folder('INBOX'), folder('INBOX', { address: 'bo@mail.example' })];
    const layout = { kind: 'below', levels: ['Old'], byAddress: true } as const;
    expect(paths(sources, layout, { ...DOVECOT, refused: '' })).toEqual([
      'Old/anna@mail.example/INBOX',
      'Old/bo@mail.example/INBOX',
    ]);
  });

  test('in place, a special folder goes into that of the server, whatever either is called', () => {
    const sources = [
      folder('Sent'),
      folder('Gesendet', { specialUse: '\\Sent' }),
      folder('Gesendet/2020'),
      folder('Ausgang', { specialUse: '\\Sent' }),
    ];
    expect(paths(sources, IN_PLACE, CYRUS)).toEqual([
      'INBOX.Sent (2)',
      'INBOX.Sent',
      'INBOX.Sent.2020',
      'INBOX.Ausgang',
    ]);
  });

  test('below a prefix, special folders keep their names', () => {
    const sources = [folder('Gesendet', { specialUse: '\\Sent' })];
    expect(paths(sources, BELOW, CYRUS)).toEqual(['INBOX.Restored.2026-11-23.Gesendet']);
  });

  test('a changed name never takes that of another folder, and children follow their parent', () => {
    const sources = [folder('a.b'), folder('a.b/c'), folder('a_b'), folder('a_b/c')];
    expect(targetFolders(sources, IN_PLACE, DOVECOT)).toMatchObject([
      { path: 'a_b (2)', replaced: true, numbered: true },
      { path: 'a_b (2)/c', replaced: true, numbered: true },
      { path: 'a_b', replaced: false, numbered: false },
      { path: 'a_b/c', replaced: false, numbered: false },
    ]);
  });

  test('the case of INBOX is ignored at the top alone', () => {
    const sources = [folder('INBOX'), folder('inbox/x'), folder('x/inbox'), folder('x/INBOX')];
    expect(paths(sources, IN_PLACE, DOVECOT)).toEqual(['INBOX', 'INBOX/x', 'x/inbox', 'x/INBOX']);
  });

  test('what no server accepts is replaced, and nothing else', () => {
    expect(acceptableName('a\r\nb\0', DOVECOT)).toBe('a__b_');
    expect(acceptableName('', DOVECOT)).toBe('_');
    expect(acceptableName('\ud83d', DOVECOT)).toBe('\ufffd');
    expect(acceptableName('Entwürfe 日本語 😀 %*&', DOVECOT)).toBe('Entwürfe 日本語 😀 %*&');
    expect(acceptableName('x"y\\z%', CYRUS)).toBe('x_y_z_');
  });

  test('every folder gets one path of its own that the server accepts', () => {
    const level = fc.oneof(
      fc.constantFrom('a', 'b', 'a_', 'a.', 'a (2)', '', 'INBOX', 'inbox', 'Inbox', 'Sent', '\0'),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    );
    const source: fc.Arbitrary<SourceFolder> = fc.record({
      address: fc.constantFrom('anna@mail.example', 'bo@mail.example'),
      path: fc.array(level, { minLength: 1, maxLength: 3 }).map((levels) => levels.join('/')),
      delimiter: fc.constantFrom('/', ''),
      specialUse: fc.constantFrom(null, null, '\\Sent', '\\Trash'),
    });
    const layouts = fc.constantFrom<Layout>(IN_PLACE, BELOW, { ...BELOW, byAddress: true });
    const flat = { ...DOVECOT, delimiter: '' };
    const onAFlatServer = [folder('inbox/a.'), folder('Inbox/a_')].map((one) => ({
      ...one,
      delimiter: '',
    }));
    fc.assert(
      fc.property(
        fc.array(source, { maxLength: 12 }),
        layouts,
        fc.constantFrom(DOVECOT, CYRUS, flat),
        (sources, layout, rules) => {
          const placed = targetFolders(sources, layout, rules);
          expect(placed.map((target) => target.source)).toEqual(sources);
          // A server without a delimiter has no levels: only a name that is INBOX as a whole is INBOX.
          const above = rules.delimiter === '' ? /^inbox$/i : /^inbox(?![^./])/i;
          const keys = placed.map(({ path }) => path.replace(above, 'INBOX'));
          expect(new Set(keys).size).toBe(sources.length);
          for (const { path } of placed) {
            expect(path.startsWith(rules.prefix) || path === 'INBOX').toBe(true);
            const levels = rules.delimiter === '' ? [path] : path.split(rules.delimiter);
            for (const one of levels) expect(acceptableName(one, rules)).toBe(one);
          }
        },
      ),
      { numRuns: 500, examples: [[onAFlatServer, IN_PLACE, { ...flat, refused: '.' }]] },
    );
  });
});
