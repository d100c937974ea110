import { bytes } from '../amounts.ts';
import { type Sentences, say } from './sentence.ts';

/** What a pass itself finds wrong, with the facts of each code. */
interface SyncFacts {
  readonly 'sync.interrupted': Readonly<Record<string, never>>;
  readonly 'sync.inconsistent-page': {
    readonly folder: string;
    readonly items: number;
    readonly total: number;
  };
  readonly 'sync.marks-seen': { readonly host: string };
  readonly 'disk.low': { readonly free: number; readonly minFreeBytes: number };
}

export const SYNC_SENTENCES: Sentences<SyncFacts> = {
  'sync.interrupted': () =>
    say('Interrupted. What was fetched is safe.', 'The next sync goes on where this one stopped.'),
  'sync.inconsistent-page': ({ folder, items, total }) =>
    say(
      `The service says that ${folder} has ${total} messages, but a page of it shows ${items}.`,
      'Nothing was concluded from it; the next sync asks again.',
    ),
  'sync.marks-seen': ({ host }) =>
    say(
      `Reading a message from ${host} marked it as read there; fetching was stopped.`,
      'A backup must not change your mail. Ask the service about it before you go on.',
    ),
  'disk.low': ({ free, minFreeBytes }) =>
    say(
      `Only ${bytes(free)} are free where the archive is, and the configuration keeps ${bytes(minFreeBytes)} free (minFreeBytes).`,
      'Make room and run the command again; it goes on where it stopped.',
    ),
};
