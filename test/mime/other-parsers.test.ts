import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { seeded } from '../bench/seeded.ts';
import { absent } from '../peers/programs.ts';
import { classesOf } from './other-parsers/classes.ts';
import { difference, type OwnReading, type ReadLeaf, readOwn } from './other-parsers/compare.ts';
import { mutate } from './other-parsers/mutations.ts';
import { readWithNotmuch } from './other-parsers/notmuch.ts';
import { PythonEmail } from './other-parsers/python.ts';
import { SEEDS } from './other-parsers/seeds.ts';

const MANY = process.env.MAILKEEP_MUTATIONS;
const MUTATIONS = Number(MANY ?? 500);
const SEED = process.env.MAILKEEP_SEED ?? '1';
/** Real messages that are compared unless all are asked for: spread over the folder. */
const REAL_MESSAGES = 300;
/** Messages that notmuch indexes at once. */
const BATCH = 500;
const TIMEOUT = 600_000 + 200 * MUTATIONS;

interface Message {
  readonly what: string;
  readonly source: Buffer;
}

/** Differences by class, and those without one. */
class Tally {
  readonly #classes = new Map<string, number>();
  readonly unclassed: string[] = [];
  messages = 0;
  differences = 0;

  add({ what, source }: Message, own: OwnReading, leaves: readonly ReadLeaf[]): void {
    this.messages += 1;
    const found = difference(own, leaves);
    if (found === null) return;
    this.differences += 1;
    const differing = { difference: found, source: source.toString('latin1'), joined: own.joined };
    const names = classesOf(differing);
    for (const name of names) this.count(name);
    if (names.length === 0)
      this.unclassed.push(`${what}: ${JSON.stringify({ ...found, leaves: undefined })}`);
  }

  count(name: string): void {
    this.#classes.set(name, (this.#classes.get(name) ?? 0) + 1);
  }

  /** Prints the counts, and expects each difference to have a class. */
  check(title: string): void {
    const classes = Object.fromEntries(this.#classes);
    console.info(`${title} ${this.messages} read, ${this.differences} differ`, classes);
    expect(this.unclassed).toEqual([]);
  }

  /** @param share of the messages that may fall into one class */
  checkShares(share: number): void {
    // Of a few mutations, chance decides: three standard deviations more.
    const most = share * this.messages;
    const allowed = most + (MANY === undefined ? 3 * Math.sqrt(most) : 0);
    for (const [name, count] of this.#classes) expect(count, name).toBeLessThanOrEqual(allowed);
  }
}

type Read = (sources: readonly Buffer[]) => Promise<Map<number, readonly ReadLeaf[]>>;

/** Has messages read in two ways, and adds their differences. */
async function compare(messages: Iterable<Message>, read: Read, tally: Tally): Promise<void> {
  for (const some of batches(messages)) {
    const found = await read(some.map(({ source }) => source));
    const again: Message[] = [];
    for (const [i, message] of some.entries()) {
      const leaves = found.get(i);
      if (leaves === undefined) continue;
      const own = await readOwn(message.source);
      const differs = difference(own, leaves) !== null;
      if (differs && message.source.includes('\r\r\n')) again.push(message);
      else tally.add(message, own, leaves);
    }
    // The other parsers take CR CR LF for two line ends, and so for the end of the header.
    const single = await read(again.map(({ source }) => withSingleReturns(source)));
    for (const [i, leaves] of single) {
      const message = again[i];
      if (message === undefined) continue;
      tally.add(message, await readOwn(message.source), leaves);
      tally.count('CR CR LF');
    }
  }
}

function withSingleReturns(source: Buffer): Buffer {
  return Buffer.from(source.toString('latin1').replaceAll('\r\r\n', '\r\n'), 'latin1');
}

let python: PythonEmail | null = null;
afterAll(() => python?.end());

async function readWithPython(sources: readonly Buffer[]) {
  python ??= new PythonEmail();
  const found = new Map<number, readonly ReadLeaf[]>();
  for (const [i, source] of sources.entries()) {
    const leaves = await python.read(source);
    if (leaves !== null) found.set(i, leaves);
  }
  return found;
}

/**
 * Each with the share of mutations that may fall into one class. Base64 that is called quoted-printable may end with two
 * equals signs, of which Python and we keep one and notmuch both: no reading is within 1 % of both parsers.
 */
const PARSERS: readonly (readonly [string, string, number, Read])[] = [
  ["Python's email package", 'python3', 0.01, readWithPython],
  ['notmuch', 'notmuch', 0.02, async (sources) => readWithNotmuch(sources)],
];

describe.each(PARSERS)('mail as %s reads it', (parser, program, share, read) => {
  const isAbsent = absent(program);

  test.skipIf(isAbsent)('seeds', async () => {
    const tally = new Tally();
    const messages = SEEDS.map((source, i) => ({ what: `seed ${i}`, source: numbered(source, i) }));
    await compare(messages, read, tally);
    expect(tally).toMatchObject({ messages: SEEDS.length, differences: 0, unclassed: [] });
  });

  test.skipIf(isAbsent)(
    `${MUTATIONS} mutations of them`,
    async () => {
      console.info(`MAILKEEP_SEED=${SEED} MAILKEEP_MUTATIONS=${MUTATIONS}`);
      const tally = new Tally();
      await compare(mutations(), read, tally);
      tally.check(`mutations, ${parser}:`);
      tally.checkShares(share);
    },
    TIMEOUT,
  );

  for (const [name, folder] of folders()) {
    test.skipIf(isAbsent)(
      `messages in ${name}`,
      async () => {
        const tally = new Tally();
        await compare(mailIn(folder), read, tally);
        tally.check(`${name}, ${parser}:`);
      },
      TIMEOUT,
    );
  }
});

function* mutations(): Generator<Message> {
  for (let i = 0; i < MUTATIONS; i++) {
    const random = seeded('other-parsers', SEED, i);
    const seed = random.below(SEEDS.length);
    const { source, done } = mutate(SEEDS[seed] ?? Buffer.alloc(0), random);
    yield { what: `${i}: seed ${seed}, ${done}`, source: numbered(source, i) };
  }
}

/** With a Message-ID of its own, for notmuch takes messages that share one for the same. */
function numbered(source: Buffer, i: number): Buffer {
  const text = source.toString('latin1').replaceAll('seed@example.org', `m${i}@example.org`);
  return Buffer.from(text, 'latin1');
}

function* batches(messages: Iterable<Message>): Generator<Message[]> {
  let some: Message[] = [];
  for (const message of messages) {
    some.push(message);
    if (some.length < BATCH) continue;
    yield some;
    some = [];
  }
  if (some.length > 0) yield some;
}

function folders(): [string, string][] {
  const named = ['MAILKEEP_CASES', 'MAILKEEP_CORPUS'].flatMap((name): [string, string][] => {
    const folder = process.env[name];
    return folder === undefined ? [] : [[name, folder]];
  });
  return [['test', join(import.meta.dirname, '..')], ...named];
}

function* mailIn(folder: string): Generator<Message> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.eml'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const step = MANY === undefined ? Math.ceil(files.length / REAL_MESSAGES) : 1;
  for (const [i, file] of files.entries())
    if (i % step === 0) yield { what: file, source: readFileSync(file) };
}
