import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type SourceBlock, Store } from '../../../src/sandbox/store.ts';

type Step =
  | { readonly kind: 'append'; readonly flags: string[] }
  | { readonly kind: 'remove' | 'see' | 'unsee' | 'move' | 'copy'; readonly at: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      flags: fc.subarray(['\\Seen', 'x']),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('remove', 'see', 'unsee', 'move', 'copy'),
      at: fc.nat(),
    }),
  },
);

interface Plain {
  readonly uid: number;
  flags: readonly string[];
  readonly text: string;
}

test('a folder answers like a plain list, whatever was appended and removed before', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 250 }),
      fc.nat(20),
      fc.nat(20),
      (steps, offset, limit) => {
        const store = new Store();
        const mailbox = store.addMailbox('ada@example.org', 'OR1', 1);
        const folder = store.folderFor(mailbox, 'INBOX');
        let plain: Plain[] = [];
        let next = 1;
        const appended = (uid: number | null, flags: readonly string[], text: string) => {
          expect(uid).toBe(next);
          plain.push({ uid: next, flags, text });
          next += 1;
        };
        for (const made of steps) {
          if (made.kind === 'append') {
            const text = `message ${next}`;
            appended(store.add(folder, Buffer.from(text), next, made.flags), made.flags, text);
            continue;
          }
          const target = plain[made.at % Math.max(1, plain.length)];
          if (target === undefined) continue;
          if (made.kind === 'see' || made.kind === 'unsee') {
            const [add, remove] = made.kind === 'see' ? [['\\Seen'], ['x']] : [[], ['\\Seen', 'x']];
            target.flags = add;
            expect(store.changeFlags(folder, target.uid, add, remove)).toEqual(add);
            continue;
          }
          if (made.kind === 'copy') {
            appended(store.copy(folder, target.uid, folder), target.flags, target.text);
            continue;
          }
          if (made.kind === 'move') {
            appended(store.move(folder, target.uid, folder), target.flags, target.text);
          } else expect(store.remove(folder, target.uid)).toBe(true);
          expect(store.remove(folder, target.uid)).toBe(false);
          plain = plain.filter((message) => message !== target);
        }
        expect(folder.count).toBe(plain.length);
        expect(folder.unread).toBe(plain.filter(({ flags }) => !flags.includes('\\Seen')).length);
        expect(folder.lastUid).toBe(plain.at(-1)?.uid ?? 0);
        expect(folder.nextUid).toBe(next);
        const entries = folder.entries();
        expect(
          entries.map(({ uid, flags, source }) => ({
            ...{ uid, flags },
            text: store.sources.read(source).toString(),
          })),
        ).toEqual(plain.map(({ flags, ...message }) => ({ ...message, flags: [...flags].sort() })));
        const [low, high] = [offset, offset + limit * 3];
        const inside = plain.filter(({ uid }) => uid >= low && uid <= high);
        expect(folder.countBetween(low, high)).toBe(inside.length);
        expect(folder.countBetween(1, folder.lastUid)).toBe(plain.length);
        expect(folder.between(low, high, 2, limit).map(({ uid }) => uid)).toEqual(
          inside.slice(2, 2 + limit).map(({ uid }) => uid),
        );
        store.close();
      },
    ),
  );
});

test('a uid is never handed out twice', () => {
  const store = new Store();
  const folder = store.folderFor(store.addMailbox('ada@example.org', 'OR1', 1), 'INBOX');
  expect(store.add(folder, Buffer.from('one'), 1, [])).toBe(1);
  store.remove(folder, 1);
  expect(folder.nextUid).toBe(2);
  expect(store.add(folder, Buffer.from('two'), 2, [])).toBe(2);
});

test('a block is read on demand in memory, and copied into a state file', () => {
  const block = (reads: number[]): SourceBlock => ({
    count: 3,
    size: () => 9,
    read: (number) => {
      reads.push(number);
      return Buffer.from(`message ${number}`);
    },
    received: (number) => number,
    file: (number) => ({ path: 'mbox', start: number * 9, length: 9 }),
  });
  for (const stateFile of [undefined, '']) {
    const store = new Store(stateFile);
    const folder = store.folderFor(store.addMailbox('ada@example.org', 'OR1', 1), 'INBOX');
    store.add(folder, Buffer.from('before'), 0, []);
    const reads: number[] = [];
    const numbers = [0, 1, 2];
    store.place(
      block(reads),
      numbers.map((number) => ({ folder, number, flags: [] })),
    );
    store.add(folder, Buffer.from('after'), 5, []);
    expect(reads).toEqual(stateFile === undefined ? [] : numbers);
    const { sources } = store;
    const found = folder.entries().map(({ source }) => source);
    expect(found.map((source) => sources.read(source).toString())).toEqual([
      ...['before', 'message 0', 'message 1', 'message 2', 'after'],
    ]);
    expect(found.map((source) => sources.size(source))).toEqual([6, 9, 9, 9, 5]);
    expect(found.map((source) => sources.received(source))).toEqual([0, 0, 1, 2, 5]);
    expect(sources.file(found[2] ?? 0)).toEqual(
      stateFile === undefined ? { path: 'mbox', start: 9, length: 9 } : null,
    );
    expect(() => sources.read(99)).toThrow(RangeError);
    store.close();
  }
});
