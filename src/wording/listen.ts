import type { ListenFacts } from '../errors/listen.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

export const LISTEN_SENTENCES: Sentences<ListenFacts> = {
  'cannot-listen': ({ section, host, port, reason }) =>
    say(
      `${host}:${port} of ${section}.listen cannot be listened on: ${
        reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)
      }.`,
      `Take another port in ${section}.listen; 0 stands for any free one.`,
    ),
};
