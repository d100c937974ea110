import { hash, randomUUID } from 'node:crypto';
import { MailkeepError } from '../../src/core/errors.ts';
import { type FolderKey, flagSet, type Listing } from '../../src/core/types.ts';
import { stableId } from '../../src/mail/identity.ts';
import type {
  FolderListing,
  FolderState,
  Origin,
  OriginPage,
  UidOrder,
} from '../../src/sync/ports.ts';

export interface ModelMessage {
  readonly uid: number;
  readonly raw: Buffer;
  readonly date: string;
  flags: string[];
}

export class ModelFolder {
  readonly messages = new Map<number, ModelMessage>();
  nextUid = 1;
  /** Of an IMAP server, which gives a folder another one when it reassigns its uids. */
  uidValidity = 1;
  readonly #modSeqs = new Map<number, { readonly flags: string; readonly modSeq: number }>();
  #highestModSeq = 1;
  constructor(
    readonly path: string,
    readonly specialUse: string | null = null,
    /** A MAILBOXID (RFC 8474). */
    readonly id = randomUUID(),
  ) {}

  /** The same folder, with the same uids and modification sequences. */
  renamedTo(path: string): ModelFolder {
    const renamed = new ModelFolder(path, this.specialUse, this.id);
    for (const [uid, message] of this.messages) renamed.messages.set(uid, message);
    for (const [uid, known] of this.#modSeqs) renamed.#modSeqs.set(uid, known);
    renamed.nextUid = this.nextUid;
    renamed.uidValidity = this.uidValidity;
    renamed.#highestModSeq = this.#highestModSeq;
    return renamed;
  }

  deliver(raw: Buffer, options: { flags?: string[]; date?: string } = {}): number {
    const uid = this.nextUid;
    this.nextUid += 1;
    const date = options.date ?? new Date(Date.UTC(2026, 0, 1) + uid * 60_000).toISOString();
    this.messages.set(uid, { uid, raw, date, flags: options.flags ?? [] });
    return uid;
  }

  /** When each message appeared or changed its flags. As without QRESYNC, deleting a message changes nothing. */
  modSeqs(): { readonly highest: number; readonly byUid: ReadonlyMap<number, number> } {
    for (const [uid, message] of this.messages) {
      const flags = [...message.flags].sort().join(' ');
      if (this.#modSeqs.get(uid)?.flags === flags) continue;
      this.#highestModSeq += 1;
      this.#modSeqs.set(uid, { flags, modSeq: this.#highestModSeq });
    }
    const byUid = [...this.messages.keys()].map((uid): [number, number] => {
      return [uid, this.#modSeqs.get(uid)?.modSeq ?? 0];
    });
    return { highest: this.#highestModSeq, byUid: new Map(byUid) };
  }
}

/** What an IMAP server supports of what the interface can report. */
export interface ModelImap {
  /** Modification sequences. */
  readonly condstore: boolean;
  /** Opens every folder without modification sequences, although it lists them, as Dovecot does without index files. */
  readonly opensWithout?: boolean;
}

export type Request =
  | { readonly operation: 'mailboxes' | 'folders' | 'quota' }
  | { readonly operation: 'list' | 'search' | 'changes'; readonly folder: string }
  | { readonly operation: 'source'; readonly folder: string; readonly uid: number };

/**
 * An origin in memory that behaves as the interface says. `before` and `after` see every request, and may change the
 * folders, or throw what the client would.
 */
export class ModelOrigin implements Origin {
  readonly host = 'mail.example.org';
  readonly boxes = new Map<string, { address: string; folders: Map<string, ModelFolder> }>();
  readonly requests: Request[] = [];
  /** Whether it can be searched at all, and whether a search for a flag shows only messages that carry it. */
  searches = true;
  heedsFlags = true;
  /** Reports whether a message is left out of every page, although it is listed and counted. */
  omits: (message: ModelMessage) => boolean = () => false;
  /** Whether the listing of folders shows as many as it counts. */
  listsAll = true;
  reportsQuota = true;
  /** Set by `identify`. */
  stableId?: NonNullable<Origin['stableId']>;
  requestsPerMinute = (): number => 60;
  sourcesAreComplete?: true;
  uids?: NonNullable<Origin['uids']>;
  changedSince?: NonNullable<Origin['changedSince']>;
  readonly #epochs = new Map<string, number>();
  /** The uids of a folder's last newest page, which serve later pages. */
  readonly #snapshots = new Map<string, readonly number[]>();
  #imap: ModelImap | undefined;
  before: (request: Request) => void = () => {};
  after: (request: Request) => void = () => {};
  /** What a source answers instead of its bytes. */
  source$: (message: ModelMessage) => Buffer = (message) => message.raw;

  get showsEveryChange(): boolean {
    return this.#imap?.condstore === true;
  }

  /** Makes it answer like an IMAP server: with certain UID epochs, lists of all uids, and wrong sizes. */
  speakImap(imap: ModelImap): void {
    this.#imap = imap;
    this.sourcesAreComplete = true;
    this.uids = (at) =>
      this.#answer({ operation: 'search', folder: at.folder }, () => {
        const folder = this.#folder(at);
        const uids = this.#snapshots.get(at.folder) ?? [...folder.messages.keys()];
        const { uidValidity } = folder;
        const highestModSeq = imap.condstore ? `${folder.modSeqs().highest}` : null;
        return {
          uidValidity: `${uidValidity}`,
          uids: Uint32Array.from(uids).sort(),
          highestModSeq,
        };
      });
    if (!imap.condstore) return;
    this.changedSince = (at, since) =>
      this.#answer({ operation: 'changes', folder: at.folder }, () => {
        const folder = this.#folder(at);
        if (imap.opensWithout === true) return null;
        if (`${folder.uidValidity}` !== since.uidValidity) return null;
        const { highest, byUid } = folder.modSeqs();
        const changes = [...folder.messages.values()].flatMap(({ uid, flags }) => {
          const modSeq = byUid.get(uid) ?? 0;
          return modSeq > Number(since.modSeq)
            ? [{ uid, flags: flagSet(flags), modSeq: `${modSeq}` }]
            : [];
        });
        return { changes, highestModSeq: `${highest}` };
      });
  }

