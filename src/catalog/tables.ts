import type { Generated } from 'kysely';

/**
 * The rows of the catalog, as the migrations create them; docs/catalog.md explains their purpose. Hashes are
 * BLOBs, references are integers, commits are commit numbers, dates are milliseconds since the epoch, and
 * truth values are 0 and 1.
 */
export interface CatalogTables {
  meta: MetaTable;
  commits: CommitsTable;
  mailboxes: MailboxesTable;
  folders: FoldersTable;
  folder_spans: FolderSpansTable;
  generations: GenerationsTable;
  flag_sets: FlagSetsTable;
  messages: MessagesTable;
  place_sets: PlaceSetsTable;
  places: PlacesTable;
  spans: SpansTable;
  records: RecordsTable;
  quarantine: QuarantineTable;
  certificates: CertificatesTable;
  tombstones: TombstonesTable;
  forgotten: ForgottenTable;
  events: EventsTable;
  received_days: ReceivedDaysTable;
  commit_changes: CommitChangesTable;
  texts: TextsTable;
  thread_members: ThreadMembersTable;
  thread_nodes: ThreadNodesTable;
  attachment_texts: AttachmentTextsTable;
  attachments: AttachmentsTable;
  attachment_types: AttachmentTypesTable;
  addresses: AddressesTable;
  message_people: MessagePeopleTable;
  correspondents: CorrespondentsTable;
  msg_fts: FtsTable;
}

/** One row: how far the fold has come. It changes in the transaction that adds the rows (invariant 2). */
interface MetaTable {
  id: 1;
  commit_number: number;
  commit_hash: Buffer;
  commit_time: number;
  /** Facts that name unknown places; only a damaged log has them. */
  orphans: number;
  messages: number;
  message_bytes: number;
  /** The extractor version whose text the index holds. */
  extractor: number;
  /** The version of reading attachments whose texts are here. */
  attachment_version: number;
}

interface CommitsTable {
  number: number;
  time: number;
}

interface MailboxesTable {
  id: Generated<number>;
  host: string;
  mailbox: string;
  address: string;
  from_commit: number;
}

interface FoldersTable {
  id: Generated<number>;
  mailbox_id: number;
  path: string;
  name: string;
  delimiter: string;
  special_use: string | null;
  generation: number;
  gone_commit: number | null;
}

interface FolderSpansTable {
  folder_id: number;
  from_commit: number;
  to_commit: number | null;
  path: string;
  special_use: string | null;
}

interface GenerationsTable {
  folder_id: number;
  generation: number;
  from_commit: number;
  highest_uid: number;
  reason: string | null;
}

interface FlagSetsTable {
  id: Generated<number>;
  /** JSON array, sorted. */
  flags: string;
  /** Bits of `MARK` in `flag-marks.ts`. */
  marks: number;
}

/** What the origin lists of a message. */
interface Listed {
  size: number;
  date: number | null;
  subject: string | null;
  sender_name: string | null;
  sender_address: string | null;
  message_id: string | null;
}

interface MessagesTable extends Listed {
  docid: number;
  id: Buffer;
  first_commit: number;
  open_places: number;
  /** Where it is. */
  place_set: number;
  /** 0: not indexed yet; negative: indexed, but due again; positive: the extractor version of the index row. */
  extractor: number;
}

/** Where messages are: JSON arrays of numbers, see `PlaceSet`. */
interface PlaceSetsTable {
  id: Generated<number>;
  current: string;
  last: string;
  mailboxes: string;
}

interface PlacesTable {
  id: Generated<number>;
  folder_id: number;
  generation: number;
  uid: number;
  docid: number;
  from_commit: number;
  to_commit: number | null;
  first_commit: number;
  flag_set: number;
  marks: number;
  fingerprint: Buffer;
  /** Received date, where it differs from the message's. */
  date: number | null;
  assumed: number;
  held: number;
  /** Why it ended. */
  reason: string | null;
}

interface SpansTable {
  id: Generated<number>;
  place_id: number;
  folder_id: number;
  docid: number;
  from_commit: number;
  to_commit: number;
  flag_set: number;
  date: number | null;
  /** For a span that closed by an end: the commit at which the place came back. */
  resumed: number | null;
  reason: string | null;
}

interface RecordsTable {
  kind: number;
  hash: Buffer;
  size: number;
  /** Null while the bytes are in no readable record. */
  segment: number | null;
  ordinal: number | null;
  offset: number | null;
  docid: number | null;
}

interface QuarantineTable extends Listed {
  id: Generated<number>;
  folder_id: number;
  generation: number;
  uid: number;
  /** Where it stands among the docids of its date. */
  position: number;
  from_commit: number;
  to_commit: number | null;
  first_commit: number;
  flag_set: number;
  fingerprint: Buffer;
  reason: string;
  detail: string;
  kept: Buffer | null;
  acknowledged: number;
}

