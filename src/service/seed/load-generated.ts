import type { Mailbox } from '../store/mailbox.ts';
import type { Store } from '../store/store.ts';

export interface GeneratedMail {
  readonly messages?: number;
}

export function loadGenerated(
  _store: Store,
  _mailboxes: readonly Mailbox[],
  _seed: number,
  _mail: GeneratedMail,
): void {}
