import addressparser from 'nodemailer/lib/addressparser';
import { parseHeaderDate } from '../mail/header-date.ts';
import { type Address, flagSet, type Listing } from '../mail/words.ts';
import {
  charsetHint,
  fieldText,
  type RawField,
  rawText,
  readHeaderBlock,
} from '../mime/header-block.ts';

/** As much of a source as is read for its header. */
export const HEAD_BYTES = 256 * 1024;
const FIELD_CHARS = 64 * 1024;
const MOST_ADDRESSES = 1000;
const MOST_HOPS = 20;
/** Header dates this far ahead come from a broken clock: one day. */
const CLOCK_SLACK_MS = 86_400_000;

/** Dates of a place, milliseconds since the epoch; null for none. */
export interface PlaceDates {
  /** When it was received, as its place says. */
  readonly received: number | null;
  /** When it was copied there, which counts only where the header has no date. */
  readonly copied?: number | null;
}

/**
 * Returns the listing that a service would show for a source, as far as its header allows. Never throws on malformed
 * mail. Its date is empty where neither its place nor its header has a usable one.
 *
 * @param head the source, or its beginning
 * @param now milliseconds since the epoch
 */
export function listingOf(
  head: Buffer,
  known: PlaceDates & {
    readonly uid: number;
    readonly size: number;
    readonly flags: readonly string[];
  },
  now: number,
): Listing {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const hint = charsetHint(fields);
  const text = (name: string): string => textOf(fieldOf(fields, name), hint);
  const addresses = (name: string): Address[] =>
    fields
      .filter((field) => field.name === name)
      .flatMap(({ value }) =>
        addressparser(rawText(value.slice(0, FIELD_CHARS), hint), { flatten: true }),
      )
      .slice(0, MOST_ADDRESSES)
      .map(({ name: shown, address }) => ({
        name: fieldText(shown ?? '', FIELD_CHARS, hint),
        address: address ?? '',
      }))
      .filter(({ name: shown, address }) => shown !== '' || address !== '');
  const date = known.received ?? headerDate(fields, now) ?? known.copied ?? null;
  return {
    uid: known.uid,
    date: date === null ? '' : new Date(date).toISOString(),
    flags: flagSet(known.flags),
    size: known.size,
    subject: fields.some((field) => field.name === 'subject') ? text('subject') : null,
    from: addresses('from')[0] ?? null,
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    messageId: text('message-id') || null,
    inReplyTo: text('in-reply-to') || null,
    attachments: [],
    extra: {},
  };
}

/** Returns a date in the past of the topmost Received field that has one, or of the Date field. */
function headerDate(fields: readonly RawField[], now: number): number | null {
  const hops = fields.filter(({ name }) => name === 'received').slice(0, MOST_HOPS);
  const texts = [
    ...hops.map(({ value }) => value.slice(value.lastIndexOf(';') + 1)),
    textOf(fieldOf(fields, 'date'), null),
  ];
  for (const text of texts) {
    const date = parseHeaderDate(text);
    if (date !== null && date <= now + CLOCK_SLACK_MS) return date;
  }
  return null;
}

/** What mail programs keep in the header of a message of a file: its flags, and labels of Gmail. */
export interface HeaderMarks {
  readonly flags: readonly string[];
  /** Folders that stand for its labels; undefined where it has no field for labels. */
  readonly labels: readonly LabelFolder[] | undefined;
}

export interface LabelFolder {
  readonly folder: string;
  readonly specialUse: string | null;
}

const MOST_KEYWORDS = 100;
const KEYWORD = /^[!-[\]-~]{1,100}$/;
const STATUS_FLAGS: Readonly<Record<string, string>> = {
  ...{ R: '\\Seen', A: '\\Answered', F: '\\Flagged', T: '\\Draft', D: '\\Deleted' },
};
/** Bits of X-Mozilla-Status and X-Mozilla-Status2 (nsMsgMessageFlags.h). */
const MOZILLA_FLAGS: readonly (readonly [bit: number, flag: string])[] = [
  [0x1, '\\Seen'],
  [0x2, '\\Answered'],
  [0x4, '\\Flagged'],
  [0x8, '\\Deleted'],
  [0x1000, '$Forwarded'],
];
/** Deleted in an IMAP folder, but not expunged. */
const MOZILLA_IMAP_DELETED = 0x200000;