interface CertificatesTable {
  folder_id: number;
  commit_number: number;
  generation: number;
  origin_total: number;
  stored: number;
  assumed: number;
  quarantined: number;
  held: number;
  forgotten: number;
  complete: number;
  since: string;
}

interface TombstonesTable {
  id: Buffer;
  reason: string;
  commit_number: number;
}

interface ForgottenTable {
  folder_id: number;
  generation: number;
  uid: number;
  id: Buffer;
}

/** How many messages of a set of places were received on a day. */
interface ReceivedDaysTable {
  place_set: number;
  /** UTC, days since the epoch, see `dayOf`. */
  day: number;
  messages: number;
  bytes: number;
}

/** Places that a commit opened and ended in a folder. */
interface CommitChangesTable {
  commit_number: number;
  folder_id: number;
  /** Places that appeared, or came back. */
  came: number;
  ended: number;
}

interface EventsTable {
  id: Generated<number>;
  commit_number: number;
  folder_id: number;
  generation: number;
  uid: number;
  event: string;
  /** Canonical JSON of the fact without its place. */
  detail: string;
}

/** What indexing found, apart from the messages, whose rows must not grow once their page is full. */
interface TextsTable {
  docid: number;
  /** Why the message could not be parsed; null when it was. */
  unparsed: string | null;
  /** The beginning of the text, packed by `packed-text.ts`; null where there is none. */
  text: Buffer | null;
  /** Unused since version 6; catalogs of version 5 may have a list of attachments here. */
  attachments: Buffer | null;
}

/** A message in its thread; see `threads.ts`. Nodes, threads and subjects are 47-bit hashes. */
interface ThreadMembersTable {
  docid: number;
  thread: number;
  /** Of its Message-ID. */
  node: number;
  /** Of its base subject; null where that is empty. */
  subject: number | null;
  /** 1 for a reply that names no message: it joins the nearest earlier one of its subject. */
  joins: 0 | 1;
  /** Nodes of the messages it names, 6 bytes each; null where it names none. */
  ancestors: Buffer | null;
}

/** Every Message-ID that a message has or names, and the thread it is in. */
interface ThreadNodesTable {
  node: number;
  thread: number;
}

/** The text of a distinct attachment: distinct by its bytes and by how they are read. */
interface AttachmentTextsTable {
  id: Generated<number>;
  hash: Buffer;
  form: string;
  /**
   * The version that read it; 0 while it waits, negative when a newer version is to read it again. With a `failure`, a
   * negative number counts the attempts that failed so far: it is to be read once more.
   */
  version: number;
  /** Why it has no text; null when it has, or waits for the first attempt. */
  failure: string | null;
  truncated: number;
  /** Packed by `packed-text.ts`; null where there is none. */
  text: Buffer | null;
}

/** Every attachment of the indexed messages. */
interface AttachmentsTable {
  docid: number;
  /** Position among the message's attachments, from 1. */
  number: number;
  filename: string | null;
  /** In lower case; empty where an older version did not list it. */
  type: string;
  /** Decoded bytes. */
  size: number;
  /**
   * SHA-256 of its bytes, or a value of its own where the message was cut before their end; null where an older version
   * listed it, until its message is indexed again.
   */
  hash: Buffer | null;
  inline: 0 | 1;
  /** Its text; null where it has none, as pictures and archives. */
  text_id: number | null;
}

/** Distinct contents that messages attach as a type, and their bytes. */
interface AttachmentTypesTable {
  type: string;
  contents: number;
  bytes: number;
}

/** An address of a sender or recipient, in lower case; or a sender's domain, with its @. */
interface AddressesTable {
  id: Generated<number>;
  address: string;
}

/** Who sent an indexed message to whom: JSON arrays of numbers. */
interface MessagePeopleTable {
  docid: number;
  /** The mailboxes it was in when it was indexed. */
  mailboxes: string;
  /** Addresses of From and their domains. */
  senders: string;
  recipients: string;
}

/** How many messages of a year an address sent or got. */
interface CorrespondentsTable {
  address_id: number;
  /** See `ROLE` in people.ts. */
  role: number;
  /** UTC, of the docid. */
  year: number;
  /** As in `message_people`. */
  mailboxes: string;
  messages: number;
  last_docid: number;
}

interface FtsTable {
  rowid: number;
  /** Text, or its UTF-8, which spares making a string of it. */
  body: string | Buffer;
  subject: string;
  from_: string;
  rcpt: string;
  cc: string;
  bcc: string;
  delivered: string;
  att_name: string;
  att_text: string;
  meta: string;
}

/** Values of `records.kind`: the record kinds of the log that are addressed by a hash. */
export const RECORD_BLOB = 1;
export const RECORD_MESSAGE = 2;
