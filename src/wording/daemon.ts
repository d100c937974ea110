import type { DaemonFacts } from '../errors/daemon.ts';
import { type Sentences, say } from './sentence.ts';

export const DAEMON_SENTENCES: Sentences<DaemonFacts> = {
  'daemon-stopped': () =>
    say(
      'The daemon ended before the pass was over. What was fetched is safe.',
      'Run the command again: it goes on where this one stopped, with the daemon or without it.',
    ),
  'daemon-failed': () =>
    say('The daemon met a mistake of its own in this pass.', 'Its log says what happened.'),
  'daemon-version': ({ found, own }) =>
    say(
      `The archive is in use by a daemon of another version (${found === '' ? 'unknown' : found}; this is ${own}).`,
      'Restart the daemon, and run the command again.',
    ),
  'daemon-answer': () =>
    say(
      'What answers at the control socket of the archive says nothing that can be read.',
      'Restart the daemon, and run the command again.',
    ),
  'daemon-socket-foreign': ({ file }) =>
    say(
      `${file} does not lead to a control socket in a private folder of your own.`,
      'Where no daemon of yours has the archive, remove that file; else run the command as the user of the daemon.',
    ),
  'daemon-socket-folder': ({ folder }) =>
    say(
      `The path of the archive is too long for a control socket in it, and ${folder} is not a folder of your own.`,
      'Set XDG_RUNTIME_DIR to a private folder with a short path, or move the archive.',
    ),
};
