import { hash } from 'node:crypto';
import { expect } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import type { LogWriter } from '../../src/archive/log-writer.ts';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import type { MailboxKey, MessageId, Place } from '../../src/core/types.ts';
import { Committer } from '../../src/sync/committer.ts';
import { catalogMirror } from '../../src/sync/mirror.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import type { Seeded } from '../bench/seeded.ts';
import { listing } from '../catalog/history.ts';
import { everything } from './everything.ts';

/** A folder that several mailboxes are mirrored to. */
interface OpenFolder {
  readonly log: LogWriter;
  readonly catalog: WritableCatalog;
}

interface Stood {
  readonly folder: Folder;
  readonly uid: number;
  readonly mail: number;
  /** A word that is in the listing of this place only. */
  readonly mark: string;
  /** Another message had the uid before. */
  readonly isSecond: boolean;
  isOpen: boolean;
}

interface Folder extends MailboxKey {
  path: string;
  readonly generation: number;
  lastUid: number;
}

const HOST = 'mail.example.org';
export const BOXES: readonly MailboxKey[] = ['anna', 'ben', 'cleo'].map((name) => ({
  host: HOST,
  mailbox: `box-${name}`,
}));

const SHARED = noise(90_000, 3);

/** The word of a message is nowhere else. */
function mailOf(number: number): Buffer {
  const head = Buffer.from(`X-Word: ${wordOf(number)}\r\n`);
  if (number % 4 === 1) return Buffer.concat([head, mailWithAttachment(SHARED)]);
  if (number % 4 === 2) return Buffer.concat([head, mailWithAttachment(noise(80_000, number))]);
  const body = `Subject: ${wordOf(number)}subject\r\n\r\n${wordOf(number)}body\r\n`;
  return Buffer.concat([head, Buffer.from(body)]);
}

const wordOf = (number: number): string => `word${number}quvexomar`;
const keyOf = (box: MailboxKey, mail: number): string => `${box.mailbox} ${mail}`;

