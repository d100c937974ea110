import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  decodeModifiedUtf7,
  flagsFromName,
  receivedFromName,
} from '../../mailfiles/maildir-names.ts';
import { FileBlock } from './file-block.ts';

/** The messages of one folder of a Maildir, in file-name order (which is order of delivery). */
export interface MaildirFolder {
  /** Path in the mailbox: `INBOX`, `INBOX.Lists.foo`. */
  readonly path: string;
  readonly block: FileBlock;
  /** Flags of each message, in the order of the block. */
  readonly flags: readonly (readonly string[])[];
}

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