/** Reads Status, X-Status, X-Keywords, the fields of Thunderbird, and X-Gmail-Labels. */
export function marksInHeader(head: Buffer): HeaderMarks {
  const { fields } = readHeaderBlock(head, HEAD_BYTES);
  const value = (name: string): string => fieldOf(fields, name);
  const letters = [...`${value('status')}${value('x-status')}`.slice(0, 32)];
  const bits = hexadecimal(value('x-mozilla-status'));
  const bits2 = hexadecimal(value('x-mozilla-status2'));
  const keywords = `${value('x-keywords').replaceAll(',', ' ')} ${value('x-mozilla-keys')}`
    .split(/\s+/)
    .filter((word) => KEYWORD.test(word))
    .slice(0, MOST_KEYWORDS);
  const flags = [
    ...letters.flatMap((letter) => STATUS_FLAGS[letter] ?? []),
    ...MOZILLA_FLAGS.filter(([bit]) => (bits & bit) !== 0).map(([, flag]) => flag),
    ...((bits2 & MOZILLA_IMAP_DELETED) === 0 ? [] : ['\\Deleted']),
    ...keywords,
  ];
  const labels = fields.find(({ name }) => name === 'x-gmail-labels');
  if (labels === undefined) return { flags, labels: undefined };
  const gmail = foldersOfLabels(labelsIn(textOf(labels.value, null)));
  return { flags: [...flags, ...gmail.flags], labels: gmail.folders };
}

function fieldOf(fields: readonly RawField[], wanted: string): string {
  return fields.find(({ name }) => name === wanted)?.value ?? '';
}

function textOf(value: string, hint: string | null): string {
  return fieldText(value, FIELD_CHARS, hint).replace(/\s+/g, ' ').trim();
}

function hexadecimal(text: string): number {
  return /^[0-9a-f]{1,8}$/i.test(text) ? Number.parseInt(text, 16) : 0;
}

const MOST_LABELS = 100;
const LABEL_CHARS = 1000;

/** Labels are parted by commas; one with a comma is in quotes. */
function labelsIn(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|[^,]+/g)]
    .map(([whole, inQuotes]) => (inQuotes?.replace(/\\(.)/g, '$1') ?? whole).trim())
    .filter((label) => label !== '' && label.length <= LABEL_CHARS)
    .slice(0, MOST_LABELS);
}

/**
 * Labels of Gmail that are flags, or folders with a use, as Takeout writes them in English, German, French, Spanish, Italian,
 * Dutch and Portuguese.
 */
const SYSTEM_LABELS: readonly (readonly [label: string, names: string])[] = [
  ['read', 'opened|geöffnet|ouvert|abierto|abiertos|aperto|geopend|aberto|aberta|abertas'],
  [
    'unread',
    'unread|ungelesen|non lus|non lu|no leídos|no leído|da leggere|ongelezen|não lidas|não lida|não lidos',
  ],
  [
    'starred',
    'starred|markiert|gekennzeichnet|messages suivis|suivis|destacados|con estrella|speciali|met ster|com estrela',
  ],
  [
    'archived',
    'archived|archiviert|archivés|archivé|archivado|archivados|archiviata|archiviati|gearchiveerd|arquivado|arquivadas|arquivada',
  ],
  [
    'INBOX',
    'inbox|posteingang|boîte de réception|recibidos|bandeja de entrada|posta in arrivo|postvak in|caixa de entrada',
  ],
  [
    '\\Sent',
    'sent|gesendet|messages envoyés|envoyés|enviados|posta inviata|inviati|verzonden|e-mails enviados',
  ],
  ['\\Trash', 'trash|papierkorb|corbeille|papelera|cestino|prullenbak|lixeira|bin'],
  ['\\Junk', 'spam'],
  ['\\Drafts', 'drafts|draft|entwürfe|brouillons|borradores|bozze|concepten|rascunhos'],
  ['\\Important', 'important|wichtig|importants|importantes|importanti|belangrijk'],
];
const SYSTEM = new Map(
  SYSTEM_LABELS.flatMap(([label, names]) => names.split('|').map((name) => [name, label] as const)),
);

/** Each label is a folder, apart from those that are flags; a message without a folder was archived. */
function foldersOfLabels(labels: readonly string[]) {
  const system = (label: string): string | undefined =>
    SYSTEM.get(label.normalize('NFC').toLowerCase());
  const found = new Set(labels.map(system));
  // Labels tell what is unread; exports of earlier years do not tell what was opened.
  const flags = [
    ...(found.has('unread') ? [] : ['\\Seen']),
    ...(found.has('starred') ? ['\\Flagged'] : []),
    ...(found.has('\\Drafts') ? ['\\Draft'] : []),
  ];
  const folders = new Map<string, LabelFolder>();
  for (const label of labels) {
    const known = system(label);
    if (['read', 'unread', 'starred', 'archived'].includes(known ?? '')) continue;
    const folder = known === 'INBOX' ? known : label;
    folders.set(folder, { folder, specialUse: known?.startsWith('\\') === true ? known : null });
  }
  const archived = {
    folder: labels.find((label) => system(label) === 'archived') ?? 'Archived',
    specialUse: '\\Archive',
  };
  return { flags, folders: folders.size === 0 ? [archived] : [...folders.values()] };
}
