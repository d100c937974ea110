import { createHash } from 'node:crypto';
import type { MailboxKey, MessageId } from '../core/types.ts';
import { cutName, foldedName, harmlessName } from '../mail/file-names.ts';
import type { PlaceLine } from '../mail/identity.ts';
import { encodeModifiedUtf7, lettersOf } from '../mail/mail-files.ts';

/** Bytes that a component of a folder's path takes at most; systems allow 255. */
const COMPONENT_BYTES = 100;
const SENDER_BYTES = 48;
const SUBJECT_BYTES = 72;
/** Characters of an id that people read. */
const SHORT_ID = 8;
/** Endings of files that an export makes: no folder may be taken for one, nor stand in its way. */
const OURS = /\.(?:eml|mbox|json|tmp)$/i;

/** What a message's name is made of; none of it ever changes for a place. */
export interface NamedMessage extends Pick<PlaceLine, 'uid' | 'date' | 'from' | 'subject'> {
  readonly id: MessageId;
  readonly generation: number;
}

/**
 * The name of a message's file without its ending: `2026-03-01 0941 - Anna Berg - Rent - 3f2a91c4-12`, where the
 * time is UTC and 12 is the uid (`12g2` in a folder's second generation). It depends on the place alone, so it is
 * the same in every export, and no two places of a folder share one, in any case of letters. At most 190 bytes.
 */
export function messageName({ id, generation, uid, date, from, subject }: NamedMessage): string {
  const moment = date === null ? 'undated' : date.slice(0, 16).replace('T', ' ').replace(':', '');
  const place = generation === 1 ? `${uid}` : `${uid}g${generation}`;
  const sender = from === null ? '' : from.name.trim() || from.address;
  return [
    // A year beyond 9999 is written with a sign and six digits.
    moment.replace(/[^0-9a-z -]/g, ''),
    cutName(harmlessName(sender), SENDER_BYTES) || 'unknown sender',
    cutName(harmlessName(subject ?? ''), SUBJECT_BYTES) || 'no subject',
    `${id.slice(0, SHORT_ID)}-${place}`,
  ].join(' - ');
}

/** A component made unlike any other: for names that had to be changed, or that another name folds to. */
function distinctName(name: string, origin: string): string {
  const mark = createHash('sha256').update(origin).digest('hex').slice(0, 8);
  return `${cutName(name, COMPONENT_BYTES - 9)}~${mark}`;
}

/**
 * One component of a path for a mailbox's address or a part of a folder's name: the name itself where every system
 * takes it, else a harmless form with a mark that comes from the name, so that two names never become one.
 */
function componentName(name: string): string {
  const harmless = harmlessName(name);
  const kept =
    name !== '' &&
    harmless === name &&
    Buffer.byteLength(name) <= COMPONENT_BYTES &&
    !OURS.test(name);
  return kept ? name : distinctName(harmless || 'folder', name);
}

/**
 * Hands out names below one parent: the first to come has its name, and a later one that a file system without
 * case, or with one form of accents, would take for the same gets a mark of its own.
 */
class NameSpace {
  readonly #given = new Map<string, string>();
  readonly #taken = new Set<string>();

  /**
   * @param origin what the name stands for: the same origin always gets the same name
   * @param name the name it would like
   */
  name(origin: string, name: string): string {
    const known = this.#given.get(origin);
    if (known !== undefined) return known;
    let given = name;
    for (let n = 1; this.#taken.has(foldedName(given)); n += 1) {
      given = distinctName(name, `${n} ${origin}`);
    }
    this.#given.set(origin, given);
    this.#taken.add(foldedName(given));
    return given;
  }
}

/** A folder as the catalog names it. */
export interface NamedFolder extends MailboxKey {
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
