import { randomAt } from '../random.ts';
import { LANGUAGES, type Language } from './languages.ts';

/** What decides generated mail. */
export interface MailSeed {
  readonly seed: number;
  /** Seed of the documents that are attached; mailboxes that share it have attachments in common. */
  readonly documentSeed: number;
  readonly count: number;
  /** Address of the mailbox. */
  readonly owner: string;
  /** Received date of the newest message, milliseconds since the epoch. */
  readonly newest: number;
}

export interface Person {
  readonly name: string;
  readonly address: string;
  /** Number of the company: colleagues share a domain and a signature picture. */
  readonly company: number;
  readonly language: Language;
}

export type Kind = 'personal' | 'newsletter' | 'list' | 'notice';

/** What is known of a message without writing it. */
export interface Plan {
  readonly index: number;
  /** Index of the message it answers, or -1. */
  readonly parent: number;
  /** Index of the first message of its thread. */
  readonly root: number;
  readonly depth: number;
  readonly kind: Kind;
  readonly fromOwner: boolean;
  /** The other side of the conversation. */
  readonly person: Person;
  readonly folder: string;
  readonly flags: readonly string[];
  readonly received: number;
}

const DAY_MS = 86_400_000;
const MAX_DEPTH = 6;
const PEOPLE = 240;
const COMPANIES = 40;

/** Draws for different purposes are independent of each other. */
const THREAD_SALT = 1;
const OPENING_SALT = 2;
const PERSON_SALT = 3;
const DATE_SALT = 4;
const PLAN_SALT = 5;

/** 400 days for the mail of a demonstration, up to ten years for a million messages. */
function spanMs(count: number): number {
  const decades = Math.min(1, Math.max(0, Math.log10(count / 1000)) / 3);
  return (400 + 3250 * decades) * DAY_MS;
}

/** Received date: messages lie in order of their index, unevenly spaced. */
export function receivedAt(mail: MailSeed, index: number): number {
  const step = spanMs(mail.count) / Math.max(1, mail.count);
  const jitter = randomAt(mail.seed, index, DATE_SALT).unit() * step * 0.9;
  const time =
    mail.newest - (mail.count - 1 - index) * step - (index === mail.count - 1 ? 0 : jitter);
  return Math.floor(time / 1000) * 1000;
}

/** Index of the message it answers, or -1: one of the forty before it, while the thread is not too deep. */
function parentOf(seed: number, index: number): number {
  const random = randomAt(seed, index, THREAD_SALT);
  if (index === 0 || !random.chance(0.45)) return -1;
  return index - 1 - random.below(Math.min(index, 40));
}

export function planAt(mail: MailSeed, index: number): Plan {
  let parent = parentOf(mail.seed, index);
  const ancestors: number[] = [];
  for (let at = parent; at >= 0 && ancestors.length <= MAX_DEPTH; at = parentOf(mail.seed, at)) {
    ancestors.push(at);
  }
  let depth = ancestors.length;
  let root = ancestors.at(-1) ?? index;
  if (depth > MAX_DEPTH) {
    // Everything that lies deeper opens a thread of its own, its answers included.
    parent = -1;
    depth = 0;
    root = index;
  }
  const opening = randomAt(mail.seed, root, OPENING_SALT);
  const kind = kindOf(opening.below(100));
  const person = personAt(mail.seed, opening.below(PEOPLE));
  const random = randomAt(mail.seed, index, PLAN_SALT);
  const answerable = kind === 'personal' || kind === 'list';
  const fromOwner = answerable && random.chance(depth % 2 === 1 ? 0.6 : 0.12);
  const received = receivedAt(mail, index);
  const folder = folderOf(kind, fromOwner, received, random.below(100));
  return {
    index,
    parent: answerable ? parent : -1,
    root: answerable ? root : index,
    depth: answerable ? depth : 0,
    kind,
    fromOwner,
    person,
    folder,
    flags: flagsOf(mail, index, folder, fromOwner, random.below(100)),
    received,
  };
}

function kindOf(draw: number): Kind {
  if (draw < 66) return 'personal';
  if (draw < 80) return 'list';
  return draw < 90 ? 'newsletter' : 'notice';
}

function folderOf(kind: Kind, fromOwner: boolean, received: number, draw: number): string {
  if (fromOwner) return draw < 3 ? 'INBOX.Drafts' : 'INBOX.Sent';
  if (kind === 'list') return 'INBOX.Lists.gardening';
  if (kind === 'newsletter' && draw < 60) return 'INBOX.Newsletters';
  if (draw < 3) return 'INBOX.Trash';
  if (draw < 6) return 'INBOX.Junk';
  if (draw < 20) return `INBOX.Archive.${new Date(received).getUTCFullYear()}`;
  return draw < 26 ? 'INBOX.Projects.Größe & Maß' : 'INBOX';
}

function flagsOf(
  mail: MailSeed,
  index: number,
  folder: string,
  fromOwner: boolean,
  draw: number,
): string[] {
  if (folder === 'INBOX.Drafts') return ['\\Draft', '\\Seen'];
  if (fromOwner) return ['\\Seen'];
  // The newest twentieth is mostly unread, the rest mostly read.
  const recent = index >= mail.count * 0.95;
  const flags = draw < (recent ? 35 : 94) ? ['\\Seen'] : [];
  if (draw % 7 === 0 && !recent) flags.push('\\Answered');
  if (draw % 23 === 0) flags.push('\\Flagged');
  if (draw % 31 === 0) flags.push('$label1');
  if (draw % 37 === 0 && !recent) flags.push('$forwarded');
  return flags;
}

/** Everybody who writes to the mailbox. */
export function personAt(seed: number, number: number): Person {
  const random = randomAt(seed, number, PERSON_SALT);
  const language = random.pick(LANGUAGES);
  const company = random.below(COMPANIES);
  const name = `${random.pick(language.first)} ${random.pick(language.last)}`;
  const address = `person${number}@company${company}.example`;
  return { name, address, company, language };
}
