import { harmlessName } from '../mail/file-names.ts';
import type { MailboxKey } from '../mail/words.ts';
import { encodeModifiedUtf7, lettersOf } from '../mailfiles/maildir-names.ts';
import { componentName, distinctName, type NamedMessage, NameSpace } from './names.ts';

/** A folder as the catalog names it. */
export interface NamedFolder extends MailboxKey {
  /** The mailbox's address. */
  readonly address: string;
  readonly path: string;
  /** What parts the levels of the path; empty where there are none. */
  readonly delimiter: string;
  /** How many folders that were met before have the same path; default 0. */
  readonly namesake?: number;
}

/** Levels of folders beyond these are put into one, so that the path stays one that systems can open. */
const MOST_LEVELS = 8;
/** Bytes of a Maildir++ folder's name, its dot included. */
const MAILDIR_BYTES = 200;

/**
 * Where folders go below the export's own folder. Given all folders in the order in which the archive met them,
 * it assigns the same paths in every export, whatever is exported.
 */
export class FolderPaths {
  readonly #mailboxes = new NameSpace();
  readonly #inside = new Map<string, NameSpace>();

  /** @param format `nested`: folders within folders where `/` parts them; `maildir`: Maildir++ */
  constructor(private readonly format: 'nested' | 'maildir') {}

  /** Path of the folder, parted by `/`; for a Maildir's INBOX that of the Maildir itself. */
  of(folder: NamedFolder): string {
    const mailbox = this.#mailboxes.name(
      `${folder.host} ${folder.mailbox}`,
      componentName(folder.address),
    );
    if (this.format === 'maildir') {
      const name = maildirName(folder);
      return name === '' ? mailbox : `${mailbox}/${this.#within(mailbox, originOf(folder), name)}`;
    }
    // Below a delimiter other than "/", the whole path is one name, as people know it.
    const levels = folder.delimiter === '/' ? folder.path.split('/') : [folder.path];
    const shown =
      levels.length <= MOST_LEVELS
        ? levels
        : [...levels.slice(0, MOST_LEVELS - 1), levels.slice(MOST_LEVELS - 1).join('/')];
    const parent = shown
      .slice(0, -1)
      .reduce(
        (above, level) => `${above}/${this.#within(above, level, componentName(level))}`,
        mailbox,
      );
    const last = shown.at(-1) ?? '';
    const origin = originOf({ ...folder, path: last });
    const name = componentName(last);
    const given = (folder.namesake ?? 0) === 0 ? name : distinctName(name, origin);
    return `${parent}/${this.#within(parent, origin, given)}`;
  }

  #within(parent: string, origin: string, name: string): string {
    const known = this.#inside.get(parent) ?? new NameSpace();
    this.#inside.set(parent, known);
    return known.name(origin, name);
  }
}

/** What a name stands for: of folders with one path each has its own. */
function originOf({ path, namesake = 0 }: Pick<NamedFolder, 'path' | 'namesake'>): string {
  return namesake === 0 ? path : `${path}\0${namesake}`;
}

/** `.Lists.foo` for `INBOX.Lists.foo` as well as for `Lists/foo`; empty for INBOX. */
function maildirName({ path, delimiter, namesake = 0 }: NamedFolder): string {
  const levels = delimiter === '' ? [path] : path.split(delimiter);
  const below = levels[0]?.toUpperCase() === 'INBOX' ? levels.slice(1) : levels;
  if (below.length === 0 && namesake === 0) return '';
  // A dot would part levels where there are none.
  const safe = below.map((level) => harmlessName(level).replace(/[./]/g, '_') || '_');
  const name = `.${encodeModifiedUtf7(safe.join('.'))}`;
  const kept = namesake === 0 && safe.every((level, i) => level === below[i]);
  if (kept && Buffer.byteLength(name) <= MAILDIR_BYTES) return name;
  return `.${encodeModifiedUtf7(distinctName(safe.join('.') || 'INBOX', originOf({ path, namesake })).replace(/^\.+/, ''))}`;
}

/**
 * The name of a message in `cur/`: received second, something of its own, size (as Dovecot and Courier read it) and
 * flags. Windows allows no colon in names; there readers look for `;`.
 */
export function maildirFileName(
  message: NamedMessage & { readonly size: number; readonly flags: readonly string[] },
  infoMark: ':' | ';',
): string {
  const { id, generation, uid, date, size, flags } = message;
  const seconds = date === null ? 0 : Math.max(0, Math.floor(Date.parse(date) / 1000));
  const own = `${id.slice(0, 16)}U${uid}G${generation}`;
  return `${seconds}.${own}.mailkeep,S=${size}${infoMark}2,${lettersOf(flags)}`;
}
