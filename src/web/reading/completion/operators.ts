import type { OfferedRow } from './shapes.ts';

/** The operators that are offered, the most useful first, and what each takes. */
const OPERATOR_DETAILS: Readonly<Record<string, string>> = {
  from: 'sender',
  to: 'recipient in To',
  in: 'folder',
  subject: 'words of the subject',
  has: 'attachment or inline',
  is: 'unread, starred, deleted, …',
  date: 'a day, month or year',
  before: 'received before a date',
  after: 'received from a date on',
  asof: 'the archive as it was at a time',
  filename: 'name of an attachment',
  larger: 'larger than a size, such as 5M',
  smaller: 'smaller than a size',
  mailbox: 'a mailbox',
  contact: 'sender or recipient',
  recip: 'recipient in To, Cc or Bcc',
  cc: 'recipient in Cc',
  bcc: 'recipient in Bcc',
  deliveredto: 'address that it was delivered to',
  body: 'words of the text',
  mime: 'type of an attachment',
  list: 'mailing list',
  on: 'received on a day',
  older_than: 'received longer ago, such as 1y',
  newer_than: 'received since, such as 7d',
  added: 'stored here first on a day or in A..B',
  deleted: 'deleted at the service on a day or in A..B',
  size: 'a size, or a range of sizes',
  flag: 'a flag or keyword',
  thread: 'a conversation, by an id of it',
  id: 'an id or Message-ID',
  account: 'an account of the configuration',
};

/** Letters of a word before operators are offered. */
const OPERATOR_LETTERS = 2;

/** Returns the operators that begin with a word. */
export function operatorRows(typed: string): OfferedRow[] {
  if (typed.length < OPERATOR_LETTERS) return [];
  const wanted = typed.toLowerCase();
  return Object.entries(OPERATOR_DETAILS)
    .filter(([name]) => name.startsWith(wanted))
    .map(([name, detail]) => ({
      ...{ insert: `${name}:`, label: `${name}:`, detail },
      ...{ count: null, kind: 'operator' },
    }));
}
