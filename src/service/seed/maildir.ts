import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileBlock } from './file-block.ts';

/** The messages of one folder of a Maildir, in file-name order (which is order of delivery). */
export interface MaildirFolder {
  /** Path in the mailbox: `INBOX`, `INBOX.Lists.foo`. */
  readonly path: string;
  readonly block: FileBlock;
  /** Flags of each message, in the order of the block. */
  readonly flags: readonly (readonly string[])[];
}

/** Info letters (cr.yp.to/proto/maildir.html) as flags of the service. */
const LETTERS: Readonly<Record<string, string>> = {
  D: '\\Draft',
  F: '\\Flagged',
  P: '$forwarded',
  R: '\\Answered',
  S: '\\Seen',
  T: '\\Deleted',
};

/** True for a folder with `cur/` and `new/`. */
export function isMaildir(path: string): boolean {
  return ['cur', 'new'].every(
    (name) => statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory() ?? false,
  );
}

/** A Maildir and its Maildir++ subfolders (`.Sent`, `.Lists.foo`), in order of their names. */
export function readMaildir(root: string): MaildirFolder[] {
  const subfolders = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^\.[^.]/.test(entry.name))
    .map((entry) => entry.name)
    .filter((name) => isMaildir(join(root, name)))
    .sort();
  return [
    readFolder(root, 'INBOX'),
    ...subfolders.map((name) => readFolder(join(root, name), `INBOX${decodeModifiedUtf7(name)}`)),
  ];
}

function readFolder(root: string, path: string): MaildirFolder {
  const files = ['cur', 'new']
    .flatMap((place) =>
      readdirSync(join(root, place), { withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
        .map((entry) => ({ name: entry.name, place })),
    )
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.place < b.place ? -1 : 1));
  return {
    path,
    block: new FileBlock(
      files.map((file) => join(root, file.place, file.name)),
      Float64Array.from(files, (file) => receivedFromName(file.name)),
    ),
    flags: files.map((file) => (file.place === 'new' ? [] : flagsFromName(file.name))),
  };
}

function flagsFromName(name: string): string[] {
  const letters = /[:;!]2,([A-Za-z]*)$/.exec(name)?.[1] ?? '';
  return [...letters].flatMap((letter) => LETTERS[letter] ?? []);
}

/** The seconds a Maildir name begins with, in milliseconds; NaN for a name of another make. */
function receivedFromName(name: string): number {
  const seconds = /^(\d{9,10})\./.exec(name)?.[1];
  return seconds === undefined ? Number.NaN : Number(seconds) * 1000;
}

/** Modified UTF-7 (RFC 3501, 5.1.3), in which Maildir++ names folders; a name that is none stays as it is. */
export function decodeModifiedUtf7(name: string): string {
  return name.replace(/&([A-Za-z0-9+,]*)-/g, (whole, encoded: string) => {
    if (encoded === '') return '&';
    const bytes = Buffer.from(encoded.replaceAll(',', '/'), 'base64');
    if (bytes.length === 0 || bytes.length % 2 !== 0) return whole;
    return bytes.swap16().toString('utf16le');
  });
}
