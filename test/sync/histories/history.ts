import fc from 'fast-check';
import { ModelFolder, type ModelMessage, type ModelOrigin, mail } from '../model-origin.ts';

/** One act at the origin. Numbers choose among what is there, so that every act means something in every state. */
export type Act =
  | { readonly act: 'deliver'; readonly folder: number; readonly unseen: boolean }
  | { readonly act: 'delete'; readonly folder: number; readonly message: number }
  | {
      readonly act: 'flag';
      readonly folder: number;
      readonly message: number;
      readonly flag: number;
    }
  | {
      readonly act: 'move' | 'copy';
      readonly folder: number;
      readonly message: number;
      readonly to: number;
    }
  | { readonly act: 'move-all'; readonly folder: number; readonly to: number }
  | { readonly act: 'copy-all'; readonly folder: number; readonly to: number }
  /** A draft is saved: the version before it goes, and the new one carries the same Message-ID. */
  | { readonly act: 'draft'; readonly message: number; readonly rewrites: boolean }
  | { readonly act: 'empty'; readonly folder: number }
  | { readonly act: 'create' }
  | { readonly act: 'drop'; readonly folder: number }
  /** Another folder can be created under the old name. */
  | { readonly act: 'rename'; readonly folder: number; readonly again?: boolean }
  | { readonly act: 'renumber'; readonly folder: number; readonly above: boolean }
  /** The folder is deleted, and a new one with as many messages gets its name. An HTTP service keeps its uids. */
  | { readonly act: 'recreate'; readonly folder: number; readonly messages: number };

/** What happens while a pass runs: acts between its requests, requests that fail, and its end. */
export interface PassPlan {
  readonly full: boolean;
  /** As a daemon runs it: quiet folders are not asked, sweeps go on, assumed places are verified. */
  readonly daemon: boolean;
  readonly acts: readonly { readonly at: number; readonly act: Act }[];
  /** Requests that fail, by their number in the pass, and how. */
  readonly faults: readonly { readonly at: number; readonly status: 404 | 500 | 'unreachable' }[];
  /** After which act of the disk the power fails; none when beyond the pass. */
  readonly powerCut: number | null;
  readonly hoursLater: number;
  /** Passes without a disturbance that follow at once. */
  readonly again: number;
}

export interface History {
  /** `imap-ids` derives the messages' ids from their bytes, `imap-ids-of-headers` from the Message-ID. */
  readonly host:
    | 'plain'
    | 'no-search'
    | 'flags-unheeded'
    | 'imap'
    | 'imap-condstore'
    | 'imap-ids'
    | 'imap-ids-of-headers';
  readonly start: readonly number[];
  readonly steps: readonly { readonly between: readonly Act[]; readonly pass: PassPlan }[];
}

const small = fc.nat(60);
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant('deliver' as const),
      folder: small,
      unseen: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ act: fc.constant('delete' as const), folder: small, message: small }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constant('flag' as const),
      folder: small,
      message: small,
      flag: fc.nat(3),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constantFrom('move' as const, 'copy' as const, 'copy' as const),
      folder: small,
      message: small,
      to: small,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('move-all' as const), folder: small, to: small }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('copy-all' as const), folder: small, to: small }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('draft' as const),
      message: small,
      rewrites: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('empty' as const), folder: small }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('create' as const) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('drop' as const), folder: small }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('rename' as const),
      folder: small,
      again: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('renumber' as const),
      folder: small,
      above: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('recreate' as const),
      folder: small,
      messages: fc.nat(3),
    }),
  },
);

const passPlan: fc.Arbitrary<PassPlan> = fc.record({
  full: fc.boolean(),
  daemon: fc.boolean(),
  acts: fc.array(fc.record({ at: fc.nat(40), act }), { maxLength: 4 }),
  faults: fc.array(
    fc.record({
      at: fc.nat(40),
      status: fc.constantFrom(404 as const, 500 as const, 'unreachable' as const),
    }),
    { maxLength: 2 },
  ),
  powerCut: fc.option(fc.nat(30), { freq: 3 }),
  hoursLater: fc.constantFrom(0, 1, 7),
  again: fc.constantFrom(0, 0, 1, 2),
});