  #emailId: (raw: Buffer) => string = () => '';

  /** From now on, listings have an EMAILID (RFC 8474) that follows from the content, as in Cyrus. */
  identify(emailId = (raw: Buffer) => `M${hash('sha256', raw).slice(0, 24)}`): void {
    this.stableId = stableId;
    this.#emailId = emailId;
  }

  mailbox(resourceId: string, address: string, folders: readonly ModelFolder[]): void {
    this.boxes.set(resourceId, {
      address,
      folders: new Map(folders.map((folder) => [folder.path, folder])),
    });
  }

  count(operation: Request['operation']): number {
    return this.requests.filter((request) => request.operation === operation).length;
  }

  async mailboxes(): ReturnType<Origin['mailboxes']> {
    return this.#answer({ operation: 'mailboxes' }, () =>
      [...this.boxes].map(([resourceId, { address }]) => ({ resourceId, address })),
    );
  }

  async folders(mailbox: string): Promise<FolderListing> {
    return this.#answer({ operation: 'folders' }, () => {
      const all = [...(this.boxes.get(mailbox)?.folders.values() ?? [])];
      const folders = all.map((folder) => ({
        path: folder.path,
        name: folder.path.split('.').at(-1) ?? folder.path,
        delimiter: '.',
        specialUse: folder.specialUse,
        messageCount: folder.messages.size,
        unreadCount: [...folder.messages.values()].filter((m) => !m.flags.includes('\\Seen'))
          .length,
      }));
      const imap = this.#imap;
      if (imap === undefined) return { folders, complete: this.listsAll };
      this.#snapshots.clear();
      const states = new Map(
        all.map((folder) => {
          this.#epochs.set(folder.path, folder.uidValidity);
          return [folder.path, stateOf(folder, imap)];
        }),
      );
      return { folders, complete: this.listsAll, states };
    });
  }

  async list(
    at: FolderKey,
    { page, perPage, order }: { page: number; perPage: number; order: UidOrder },
  ): Promise<OriginPage> {
    return this.#answer({ operation: 'list', folder: at.folder }, () => {
      const { messages, id, uidValidity } = this.#folder(at);
      if (this.#imap && page === 1) this.#snapshots.set(at.folder, [...messages.keys()]);
      const found = this.#page([...messages.values()], page, perPage, order);
      if (this.#imap === undefined) return found;
      const mailboxId = this.stableId === undefined ? null : id;
      return { ...found, uidValidity: `${uidValidity}`, mailboxId };
    });
  }

  async search(
    at: FolderKey,
    { uids, perPage, order, flag, since }: Parameters<Origin['search']>[1],
  ): Promise<OriginPage> {
    return this.#answer({ operation: 'search', folder: at.folder }, () => {
      if (!this.searches) throw status(405);
      const isRange = uids.includes(':') && flag === undefined && since === undefined;
      const shown = isRange ? this.#snapshots.get(at.folder) : undefined;
      const all = [...this.#folder(at).messages.values()].filter(
        ({ uid }) => shown?.includes(uid) ?? true,
      );
      const top = Math.max(0, ...all.map(({ uid }) => uid));
      const wanted = uids.split(',').map((part) => {
        const [from = '', to = from] = part.split(':');
        const ends = [from, to].map((end) => (end === '*' ? top : Number(end)));
        return { lo: Math.min(...ends), hi: Math.max(...ends) };
      });
      const found = all
        .filter(({ uid }) => wanted.some(({ lo, hi }) => uid >= lo && uid <= hi))
        .filter(({ flags }) => flag === undefined || !this.heedsFlags || flags.includes(flag))
        .filter(({ date }) => since === undefined || date.slice(0, 10) >= since);
      return this.#page(found, 1, perPage, order);
    });
  }

  async source(at: FolderKey, uid: number): ReturnType<Origin['source']> {
    return this.#answer({ operation: 'source', folder: at.folder, uid }, () => {
      const message = this.#folder(at).messages.get(uid);
      if (message === undefined) throw this.#imap ? imap('imap.message-gone') : status(404);
      return { kind: 'buffer' as const, bytes: this.source$(message) };
    });
  }

  async quota(mailbox: string): ReturnType<Origin['quota']> {
    return this.#answer({ operation: 'quota' }, () => {
      if (!this.reportsQuota) return [];
      const folders = [...(this.boxes.get(mailbox)?.folders.values() ?? [])];
      const messages = folders.flatMap((folder) => [...folder.messages.values()]);
      const bytes = messages.reduce((sum, { raw }) => sum + raw.length, 0);
      return [
        { name: 'STORAGE', usage: bytes, limit: null },
        { name: 'MESSAGE', usage: messages.length, limit: null },
      ];
    });
  }

  #folder(at: FolderKey): ModelFolder {
    const folder = this.boxes.get(at.mailbox)?.folders.get(at.folder);
    if (folder === undefined) throw this.#imap ? imap('imap.folder-refused') : status(422);
    const epoch = this.#epochs.get(at.folder);
    if (epoch !== undefined && epoch !== folder.uidValidity) throw imap('imap.renumbered');
    return folder;
  }

  #page(
    messages: readonly ModelMessage[],
    page: number,
    perPage: number,
    order: UidOrder,
  ): OriginPage {
    const sorted = [...messages].sort((a, b) =>
      order === 'ascending' ? a.uid - b.uid : b.uid - a.uid,
    );
    const all = sorted.slice((page - 1) * perPage, page * perPage);
    const omitted = all.filter(this.omits).map(({ uid }) => uid);
    const imap = this.#imap;
    return {
      ...(imap && { hasModSeqs: imap.condstore && imap.opensWithout !== true }),
      ...(omitted.length === 0 ? {} : { omitted: omitted.sort((a, b) => a - b) }),
      items: all
        .filter((message) => !this.omits(message))
        .map((message) => {
          const listing = listingOf(message);
          // As Exchange does; the same for every copy of a message.
          const size = listing.size + (this.#imap === undefined ? 0 : listing.size % 3);
          const ids = this.stableId && { emailId: this.#emailId(message.raw) };
          return { ...listing, size, extra: { ...listing.extra, ...ids } };
        }),
      total: messages.length,
    };
  }

  async #answer<T>(request: Request, answer: () => T): Promise<T> {
    this.requests.push(request);
    this.before(request);
    const result = answer();
    this.after(request);
    return result;
  }
}

