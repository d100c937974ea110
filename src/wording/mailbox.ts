import type { MailboxErrorFacts } from '../errors/mailbox.ts';
import { type Sentences, say } from './sentence.ts';

/** What a quota counts, by the service's name of it. */
const COUNTED: Readonly<Record<string, string>> = { STORAGE: 'storage', MESSAGE: 'messages' };

export const MAILBOX_SENTENCES: Sentences<MailboxErrorFacts> = {
  'mailbox-nearly-full': ({ address, quota, percent }) =>
    say(
      `Mailbox ${address} is ${percent}% full (${COUNTED[quota] ?? quota}).`,
      'A full mailbox may refuse new mail. Delete mail at the service, which stays in the archive, or raise the quota.',
    ),
};
