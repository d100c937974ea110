import { createHash } from 'node:crypto';
import type { MailboxKey, MessageId } from '../core/types.ts';
import { foldedName, portableName, truncateName } from '../mail/file-names.ts';
import type { PlaceLine } from '../mail/identity.ts';
import { encodeModifiedUtf7, flagLetters } from '../mail/mail-files.ts';

const COMPONENT_BYTES = 100;
const SENDER_BYTES = 48;
const SUBJECT_BYTES = 72;
const SHORT_ID = 8;
/** Extensions of exported files. Folder names must not end in one, since they could collide with a file. */
const OURS = /\.(?:eml|mbox|json|tmp)$/i;

export interface NamedMessage extends Pick<PlaceLine, 'uid' | 'date' | 'from' | 'subject'> {
  readonly id: MessageId;
  readonly generation: number;
}

/**
 * Returns a message's file name without extension: `2026-03-01 0941 - Anna Berg - Rent - 3f2a91c4-12`. The time is UTC
 * and 12 is the uid (`12g2` in a folder's second UID epoch). The name depends only on the place, so it is the same in
 * every export. Names within a folder are unique, even ignoring case. They are at most 190 bytes long.
 */
export function messageName({ id, generation, uid, date, from, subject }: NamedMessage): string {
  const moment = date === null ? 'undated' : date.slice(0, 16).replace('T', ' ').replace(':', '');
  const place = generation === 1 ? `${uid}` : `${uid}g${generation}`;
  const sender = from === null ? '' : from.name.trim() || from.address;
  return [
    // Years after 9999 have a sign and six digits.
    moment.replace(/[^0-9a-z -]/g, ''),
    truncateName(portableName(sender), SENDER_BYTES) || 'unknown sender',
    truncateName(portableName(subject ?? ''), SUBJECT_BYTES) || 'no subject',
    `${id.slice(0, SHORT_ID)}-${place}`,
  ].join(' - ');
}

function distinctName(name: string, origin: string): string {
  const mark = createHash('sha256').update(origin).digest('hex').slice(0, 8);
  return `${truncateName(name, COMPONENT_BYTES - 9)}~${mark}`;
}

/**
 * Returns a path component for a mailbox address or part of a folder name. Names that are not valid on every system are
 * sanitised and get a hash to keep them distinct.
 */
function componentName(name: string): string {
  const base = portableName(name);
  const kept =
    name !== '' && base === name && Buffer.byteLength(name) <= COMPONENT_BYTES && !OURS.test(name);
  return kept ? name : distinctName(base || 'folder', name);
}

/**
 * Assigns unique names under one parent. The first folder keeps its name. Later folders get a suffix if a file system
 * that ignores case or normalises accents would otherwise treat their names as the same.
 */
class NameSpace {
  readonly #names = new Map<string, string>();
  readonly #taken = new Set<string>();

  /** @param origin identifies the item to name, so that it always gets the same name */
  name(origin: string, name: string): string {
    const previous = this.#names.get(origin);
    if (previous !== undefined) return previous;
    let result = name;
    for (let n = 1; this.#taken.has(foldedName(result)); n += 1) {
      result = distinctName(name, `${n} ${origin}`);
    }
    this.#names.set(origin, result);
    this.#taken.add(foldedName(result));
    return result;
  }
}

export interface NamedFolder extends MailboxKey {
  readonly address: string;
  readonly path: string;
  readonly delimiter: string;
  readonly namesake?: number;
}

/** Deeper levels are joined into one, so that every system can open the path. */
const MAX_LEVELS = 8;
const MAILDIR_BYTES = 200;

/** Assigns export paths, which are the same in every export if folders are passed in order of discovery. */
export class FolderPaths {
  readonly #mailboxes = new NameSpace();
  readonly #spaces = new Map<string, NameSpace>();

  /** @param format `nested` has a subfolder for each `/`; `maildir` means Maildir++ */
  constructor(private readonly format: 'nested' | 'maildir') {}

  /** Returns a path separated by `/`. A Maildir's INBOX is the Maildir itself. */
  of(folder: NamedFolder): string {
    const mailbox = this.#mailboxes.name(
      `${folder.host} ${folder.mailbox}`,
      componentName(folder.address),
    );
    if (this.format === 'maildir') {
      const name = maildirName(folder);
      return name === '' ? mailbox : `${mailbox}/${this.#assign(mailbox, identify(folder), name)}`;
    }
    // With any other delimiter, mail programs show the path as a single name.
    const levels = folder.delimiter === '/' ? folder.path.split('/') : [folder.path];
    const shown =
      levels.length <= MAX_LEVELS
        ? levels
        : [...levels.slice(0, MAX_LEVELS - 1), levels.slice(MAX_LEVELS - 1).join('/')];
    const parent = shown
      .slice(0, -1)
      .reduce(
        (parent, level) => `${parent}/${this.#assign(parent, level, componentName(level))}`,
        mailbox,
      );
    const last = shown.at(-1) ?? '';
    const origin = identify({ ...folder, path: last });
    const name = componentName(last);
    const given = (folder.namesake ?? 0) === 0 ? name : distinctName(name, origin);
    return `${parent}/${this.#assign(parent, origin, given)}`;
  }

  #assign(parent: string, origin: string, name: string): string {
    const space = this.#spaces.get(parent) ?? new NameSpace();
    this.#spaces.set(parent, space);
    return space.name(origin, name);
  }
}

/** Identifies a folder, since several may have had the same path. */
function identify({ path, namesake = 0 }: Pick<NamedFolder, 'path' | 'namesake'>): string {
  return namesake === 0 ? path : `${path}\0${namesake}`;
}

/** Returns `.Lists.foo` for both `INBOX.Lists.foo` and `Lists/foo`; empty for INBOX. */
function maildirName({ path, delimiter, namesake = 0 }: NamedFolder): string {
  const levels = delimiter === '' ? [path] : path.split(delimiter);
  const below = levels[0]?.toUpperCase() === 'INBOX' ? levels.slice(1) : levels;
  if (below.length === 0 && namesake === 0) return '';
  const safe = below.map((level) => portableName(level).replace(/[./]/g, '_') || '_');
  const name = `.${encodeModifiedUtf7(safe.join('.'))}`;
  const isUnchanged = namesake === 0 && safe.every((level, i) => level === below[i]);
  if (isUnchanged && Buffer.byteLength(name) <= MAILDIR_BYTES) return name;
  return `.${encodeModifiedUtf7(distinctName(safe.join('.') || 'INBOX', identify({ path, namesake })).replace(/^\.+/, ''))}`;
}

/**
 * Returns a message's name in `cur/`: received second, unique part, size (as in Dovecot and Courier) and flags. Windows
 * forbids colons in names, so readers there expect `;`.
 */
export function maildirFileName(
  message: NamedMessage & { readonly size: number; readonly flags: readonly string[] },
  infoMark: ':' | ';',
): string {
  const { id, generation, uid, date, size, flags } = message;
  const seconds = date === null ? 0 : Math.max(0, Math.floor(Date.parse(date) / 1000));
  const own = `${id.slice(0, 16)}U${uid}G${generation}`;
  return `${seconds}.${own}.mailkeep,S=${size}${infoMark}2,${flagLetters(flags)}`;
}
