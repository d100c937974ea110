import { createHash } from 'node:crypto';
import { cutName, foldedName, harmlessName } from '../mail/file-names.ts';
import type { MessageId } from '../mail/words.ts';

/** Bytes that a component of a folder's path takes at most; systems allow 255. */
const COMPONENT_BYTES = 100;
const SENDER_BYTES = 48;
const SUBJECT_BYTES = 72;
/** Characters of an id that people read. */
const SHORT_ID = 8;
/** Endings of files that an export makes: no folder may be taken for one, nor stand in its way. */
const OURS = /\.(?:eml|mbox|json|tmp)$/i;

/** What a message's name is made of; none of it ever changes for a place. */
export interface NamedMessage {
  readonly id: MessageId;
  readonly generation: number;
  readonly uid: number;
  /** ISO 8601 in UTC, or null. */
  readonly date: string | null;
  readonly from: { readonly name: string; readonly address: string } | null;
  readonly subject: string | null;
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
export function distinctName(name: string, origin: string): string {
  const mark = createHash('sha256').update(origin).digest('hex').slice(0, 8);
  return `${cutName(name, COMPONENT_BYTES - 9)}~${mark}`;
}

/**
 * One component of a path for a mailbox's address or a part of a folder's name: the name itself where every system
 * takes it, else a harmless form with a mark that comes from the name, so that two names never become one.
 */
export function componentName(name: string): string {
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
export class NameSpace {
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
