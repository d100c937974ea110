import type { z } from 'zod';
import type { Reply, RoutePattern } from '../service/surface.ts';
import { bodyFrom, canonicalPath, Refusal, uidFrom } from '../service/surface.ts';
import { coversMailbox, type MailboxToken } from './accounts.ts';
import type { ServiceState } from './sandbox.ts';
import type { Entry, Folder, Mailbox } from './store.ts';

export interface Call {
  readonly service: ServiceState;
  readonly operation: Operation;
  readonly token: MailboxToken;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
}

export type Handler = (call: Call) => Reply | Promise<Reply>;

export interface Operation extends RoutePattern {
  readonly id: string;
  /** False if the API declares no body; any body sent is not read. */
  readonly takesBody: boolean;
  readonly declared: readonly number[];
  readonly handle: Handler;
}

/** Returns the mailbox. A missing mailbox is refused with 404 if the API declares it, otherwise with 403. */
export function mailboxOf(call: Call): Mailbox {
  const resourceId = call.params.mailboxResourceId ?? '';
  const params = { mailboxResourceId: resourceId };
  const mailbox = call.service.store.mailboxes.get(resourceId);
  if (mailbox === undefined) {
    const status = call.operation.declared.includes(404) ? 404 : 403;
    throw new Refusal(status, 'ERR_MAILBOX_NOT_FOUND', 'The mailbox does not exist', params);
  }
  if (!coversMailbox(call.token, mailbox)) {
    throw new Refusal(403, 'ERR_FORBIDDEN', 'The token does not reach this mailbox', params);
  }
  if (call.service.standings.isSuspended(mailbox)) {
    throw new Refusal(403, 'ERR_MAILBOX_SUSPENDED', 'The mailbox is suspended', params);
  }
  return mailbox;
}

/** Returns a refusal with 404 if the API declares it, otherwise with 422. */
export function notFound(
  call: Call,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(call.operation.declared.includes(404) ? 404 : 422, code, message, params);
}

export function folderOf(call: Call): { readonly mailbox: Mailbox; readonly folder: Folder } {
  const mailbox = mailboxOf(call);
  const path = call.params.folder ?? '';
  const folder = findFolder(mailbox, path);
  if (folder === null) {
    throw notFound(call, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  }
  return { mailbox, folder };
}

/** Returns the folder named in a body. If the folder is missing, the body is invalid. */
export function targetFolderOf(mailbox: Mailbox, path: string): Folder {
  const folder = findFolder(mailbox, path);
  if (folder !== null) return folder;
  throw new Refusal(422, 'ERR_FOLDER_NOT_FOUND', 'The target folder does not exist', {
    folder: path,
  });
}

export function findFolder(mailbox: Mailbox, path: string): Folder | null {
  return mailbox.folders.get(canonicalPath(path)) ?? null;
}

/** @throws Refusal unless the uid is a positive integer */
export function uidOf(call: Call): number {
  return uidFrom(call.params.uid);
}

export function entryOf(call: Call): Entry {
  const { folder } = folderOf(call);
  const uid = uidOf(call);
  const entry = folder.get(uid);
  if (entry === null) throw messageNotFound(call, uid);
  return entry;
}

export function messageNotFound(call: Call, uid: number): Refusal {
  return notFound(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
}

/** @throws Refusal 422 that lists every problem by path */
export function bodyOf<T extends z.ZodType>(call: Call, schema: T): z.output<T> {
  return bodyFrom(call.body, schema);
}