function stateOf(folder: ModelFolder, { condstore }: ModelImap): FolderState {
  return {
    uidValidity: folder.uidValidity === 0 ? null : `${folder.uidValidity}`,
    uidNext: folder.nextUid,
    highestModSeq: condstore ? `${folder.modSeqs().highest}` : null,
  };
}

function imap(code: string): MailkeepError {
  return new MailkeepError('origin', code, {});
}

/** The error a client raises for a status of the origin. */
export function status(code: number): MailkeepError {
  return new MailkeepError('origin', 'origin.status', { status: code });
}

/** The listing record of a message, read from its own headers. */
export function listingOf({ uid, raw, date, flags }: ModelMessage): Listing {
  const head = raw.toString('latin1');
  const header = (name: string): string | null =>
    new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim() ?? null;
  return {
    uid,
    date,
    flags: flagSet(flags),
    size: raw.length,
    subject: header('subject'),
    from: null,
    to: [],
    cc: [],
    bcc: [],
    messageId: header('message-id'),
    inReplyTo: null,
    attachments: [],
    extra: { unseen: !flags.includes('\\Seen') },
  };
}

/** A small message; the same arguments give the same bytes. */
export function mail(name: string, body = `This is ${name}.`): Buffer {
  return Buffer.from(
    `From: Ada <ada@example.org>\r\nTo: Bo <bo@example.org>\r\nSubject: ${name}\r\n` +
      `Message-ID: <${name.replace(/\W+/g, '-')}@example.org>\r\n` +
      `Date: Thu, 01 Jan 2026 00:00:00 +0000\r\n\r\n${body}\r\n`,
  );
}
