import type { QuarantineEntry } from '../../catalog/quarantine.ts';

/** What the options of a command line choose among what is in quarantine. */
export interface QuarantineChoice {
  /** Address or resource id. */
  readonly mailbox?: string;
  readonly folder?: string;
  readonly uid?: number;
}

export function isChosen(
  { address, mailbox, folder, uid }: QuarantineEntry,
  choice: QuarantineChoice,
): boolean {
  return (
    (choice.mailbox === undefined || choice.mailbox === address || choice.mailbox === mailbox) &&
    (choice.folder === undefined || choice.folder === folder) &&
    (choice.uid === undefined || choice.uid === uid)
  );
}
