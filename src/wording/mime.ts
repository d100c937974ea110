import type * as indexerErrors from '../errors/indexer.ts';
import type * as errors from '../errors/mime.ts';
import type * as threadErrors from '../errors/threads.ts';
import { type FactsOfModule, type Sentences, say } from './sentence.ts';

export const MIME_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'extractor-closed': () => say('The message reader is already closed.'),
  'mime-worker-failed': ({ worker, detail }) =>
    say(
      `The thread that reads messages cannot start (${worker}): ${detail}.`,
      'The installation is broken: reinstall mailkeep.',
    ),
  'mail-unreadable': ({ reason }) =>
    say(
      `The message cannot be read as mail (${reason}).`,
      'Its exact source is safe: "mailkeep show --raw ID".',
    ),
};

export const THREAD_SENTENCES: Sentences<FactsOfModule<typeof threadErrors>> = {
  'thread-ended': ({ thread, file, reason, started, detail }) => {
    if (reason === 'closed')
      return say(`The thread ${thread} was stopped before its work was done.`);
    if (!started) {
      return say(
        `The thread ${thread} cannot start (${file}): ${detail}.`,
        'The installation is broken: reinstall mailkeep.',
      );
    }
    const ends = {
      memory: 'ran out of memory',
      timeout: 'did not finish its work in time',
      thrown: `failed: ${detail}`,
      exited: `ended unexpectedly (${detail})`,
    };
    return say(
      `The thread ${thread} ${ends[reason]}.`,
      'This is a bug in mailkeep. Please report it with the command line.',
    );
  },
};

export const INDEXER_SENTENCES: Sentences<FactsOfModule<typeof indexerErrors>> = {
  'rebuild-interrupted': () =>
    say('Interrupted. The catalog is as it was before.', 'Run "mailkeep rebuild" again.'),
};
