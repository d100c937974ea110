import type { ListenFacts } from '../errors/config.ts';
import type {
  DaemonFacts,
  ServiceFacts,
  ServiceUnitsFacts,
  WebFacts,
  WebhookFacts,
} from '../errors/small-families.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const LISTEN_SENTENCES: Sentences<ListenFacts> = {
  'cannot-listen': ({ section, host, port, reason }) =>
    say(
      `The daemon cannot listen on ${host}:${port} (${section}.listen): ${
        reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)
      }.`,
      `Set another port in ${section}.listen; 0 selects a free one.`,
    ),
};

export const SERVICE_SENTENCES: Sentences<ServiceFacts> = {
  'sandbox-seed-unreadable': ({ path, reason }) =>
    say(`${path} cannot be loaded: ${reasonText(reason)}.`),
  'sandbox-source-changed': ({ path }) =>
    say(`${path} was changed after the sandbox loaded it.`, 'Start the sandbox again.'),
  'sandbox-cannot-listen': ({ host, port, reason }) =>
    say(
      `The sandbox cannot listen on ${host}:${port}: ${reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)}.`,
      'Choose another port with --port N, or any free one with --port 0.',
    ),
  'sandbox-state-unusable': ({ file, reason }) =>
    say(
      `${file} is not a state file of this sandbox (${reason}).`,
      'Name another file with --state, or remove that one.',
    ),
};

export const SERVICE_UNITS_SENTENCES: Sentences<ServiceUnitsFacts> = {
  'service-units-differ': ({ files }) =>
    say(
      `Files with other content exist already: ${some(files, 6)}. Nothing was written.`,
      'Your own changes belong in a drop-in ("systemctl edit mailkeep"); --force replaces the files.',
    ),
  'service-units-path': ({ path }) =>
    say(
      `${JSON.stringify(path)} contains a line break or another control character, which no unit can name.`,
      'Rename the file or folder, or name another with --config or --data.',
    ),
  'service-units-unwritable': ({ file, reason }) =>
    say(
      `${file} cannot be written: ${reasonText(reason)}.`,
      'The system\'s units need root: "sudo mailkeep service install --system". --user needs no special rights.',
    ),
};

export const WEBHOOK_SENTENCES: Sentences<WebhookFacts> = {
  'webhook-unknown': ({ id, where }) =>
    say(
      `There is no webhook whose id begins with "${id}" in ${where}.`,
      '"mailkeep webhooks list" shows them with their ids; at least 4 characters are needed.',
    ),
  'webhook-ambiguous': ({ id, candidates }) =>
    say(`Several ids begin with ${id}: ${some(candidates, 6)}.`, 'Type a few more characters.'),
  'webhook-secrets-unwritable': ({ file, reason }) =>
    say(
      `The secret of a webhook could not be stored in ${file}: ${reasonText(reason)}. No webhook was created.`,
      'Check the disk and the permissions, or name another folder with --data DIR.',
    ),
  'webhook-secret-lost': ({ id, file, reason, deleted }) =>
    say(
      `The secret of webhook ${id} could not be written to ${file}: ${reasonText(reason)}. ${
        deleted ? 'The webhook was deleted.' : 'The webhook still exists, and its secret is lost.'
      }`,
      deleted
        ? 'Check the disk, then create it again.'
        : `"mailkeep webhooks delete ${id}" removes it.`,
    ),
  'webhook-secret-unreadable': ({ file, reason }) =>
    say(
      `${file} does not contain a valid webhook secret: ${reasonText(reason)}.`,
      'Delete that webhook and create it again.',
    ),
  'webhook-missing': ({ id }) =>
    say(
      `The service no longer has webhook ${id}: only scheduled syncs find new mail.`,
      '"mailkeep webhooks ensure" creates it again.',
    ),
  'webhook-off': ({ id, status }) =>
    say(
      `Webhook ${id} is ${status} at the service: only scheduled syncs find new mail.`,
      `"mailkeep webhooks resume ${id}" or "mailkeep webhooks ensure" makes it deliver again.`,
    ),
  'webhook-failing': ({ id, failures }) =>
    say(
      `The last ${failures === 1 ? 'delivery' : `${failures} deliveries`} of webhook ${id} failed: only scheduled syncs find new mail.`,
      `"mailkeep webhooks test ${id}" shows why.`,
    ),
};

export const WEB_SENTENCES: Sentences<WebFacts> = {
  'web-not-running': ({ dataDir }) =>
    say(
      `No web interface of ${dataDir} is running.`,
      'Start one with "mailkeep web", which prints a sign-in link, or add "web": {} to the configuration of the daemon and restart it.',
    ),
  'web-not-loopback': ({ host }) =>
    say(
      `The web interface does not listen on ${host}, which other machines can reach, without HTTPS in front of it.`,
      'Listen on 127.0.0.1, or name the https address of your reverse proxy as web.publicUrl in the configuration.',
    ),
  'web-cannot-listen': ({ host, port, reason }) =>
    say(
      `The web interface cannot listen on ${host}:${port}: ${reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)}.`,
      'Choose another address with --listen; port 0 selects a free one.',
    ),
  'token-unknown': ({ token }) =>
    say(
      `There is no token "${token}".`,
      '"mailkeep token list" shows the tokens with their ids and names.',
    ),
  'token-unwritable': ({ dataDir }) =>
    say(
      `Tokens cannot be stored in ${dataDir}: state.sqlite cannot be written.`,
      'Check the permissions of the folder, and whether the disk is full or mounted read-only.',
    ),
};

export const DAEMON_SENTENCES: Sentences<DaemonFacts> = {
  'daemon-stopped': () =>
    say(
      'The daemon stopped before the pass was finished. What was fetched is safe.',
      'Run the command again: it continues where this one stopped, with or without the daemon.',
    ),
  'daemon-failed': () =>
    say('An internal error of the daemon ended this pass.', 'Its log shows what happened.'),
  'daemon-version': ({ found, own }) =>
    say(
      `The archive is in use by a daemon of another version (${found === '' ? 'unknown' : found}; this is ${own}).`,
      'Restart the daemon and run the command again.',
    ),
  'daemon-answer': () =>
    say(
      'The daemon sent an unreadable answer over its control socket.',
      'Restart the daemon and run the command again.',
    ),
  'daemon-socket-foreign': ({ file }) =>
    say(
      `${file} does not point to a control socket in a private folder that you own.`,
      'Run the command as the user of the daemon. If no daemon uses the archive, remove that file.',
    ),
  'daemon-socket-failed': ({ file, reason }) =>
    say(
      `The control socket ${file} cannot be created: ${reasonText(reason)}.`,
      'Check what is at this path, and whether this user may write there.',
    ),
  'daemon-socket-folder': ({ folder }) =>
    say(
      `The path of the archive is too long for a control socket, and you do not own the folder ${folder}.`,
      'Set XDG_RUNTIME_DIR to a private folder with a short path, or move the archive.',
    ),
};
