import type {
  DaemonFacts,
  ListenFacts,
  ServiceFacts,
  ServiceUnitsFacts,
  WebhookFacts,
} from '../errors/daemon.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const LISTEN_SENTENCES: Sentences<ListenFacts> = {
  'cannot-listen': ({ section, host, port, reason }) =>
    say(
      `${host}:${port} of ${section}.listen cannot be listened on: ${
        reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)
      }.`,
      `Take another port in ${section}.listen; 0 stands for any free one.`,
    ),
};

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

export const SERVICE_UNITS_SENTENCES: Sentences<ServiceUnitsFacts> = {
  'service-units-differ': ({ files }) =>
    say(
      `Other files are there already: ${some(files, 6)}. Nothing was written.`,
      'Your own changes belong in a drop-in ("systemctl edit mailkeep"); --force replaces the files.',
    ),
  'service-units-path': ({ path }) =>
    say(
      `${JSON.stringify(path)} has a new line or another control character in it, and no unit can name it.`,
      'Rename the file or folder, or name another with --config or --data.',
    ),
  'service-units-unwritable': ({ file, reason }) =>
    say(
      `${file} cannot be written: ${reasonText(reason)}.`,
      'The system\'s units need root: "sudo mailkeep service install --system". --user needs no rights.',
    ),
};

export const WEBHOOK_SENTENCES: Sentences<WebhookFacts> = {
  'webhook-unknown': ({ id, where }) =>
    say(
      `There is no webhook whose id begins with "${id}" in ${where}.`,
      '"mailkeep webhooks list" shows them with their ids; at least 4 characters are needed.',
    ),
  'webhook-ambiguous': ({ id, candidates }) =>
    say(
      `${id} is the beginning of several ids: ${some(candidates, 6)}.`,
      'Type a few more characters.',
    ),
  'webhook-secrets-unwritable': ({ file, reason }) =>
    say(
      `The secret of a webhook could not be kept in ${file}: ${reasonText(reason)}. No webhook was created.`,
      'Look at the disk and its permissions, or name another folder with --data DIR.',
    ),
  'webhook-secret-lost': ({ id, file, reason, deleted }) =>
    say(
      `The secret of webhook ${id} could not be written to ${file}: ${reasonText(reason)}. ${
        deleted
          ? 'The webhook was deleted again.'
          : 'The webhook is there all the same, and nobody knows its secret.'
      }`,
      deleted
        ? 'Look at the disk, then create it again.'
        : `"mailkeep webhooks delete ${id}" removes it.`,
    ),
  'webhook-secret-unreadable': ({ file, reason }) =>
    say(
      `${file} does not hold the secret of a webhook as it should: ${reasonText(reason)}.`,
      'Delete that webhook, and create it again.',
    ),
  'webhook-missing': ({ id }) =>
    say(
      `The service does not know webhook ${id} any more: new mail is found by the schedule only.`,
      '"mailkeep webhooks ensure" creates it again.',
    ),
  'webhook-off': ({ id, status }) =>
    say(
      `Webhook ${id} is ${status} at the service: new mail is found by the schedule only.`,
      `"mailkeep webhooks resume ${id}" or "mailkeep webhooks ensure" makes it deliver again.`,
    ),
  'webhook-failing': ({ id, failures }) =>
    say(
      `The last ${failures === 1 ? 'delivery' : `${failures} deliveries`} of webhook ${id} failed: new mail is found by the schedule only.`,
      `"mailkeep webhooks test ${id}" says why.`,
    ),
};

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
