import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { daemonStatus } from '../../src/daemon/ports.ts';
import { RunningDaemon } from '../daemon/running-daemon.ts';
import { writePrunable } from '../retention/prunable-archive.ts';
import type { Exercised } from './exercised.ts';
import type { Place } from './place.ts';

const withId = z.looseObject({ id: z.string() });

/** What the brake holds, what is let go, and what may be pruned and forgotten. */
export async function gone(done: Exercised, place: Place): Promise<void> {
  const { config, data, address, folder } = place;
  const account = ['--config', config];
  const mailbox = ['--param', `mailbox=${address}`, '--param', 'folder=INBOX'];
  await done.run({ of: 'api', as: 'deleteAllMessages', args: [...mailbox, '--yes', ...account] });
  await done.run({ of: 'sync', args: account, code: 4 });
  await done.run({ of: 'list', as: '--held', args: ['--data', data] });
  await done.run({ of: 'status', args: ['--data', data] });
  await done.run({ of: 'sync', args: ['--accept-endings', ...account] });
  // A sync reads the attachments of what was imported, too.
  const [found] = await done.run({ of: 'search', args: ['height', '--data', data] });
  if (found === undefined) throw new Error('the text of an attachment is not found');
  const [line] = await done.run({ of: 'list', as: '--deleted', args: ['--data', data] });
  await done.run({ of: 'history', args: [withId.parse(line).id, '--data', data] });
  await done.run({ of: 'prune', args: account });
  await done.run({ of: 'forget', args: [withId.parse(line).id, '--yes', '--data', data] });
  await done.run({ of: 'status', args: ['--data', data] });

  const old = path.join(folder, 'old');
  mkdirSync(old, { mode: 0o700 });
  await writePrunable(old);
  await done.run({ of: 'prune', args: [...account, '--data', old] });
  await done.run({ of: 'prune', as: '--apply', args: [...account, '--data', old] });
}

export async function hooked(done: Exercised, place: Place): Promise<void> {
  const { config, address, receiver, sandbox } = place;
  const account = ['--config', config];
  const made = ['--mailbox', address, '--url', receiver.url, ...account];
  const [created] = await done.run({ of: 'webhooks create', args: made });
  const { id } = withId.parse(created);
  await done.run({ of: 'webhooks list', args: account });
  await done.run({ of: 'webhooks pause', args: [id, ...account] });
  await done.run({ of: 'webhooks ensure', args: ['--url', receiver.url, ...account] });
  await done.run({ of: 'webhooks ensure', args: ['--url', receiver.url, ...account] });
  await done.run({ of: 'webhooks test', args: [id, ...account] });
  const [mailbox] = sandbox.service.store.mailboxes.values();
  if (mailbox === undefined) throw new Error('no mailbox');
  await sandbox.service.deliveries.idle();
  await done.run({ of: 'webhooks log', args: account });
  await done.run({ of: 'webhooks pause', args: [id, ...account] });
  await done.run({ of: 'webhooks resume', args: [id, ...account] });
  await done.run({ of: 'doctor', args: account });
  await done.run({ of: 'webhooks delete', args: ['--mailbox', address, '--yes', ...account] });
}

/** Operations of the service, whose answers are shown as they come. */
export async function called(done: Exercised, place: Place): Promise<void> {
  const { config, address, folder } = place;
  const account = ['--config', config];
  const inbox = ['--param', `mailbox=${address}`, '--param', 'folder=INBOX'];
  await done.run({ of: 'api', as: '--list' });
  for (const operation of ['listMessages', 'sendEmail', 'platform.listMailboxes']) {
    await done.run({ of: 'api', as: '--describe', args: [operation] });
  }
  const mailbox = ['--param', `mailbox=${address}`];
  await done.run({ of: 'api', as: 'getCurrentAccount', args: account });
  await done.run({ of: 'api', as: 'getQuota', args: [...mailbox, ...account] });
  await done.run({ of: 'api', as: 'listFolders', args: [...mailbox, ...account] });
  const [page] = await done.run({ of: 'api', as: 'listMessages', args: [...inbox, ...account] });
  const { data } = z.object({ data: z.array(z.object({ uid: z.int() })) }).parse(page);
  const message = [...inbox, '--param', `uid=${data[0]?.uid}`];
  await done.run({ of: 'api', as: 'getMessage', args: [...message, ...account] });
  await done.run({ of: 'api', as: 'getMessageText', args: [...message, ...account] });
  const saved = ['--output', path.join(folder, 'message.eml')];
  await done.run({ of: 'api', as: 'getMessageSource', args: [...message, ...saved, ...account] });
}

/** What a daemon logs and answers, and what commands print while it runs. */
export async function served(done: Exercised, place: Place): Promise<void> {
  const { config, data } = place;
  const daemon = new RunningDaemon(place);
  try {
    await daemon.run('sync');
    const [status] = await done.run({ of: 'status', args: ['--data', data] });
    const { daemon: shown } = z.object({ daemon: z.unknown() }).parse(status);
    if (!isDeepStrictEqual(daemonStatus.parse(shown), shown)) {
      throw new Error('status shows more of a daemon than its answer has');
    }
    await done.run({ of: 'sync', args: ['--config', config] });
  } finally {
    await daemon.end();
  }
  // Others depend on how fast the machine is.
  const finished = daemon.lines.filter(({ msg }) => msg === 'run finished');
  done.note('daemon', '(log: run finished)', finished);
}

/** What needs no archive, and how errors and warnings are told. */
export async function others(done: Exercised, place: Place): Promise<void> {
  const { folder, config, data, sandbox } = place;
  const root = mkdtempSync(path.join(tmpdir(), 'mailkeep-root-'));
  const units = ['--system', '--root', root];
  await done.run({ of: 'daemon install', as: '--dry-run', args: units });
  await done.run({ of: 'daemon install', args: units });
  const notifying = path.join(folder, 'notifying.json');
  const { accounts } = JSON.parse(readFileSync(config, 'utf8'));
  writeFileSync(notifying, JSON.stringify({ accounts, notify: { command: 'true' } }));
  await done.run({ of: 'notify test', args: ['--config', notifying] });
  const start = path.join(folder, 'start');
  mkdirSync(start);
  await done.run({
    of: 'init',
    args: ['--base-url', sandbox.mailboxUrl, '--yes'],
    stdin: sandbox.tokens.mailbox,
    cwd: start,
  });
  // It prints where it listens before it waits for the end, which has come.
  await done.run({ of: 'sandbox', signal: AbortSignal.abort() });
  const web = ['--data', data, '--listen', '127.0.0.1:0'];
  await done.run({ of: 'web', args: web, signal: AbortSignal.abort() });
  await done.errors('of an error', ['show', 'ffffffffffff', '--data', data]);
  await done.errors('of an error', ['list', '--nonsense']);
  await done.errors('of sync --log', ['sync', '--log', '--config', config]);
}
