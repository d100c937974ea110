import type { ServiceFacts } from '../errors/service.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

export const SERVICE_SENTENCES: Sentences<ServiceFacts> = {
  'sandbox-seed-unreadable': ({ path, reason }) =>
    say(`${path} cannot be loaded: ${reasonText(reason)}.`),
  'sandbox-source-changed': ({ path }) =>
    say(`${path} is no longer what it was when the sandbox loaded it.`, 'Start the sandbox again.'),
  'sandbox-cannot-listen': ({ host, port, reason }) =>
    say(
      `The sandbox cannot listen on ${host}:${port}: ${reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)}.`,
      'Take another port with --port N, or any free one with --port 0.',
    ),
  'sandbox-state-unusable': ({ file, reason }) =>
    say(
      `${file} is no state of this sandbox (${reason}).`,
      'Name another file with --state, or remove that one.',
    ),
};