/** Random histories: folders with mail, then acts and passes in turn. */
export const history: fc.Arbitrary<History> = fc.record({
  host: fc.constantFrom(
    'plain' as const,
    'plain' as const,
    'no-search' as const,
    'flags-unheeded' as const,
    'imap' as const,
    'imap-condstore' as const,
    'imap-ids' as const,
    'imap-ids-of-headers' as const,
  ),
  start: fc.array(fc.nat(12), { minLength: 1, maxLength: 4 }),
  steps: fc.array(fc.record({ between: fc.array(act, { maxLength: 8 }), pass: passPlan }), {
    minLength: 1,
    maxLength: 5,
  }),
});

const FLAGS = ['\\Seen', '\\Flagged', '\\Answered', '$label'] as const;

/** The origin of a history: its folders, and the numbers that make every message its own. */
export class Actor {
  /** Folders whose uids were reassigned: there a uid says nothing about the message that had it before. */
  readonly renumbered = new Set<string>();
  readonly #folders: Map<string, ModelFolder>;
  #messages = 0;
  #made = 0;
  #epochs = 0;

  readonly #keepsUids: boolean;

  constructor(origin: ModelOrigin, counts: readonly number[]) {
    // Without epochs, a folder whose uids start again with other messages looks like one that lost and gained mail.
    this.#keepsUids = origin.uids === undefined;
    this.#folders = new Map([['INBOX', new ModelFolder('INBOX')]]);
    origin.mailbox('AC1', 'ada@example.org', []);
    origin.boxes.set('AC1', { address: 'ada@example.org', folders: this.#folders });
    for (const [i, count] of counts.entries()) {
      const folder = i === 0 ? this.#at(0) : this.#create();
      for (let n = 0; n < count; n += 1) this.#deliver(folder, false);
    }
  }

  get folders(): ReadonlyMap<string, ModelFolder> {
    return this.#folders;
  }

  do(step: Act): void {
    switch (step.act) {
      case 'deliver':
        this.#deliver(this.#at(step.folder), step.unseen);
        return;
      case 'delete': {
        const message = this.#message(step.folder, step.message);
        if (message !== undefined) this.#at(step.folder).messages.delete(message.uid);
        return;
      }
      case 'flag': {
        const message = this.#message(step.folder, step.message);
        const flag = FLAGS[step.flag] ?? '\\Seen';
        if (message === undefined) return;
        message.flags = message.flags.includes(flag)
          ? message.flags.filter((other) => other !== flag)
          : [...message.flags, flag];
        return;
      }
      case 'move':
      case 'copy': {
        const message = this.#message(step.folder, step.message);
        const [from, to] = [this.#at(step.folder), this.#at(step.to)];
        if (message === undefined || (from === to && step.act === 'move')) return;
        if (step.act === 'move') from.messages.delete(message.uid);
        to.deliver(message.raw, { date: message.date, flags: [...message.flags] });
        return;
      }
      case 'move-all': {
        const [from, to] = [this.#at(step.folder), this.#at(step.to)];
        if (from === to) return;
        for (const { raw, date, flags } of from.messages.values())
          to.deliver(raw, { date, flags: [...flags] });
        from.messages.clear();
        return;
      }
      case 'copy-all': {
        const [from, to] = [this.#at(step.folder), this.#at(step.to)];
        for (const { raw, date, flags } of [...from.messages.values()])
          to.deliver(raw, { date, flags: [...flags] });
        return;
      }
      case 'draft':
        this.#saveDraft(step.message, step.rewrites);
        return;
      case 'empty':
        this.#at(step.folder).messages.clear();
        return;
      case 'create':
        this.#create();
        return;
      case 'drop': {
        const folder = this.#at(step.folder);
        if (folder.path !== 'INBOX') this.#folders.delete(folder.path);
        return;
      }
      case 'rename': {
        const folder = this.#at(step.folder);
        if (folder.path === 'INBOX') return;
        const renamed = folder.renamedTo(this.#create().path);
        this.#folders.set(renamed.path, renamed);
        this.#folders.delete(folder.path);
        if (this.renumbered.has(folder.path)) this.renumbered.add(renamed.path);
        if (step.again !== true) return;
        const successor = new ModelFolder(folder.path);
        this.#folders.set(folder.path, successor);
        this.#startEpoch(successor, folder.nextUid);
        this.#deliver(successor, false);
        return;
      }
      case 'renumber': {
        const folder = this.#at(step.folder);
        this.renumbered.add(folder.path);
        const messages = [...folder.messages.values()];
        folder.messages.clear();
        folder.uidValidity = this.#nextEpoch();
        if (!step.above) folder.nextUid = 1;
        for (const { raw, date, flags } of messages) folder.deliver(raw, { date, flags });
        return;
      }
      case 'recreate': {
        const { path, specialUse, nextUid } = this.#at(step.folder);
        const folder = new ModelFolder(path, specialUse);
        this.#folders.set(path, folder);
        this.#startEpoch(folder, nextUid);
        for (let n = 0; n < step.messages; n += 1) this.#deliver(folder, false);
      }
    }
  }

  #at(number: number): ModelFolder {
    const all = [...this.#folders.values()];
    const folder = all[number % all.length];
    if (folder === undefined) throw new Error('a mailbox has an INBOX');
    return folder;
  }

  #message(folder: number, number: number): ModelMessage | undefined {
    const all = [...this.#at(folder).messages.values()];
    return all[number % Math.max(1, all.length)];
  }

  /** For a new folder at the path of another one. Without UIDVALIDITY, its uids continue. */
  #startEpoch(folder: ModelFolder, nextUid: number): void {
    folder.uidValidity = this.#nextEpoch();
    if (this.#keepsUids) folder.nextUid = nextUid;
    else this.renumbered.add(folder.path);
  }

  #nextEpoch(): number {
    this.#epochs += 1;
    return this.#epochs;
  }

  #create(specialUse: string | null = null): ModelFolder {
    this.#made += 1;
    const folder = new ModelFolder(`INBOX.f${this.#made}`, specialUse);
    folder.uidValidity = this.#nextEpoch();
    this.#folders.set(folder.path, folder);
    return folder;
  }

  /** Versions of a draft differ in their bytes and their date, but not in length, subject or Message-ID. */
  #saveDraft(message: number, rewrites: boolean): void {
    const drafts =
      [...this.#folders.values()].find(({ specialUse }) => specialUse === '\\Drafts') ??
      this.#create('\\Drafts');
    const all = [...drafts.messages.values()];
    const before = rewrites ? all[message % Math.max(1, all.length)] : undefined;
    this.#messages += 1;
    const name = before === undefined ? `m${this.#messages}` : nameOf(before.raw);
    if (before !== undefined) drafts.messages.delete(before.uid);
    const body = String(this.#messages).padStart(6, '0');
    const date = dateOf(this.#messages);
    drafts.deliver(mail(name, body), { flags: ['\\Seen', '\\Draft'], date });
  }

  #deliver(folder: ModelFolder, unseen: boolean): void {
    this.#messages += 1;
    const date = dateOf(this.#messages);
    folder.deliver(mail(`m${this.#messages}`), { flags: unseen ? [] : ['\\Seen'], date });
  }
}

function dateOf(minute: number): string {
  return new Date(Date.UTC(2026, 0, 1) + minute * 60_000).toISOString();
}

function nameOf(raw: Buffer): string {
  const [, name] = /^Subject: (.*)$/m.exec(raw.toString('latin1')) ?? [];
  if (name === undefined) throw new Error('every message of a history has a subject');
  return name.trim();
}
