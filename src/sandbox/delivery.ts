import type { ServiceState } from './service-state.ts';
import type { Folder } from './store/folder.ts';
import type { Mailbox } from './store/mailbox.ts';

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
