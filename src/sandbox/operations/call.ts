import type { z } from 'zod';
import { type MailboxToken, reaches } from '../access/tokens.ts';
import { invalid, problemsByField, Refusal } from '../http/refusal.ts';
import type { Page, Reply } from '../http/reply.ts';
import type { Routed } from '../http/route.ts';
import type { ServiceState } from '../service-state.ts';
import type { Entry, Folder, SortField } from '../store/folder.ts';
import type { Mailbox } from '../store/mailbox.ts';

/** A request that was routed and authorized, with its body read. */
export interface Call {
  readonly service: ServiceState;
  readonly operation: Operation;
  readonly token: MailboxToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** A JSON object where the operation takes one. */
  readonly body: unknown;
}

export type Handler = (call: Call) => Reply | Promise<Reply>;

/** An operation of the mailbox surface. */
export interface Operation extends Routed {
  readonly id: string;
  /** Whether the interface gives it a body. Where it does not, what is sent all the same is not read. */
  readonly takesBody: boolean;
  /** Statuses of 4xx and 5xx the interface declares for it. */
  readonly declared: readonly number[];
  readonly handle: Handler;
}

/**
 * The mailbox of the path. One that is not there and one the token may not reach look the same, in the status
 * the operation declares for it: 404 where it does, else 403.
 */
export function mailboxOf(call: Call): Mailbox {
  const resourceId = call.params.mailboxResourceId ?? '';
  const params = { mailboxResourceId: resourceId };
  const mailbox = call.service.store.mailboxes.get(resourceId);
  if (mailbox === undefined) {
    const status = call.operation.declared.includes(404) ? 404 : 403;
    throw new Refusal(status, 'ERR_MAILBOX_NOT_FOUND', 'The mailbox does not exist', params);
  }
  if (!reaches(call.token, mailbox)) {
    throw new Refusal(403, 'ERR_FORBIDDEN', 'The token does not reach this mailbox', params);
  }
  if (call.service.standings.isSuspended(mailbox)) {
    throw new Refusal(403, 'ERR_MAILBOX_SUSPENDED', 'The mailbox is suspended', params);
  }
  return mailbox;
}

/** What is not there: 404 where the operation declares it, else 422. */
export function missing(
  call: Call,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(call.operation.declared.includes(404) ? 404 : 422, code, message, params);
}

/** The folder of the path. */
export function folderOf(call: Call): { readonly mailbox: Mailbox; readonly folder: Folder } {
  const mailbox = mailboxOf(call);
  const path = call.params.folder ?? '';
  const folder = findFolder(mailbox, path);
  if (folder === null) {
    throw missing(call, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  }
  return { mailbox, folder };
}

/** The folder a body names; one that is not there makes the body invalid. */
export function targetFolderOf(mailbox: Mailbox, path: string): Folder {
  const folder = findFolder(mailbox, path);
  if (folder !== null) return folder;
  throw new Refusal(422, 'ERR_FOLDER_NOT_FOUND', 'The target folder does not exist', {
    folder: path,
  });
}

/** INBOX is the same in any case (RFC 3501, 5.1); other names are not. */
export function findFolder(mailbox: Mailbox, path: string): Folder | null {
  const spelled = /^inbox(?=$|\.)/i.test(path) ? `INBOX${path.slice(5)}` : path;
  return mailbox.folders.get(spelled) ?? null;
}

/** The uid of the path: an integer from 1 on. */
export function uidOf(call: Call): number {
  const raw = call.params.uid ?? '';
  const uid = /^\d{1,15}$/.test(raw) ? Number(raw) : 0;
  if (uid < 1) throw invalid({ uid: ['must be an integer of at least 1'] });
  return uid;
}

/** The message of the path. */
export function entryOf(call: Call): Entry {
  const { folder } = folderOf(call);
  const uid = uidOf(call);
  const entry = folder.get(uid);
  if (entry === null) throw messageMissing(call, uid);
  return entry;
}

export function messageMissing(call: Call, uid: number): Refusal {
  return missing(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
}

/** `page` and `perPage` of the query. */
export function pageOf(call: Call, defaultPerPage: number, maxPerPage: number): Page {
  const wrong: Record<string, string[]> = {};
  const page = integer(call.query.get('page'), 1, Number.MAX_SAFE_INTEGER, 1);
  const perPage = integer(call.query.get('perPage'), 1, maxPerPage, defaultPerPage);
  if (page === null) wrong.page = ['must be an integer of at least 1'];
  if (perPage === null) wrong.perPage = [`must be an integer from 1 to ${maxPerPage}`];
  if (page === null || perPage === null) throw invalid(wrong);
  return { page, perPage };
}

function integer(raw: string | null, low: number, high: number, fallback: number): number | null {
  if (raw === null) return fallback;
  if (!/^\d{1,16}$/.test(raw)) return null;
  const value = Number(raw);
  return value >= low && value <= high ? value : null;
}

/** `sort` of the query: `uid`, `date` or `size`, with `-` for descending; `-uid` by default. */
export function sortOf(call: Call): { readonly field: SortField; readonly descending: boolean } {
  const raw = call.query.get('sort') ?? '-uid';
  const descending = raw.startsWith('-');
  const field = descending ? raw.slice(1) : raw;
  if (field === 'uid' || field === 'date' || field === 'size') return { field, descending };
  throw invalid({ sort: ['must be one of uid, -uid, date, -date, size, -size'] });
}

/** A body by its schema. @throws Refusal 422 with every problem by its path */
export function bodyOf<T extends z.ZodType>(call: Call, schema: T): z.output<T> {
  const result = schema.safeParse(call.body);
  if (result.success) return result.data;
  throw invalid(problemsByField(result.error.issues));
}
