import { closeSync, fstatSync, readFileSync } from 'node:fs';
import { type FilePath, joinedPath } from '../disk/byte-path.ts';
import { openRegularFile } from '../disk/regular-file.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';

const MOST_BYTES = 4 * 1024 * 1024;
const FLAGS: readonly (readonly [sequence: string, flag: string])[] = [
  ['flagged', '\\Flagged'],
  ['replied', '\\Answered'],
];

/** Flags of the messages of one MH folder. Its sequences are read when the first message asks for them. */
export class MhFolder {
  #sequences: ReadonlyMap<string, readonly (readonly [from: number, to: number])[]> | undefined;

  constructor(private readonly dir: FilePath) {}

  /** @param name of the message's file; `rmm` of MH puts a sign before the numbers of those it deletes */
  flagsOf(name: string): string[] {
    const number = Number(name.replace(/^\D/, ''));
    this.#sequences ??= sequencesIn(joinedPath(this.dir, '.mh_sequences'));
    const sequences = this.#sequences;
    const isIn = (sequence: string): boolean =>
      sequences.get(sequence)?.some(([from, to]) => number >= from && number <= to) ?? false;
    return [
      // Without sequences, nothing is known about what was read.
      ...(sequences.size === 0 || isIn('unseen') ? [] : ['\\Seen']),
      ...FLAGS.filter(([sequence]) => isIn(sequence)).map(([, flag]) => flag),
      ...(/^\d/.test(name) ? [] : ['\\Deleted']),
    ];
  }
}

const KEYWORD_LINE = /^(\d{1,2}) ([!-[\]-~]{1,100})\r?$/;

/** Returns the keywords that Dovecot means by the letters a to z in the names of a Maildir's files. */
export function keywordsOfLetters(maildir: FilePath): ReadonlyMap<string, string> {
  const keywords = new Map<string, string>();
  for (const line of textOf(joinedPath(maildir, 'dovecot-keywords')).split('\n')) {
    const [, number, keyword] = KEYWORD_LINE.exec(line) ?? [];
    if (keyword === undefined || Number(number) > 25) continue;
    keywords.set(String.fromCharCode('a'.charCodeAt(0) + Number(number)), keyword);
  }
  return keywords;
}

/** Lines such as `unseen: 3 5-7`. A file that cannot be read, or is larger than any, has none. */
function sequencesIn(file: FilePath) {
  const sequences = new Map<string, [number, number][]>();
  for (const line of textOf(file).split('\n')) {
    const [, name, numbers = ''] = /^([\w-]+):(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    const ranges = [...numbers.matchAll(/(\d{1,9})(?:-(\d{1,9}))?/g)];
    sequences.set(
      name.toLowerCase(),
      ranges.map(([, from, to]) => [Number(from), Number(to ?? from)]),
    );
  }
  return sequences;
}

function textOf(file: FilePath): string {
  try {
    const fd = openRegularFile(file);
    try {
      return fstatSync(fd).size > MOST_BYTES ? '' : readFileSync(fd, 'latin1');
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return '';
  }
}
