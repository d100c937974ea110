import type { OriginFolder, OriginPlace } from '../catalog/origin-places.ts';
import type { MessageId } from '../mail/words.ts';
import { spelledPath, uidFrom } from '../mailbox-surface/parameters.ts';
import { Refusal } from '../mailbox-surface/refusal.ts';
import type { FolderUids, MirrorEntry } from './folder-uids.ts';
import type { MirrorCall } from './mirror-call.ts';
import type { MirroredMailbox } from './mirrored-mailboxes.ts';

/** A folder of a mailbox, with its messages. */
export interface InFolder {
  readonly mailbox: MirroredMailbox;
  readonly folder: OriginFolder;
  readonly uids: FolderUids;
}

/** The mailbox of the path. One that is not there and one that the token does not reach are the same. */
export function mailboxOf(call: MirrorCall): MirroredMailbox {
  const { mailboxResourceId = '' } = call.params;
  const mailbox = call.mailboxes.find(({ resourceId }) => resourceId === mailboxResourceId);
  if (mailbox !== undefined) return mailbox;
  const status = call.operation.errors.includes(404) ? 404 : 403;
  const params = { mailboxResourceId };
  throw new Refusal(status, 'ERR_MAILBOX_NOT_FOUND', 'The mailbox does not exist', params);
}

export function folderOf(call: MirrorCall): InFolder {
  const mailbox = mailboxOf(call);
  const { folder: path = '' } = call.params;
  const folder = call.view.folder(mailbox, spelledPath(path), call.moment);
  if (folder === undefined)
    throw missing(call, 'ERR_FOLDER_NOT_FOUND', 'The folder does not exist', { folder: path });
  return { mailbox, folder, uids: call.view.uids(folder, call.moment) };
}

export function messageOf(call: MirrorCall): InFolder & { readonly entry: MirrorEntry } {
  const at = folderOf(call);
  const uid = uidFrom(call.params.uid);
  const entry = at.uids.get(uid);
  if (entry === undefined) throw messageMissing(call, uid);
  return { ...at, entry };
}

/** A message whose source is here. @throws Refusal 502 for one in quarantine */
export function storedOf(
  call: MirrorCall,
): ReturnType<typeof messageOf> & { readonly id: MessageId; readonly place: OriginPlace } {
  const message = messageOf(call);
  const { uid } = message.entry;
  const place = call.view.place(message.folder, message.entry);
  if (place === undefined) throw messageMissing(call, uid);
  const { id } = place;
  if (id === null)
    throw new Refusal(
      502,
      'ERR_QUARANTINED',
      'The source of this message could not be fetched whole, and is not in the archive',
      { uid },
    );
  return { ...message, id, place };
}

export function messageMissing(call: MirrorCall, uid: number): Refusal {
  return missing(call, 'ERR_MESSAGE_NOT_FOUND', 'The message does not exist', { uid });
}

/** What is not there: 404 where the operation declares it, else 422. */
export function missing(
  { operation }: MirrorCall,
  code: string,
  message: string,
  params: Readonly<Record<string, unknown>>,
): Refusal {
  return new Refusal(operation.errors.includes(404) ? 404 : 422, code, message, params);
}
