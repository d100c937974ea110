import type { ServiceState } from '../service-state.ts';
import type { Folder } from '../store/folder.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { MailboxFault } from './faults.ts';

/** Puts new mail into a folder, received now, and notifies webhooks. @returns its uid */
export function deliver(
  service: ServiceState,
  mailbox: Mailbox,
  folder: Folder,
  source: Buffer,
  flags: readonly string[] = [],
  received: number = service.now(),
): number {
  const uid = service.store.add(folder, source, received, flags);
  service.store.announce(mailbox, folder, uid);
  return uid;
}

/**
 * Changes a mailbox behind a client's back. A mailbox or folder that is not there is left alone.
 *
 * @param of what the request is about, for faults that name no place
 */
export function applyMailboxFault(
  service: ServiceState,
  fault: MailboxFault,
  of: { readonly mailbox: string | undefined; readonly folder?: string | undefined },
): void {
  const mailbox = findMailbox(service, fault.mailbox ?? of.mailbox ?? '');
  const folder = mailbox?.folders.get(fault.folder ?? of.folder ?? 'INBOX');
  if (mailbox === null || folder === undefined) return;
  const { store } = service;
  switch (fault.kind) {
    case 'arrive':
      for (let count = 0; count < fault.count; count += 1) {
        deliver(service, mailbox, folder, placeholderMail(mailbox, folder.nextUid, service.now()));
      }
      return;
    case 'move': {
      const target = store.folderFor(mailbox, fault.to);
      for (const uid of fault.uids ?? [folder.lastUid]) store.move(folder, uid, target);
      return;
    }
    case 'vanish':
      for (const uid of fault.uids ?? [folder.lastUid]) store.remove(folder, uid);
      return;
    case 'renumber':
      store.renumber(folder, fault.firstUid);
      return;
  }
}

/** A mailbox by resource id or address. */
export function findMailbox(service: ServiceState, name: string): Mailbox | null {
  return service.store.mailboxes.get(name) ?? service.store.mailboxByAddress(name);
}

function placeholderMail(mailbox: Mailbox, uid: number, nowMs: number): Buffer {
  return Buffer.from(
    [
      'From: Somebody <somebody@example.net>',
      `To: ${mailbox.address}`,
      `Subject: New mail ${uid}`,
      `Date: ${new Date(nowMs).toUTCString().replace('GMT', '+0000')}`,
      `Message-ID: <arrived.${uid}.${nowMs}@example.net>`,
      '',
      'This came while somebody was looking.',
      '',
    ].join('\r\n'),
  );
}