/** Mailboxes of several customers in one archive, who have some mail in common, and what they must have. */
export class Tenants {
  readonly #mails = Array.from({ length: 8 }, (_, at) => mailOf(at));
  readonly #folders: Folder[] = BOXES.flatMap((box) =>
    ['INBOX', 'Work'].map((path) => ({ ...box, path, generation: 1, lastUid: 0 })),
  );
  #places: Stood[] = [];
  readonly #forgotten = new Set<string>();
  /** Marks of places that are forgotten. */
  readonly #gone: string[] = [];
  #marks = 0;
  #renames = 0;

  constructor(private readonly random: Seeded) {}

  async begin(opened: OpenFolder): Promise<void> {
    const committer = committerOf(opened);
    for (const box of BOXES) {
      const address = `${box.mailbox}@example.org`;
      committer.addFact({ fact: 'mailbox', ...box, address });
    }
    for (const folder of this.#folders) {
      const { path, generation } = folder;
      const names = { folder: path, name: path, delimiter: '.', specialUse: null };
      committer.addFact({ fact: 'folder', ...boxOf(folder), ...names, generation });
    }
    await committer.flush();
  }

  /** Lets mail come, go and change. */
  async play(opened: OpenFolder, steps: number): Promise<void> {
    const committer = committerOf(opened);
    for (let step = 0; step < steps; step += 1) await this.#step(committer, opened);
    await committer.flush();
  }

  /** Chooses messages, and one mailbox or two that lose them. */
  chooseForget(): {
    readonly messages: readonly MessageId[];
    readonly from: readonly MailboxKey[];
  } {
    const from = BOXES.filter(() => this.random.below(3) === 0);
    if (from.length === 0) from.push(this.#one(BOXES));
    const count = 1 + this.random.below(2);
    const isIn = ({ folder }: Stood) => from.some(({ mailbox }) => mailbox === folder.mailbox);
    const chosen = Array.from({ length: count }, () => this.random.below(this.#mails.length));
    // Once the facts of a message are gone, so is that it took the uid of an earlier one.
    const mails = chosen.filter(
      (mail) => !this.#places.some((place) => place.mail === mail && isIn(place) && place.isSecond),
    );
    for (const mail of mails) {
      for (const box of from) this.#forgotten.add(keyOf(box, mail));
      const isLost = (place: Stood) => place.mail === mail && isIn(place);
      this.#gone.push(...this.#places.filter(isLost).map(({ mark }) => mark));
      this.#places = this.#places.filter((place) => !isLost(place));
    }
    return { messages: [...new Set(mails)].map((mail) => this.#idOf(mail)), from };
  }

  /** Checks that everybody has exactly what they must have, byte for byte, and that the rest is nowhere. */
  check(dir: string): void {
    const bytes = everything(dir);
    expect(this.#gone.filter((mark) => bytes.includes(mark))).toEqual([]);
    const reader = openReaderAt(dir);
    const sources = openLogReader({ dir, locator: reader.catalog.locator });
    try {
      for (const [mail, raw] of this.#mails.entries()) {
        const isThere = this.#places.some((place) => place.mail === mail);
        expect([mail, bytes.includes(wordOf(mail))]).toEqual([mail, isThere]);
        if (isThere) expect(sources.readMessage(this.#idOf(mail)).equals(raw)).toBe(true);
        else expect(reader.catalog.messages.docidOf(this.#idOf(mail))).toBeUndefined();
      }
      const wanted = (isOpen: boolean) =>
        this.#places
          .filter((place) => place.isOpen === isOpen)
          .map(({ folder, uid, mail }) => line(folder.mailbox, folder.path, uid, this.#idOf(mail)));
      const listed = (deleted: boolean) =>
        [...reader.catalog.list({ deleted })].map((one) =>
          line(one.mailbox.replace(/@.*/, ''), one.folder, one.uid, one.id),
        );
      expect(listed(false).toSorted()).toEqual(wanted(true).toSorted());
      expect(listed(true).toSorted()).toEqual(wanted(false).toSorted());
    } finally {
      sources.close();
      reader.close();
    }
  }

  async #step(committer: Committer, { log }: OpenFolder): Promise<void> {
    const { random } = this;
    const open = this.#places.filter(({ isOpen }) => isOpen);
    const folder = this.#one(this.#folders);
    const mail = random.below(this.#mails.length);
    switch (random.below(11)) {
      case 0: {
        const place = open[random.below(Math.max(1, open.length))];
        if (place === undefined) return;
        place.isOpen = false;
        committer.addFact({ fact: 'ended', ...placeOf(place), reason: 'deleted' });
        return;
      }
      case 1: {
        const place = open[random.below(Math.max(1, open.length))];
        if (place === undefined) return;
        committer.addFact({ fact: 'flags', ...placeOf(place), flags: [`flag-${place.mark}`] });
        return;
      }
      case 2: {
        const to = `Renamed ${++this.#renames}`;
        const facts = { folder: folder.path, to };
        committer.addFact({ fact: 'folder-renamed', ...boxOf(folder), ...facts });
        folder.path = to;
        return;
      }
      case 3: {
        await committer.flush();
        await log.rollIfLarger(0);
        return;
      }
      case 4: {
        // Another message gets a uid.
        const place = open[random.below(Math.max(1, open.length))];
        if (place === undefined || place.mail === mail) return;
        if (this.#forgotten.has(keyOf(place.folder, mail))) return;
        await this.#arrive(committer, place.folder, mail, place.uid);
        place.isOpen = false;
        return;
      }
      case 5:
        await this.#arrive(committer, folder, mail, ++folder.lastUid, true);
        return;
      default:
        await this.#arrive(committer, folder, mail, ++folder.lastUid);
    }
  }

  /** @param isLate it was incomplete first */
  async #arrive(
    committer: Committer,
    folder: Folder,
    mail: number,
    uid: number,
    isLate = false,
  ): Promise<void> {
    const raw = this.#mails[mail] ?? Buffer.alloc(0);
    const isForgotten = this.#forgotten.has(keyOf(folder, mail));
    // The id of an incomplete message is unknown, so it cannot be forgotten before it is complete.
    if (isLate && isForgotten) return;
    const mark = `mark${++this.#marks}of${folder.mailbox}x`;
    const listed = listing(uid, { size: raw.length, subject: mark, flags: [`flag-${mark}`] });
    const isSecond = this.#places.some((one) => one.folder === folder && one.uid === uid);
    const stood = { folder, uid, mail, mark, isSecond, isOpen: true };
    const place = placeOf(stood);
    if (isLate) {
      const kept = committer.keepAside(raw.subarray(0, raw.length - 3));
      const why = { reason: 'short', detail: 'cut off', kept } as const;
      committer.addFact({ fact: 'quarantined', ...place, listing: listed, ...why });
    }
    const source = { kind: 'buffer', bytes: raw } as const;
    const options = { wasQuarantined: isLate };
    const put = await committer.storeSource(place, listed, source, options, () => undefined);
    expect(put.is).toBe(isForgotten ? 'forgotten' : 'stored');
    if (isForgotten) this.#gone.push(mark);
    else this.#places.push(stood);
  }

  #idOf(mail: number): MessageId {
    return hash('sha256', this.#mails[mail] ?? Buffer.alloc(0));
  }

  #one<T>(list: readonly T[]): T {
    const found = list[this.random.below(list.length)];
    if (found === undefined) throw new Error('an empty list');
    return found;
  }
}

function committerOf({ log, catalog }: OpenFolder): Committer {
  return new Committer({
    ...{ log, mirror: catalogMirror(catalog), now: () => Date.UTC(2026, 1, 3) },
    after: (ms, act) => systemClock.after(ms, act),
  });
}

function boxOf({ host, mailbox }: MailboxKey): MailboxKey {
  return { host, mailbox };
}

function placeOf({ folder, uid }: Pick<Stood, 'folder' | 'uid'>): Place {
  const { path, generation } = folder;
  return { ...boxOf(folder), folder: path, generation, uid };
}

function line(mailbox: string, folder: string, uid: number, id: string | null): string {
  return JSON.stringify([mailbox, folder, uid, id]);
}
