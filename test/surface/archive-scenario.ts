import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { RECORD_HEADER_BYTES, RECORD_KIND } from '../../src/archive/format.ts';
import { writePrunable } from '../retention/prunable-archive.ts';
import type { Exercised } from './exercised.ts';
import { LETTERS } from './letters.ts';
import type { Place } from './place.ts';

/** Of an identity that nobody has. */
const RECIPIENT = 'age1qdtjc2cgqs3qsauar2pe44kzgxy0x9rvkc0h5dmjf4jdf5j84psqkpkuw9';

const withId = z.looseObject({ id: z.string() });

/** First syncs: planned, with a message that cannot be fetched, complete, and with nothing new. */
export async function synced(done: Exercised, { sandbox, config, data }: Place): Promise<void> {
  const account = ['--config', config];
  await done.run({ of: 'config check', args: account });
  await done.run({ of: 'config show', args: account });
  await done.run({ of: 'doctor', args: account });
  await done.run({ of: 'sync', as: '--dry-run', args: account });
  // All of them: one that is refused once may come at a second attempt of the same sync.
  sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource' });
  await done.run({ of: 'sync', args: account, code: 1 });
  await done.run({ of: 'quarantine', args: ['--data', data] });
  await done.run({ of: 'quarantine', as: 'ack', args: ['--all', '--data', data] });
  await done.run({ of: 'quarantine', args: ['--data', data] });
  sandbox.clearFaults();
  await done.run({ of: 'sync', args: account });
  await done.run({ of: 'sync', args: account });
  await done.run({ of: 'status', args: ['--data', data] });
  await done.run({ of: 'status', args: ['--data', data, '--max-age', '1h'] });
}

/** Brings letters in whose headers, parts and attachments are of every kind. */
export async function imported(done: Exercised, { folder, data }: Place): Promise<void> {
  const mail = path.join(folder, 'mail');
  mkdirSync(path.join(mail, 'Letters'), { recursive: true });
  for (const [name, text] of Object.entries(LETTERS)) {
    writeFileSync(path.join(mail, 'Letters', `${name}.eml`), text.replaceAll('\n', '\r\n'));
  }
  await done.run({ of: 'import', args: [mail, '--data', data] });
  writeFileSync(path.join(mail, 'broken.mbox'), 'no mbox\nFrom a@example.org\n\nx\n');
  await done.run({ of: 'import', args: [mail, '--data', data], code: 1 });
}

export async function read(done: Exercised, { folder, data }: Place): Promise<void> {
  const at = ['--data', data];
  const listed = await done.run({ of: 'list', args: at });
  await done.run({ of: 'list', args: [...at, '--as-of', '2000-01-01'] });
  await done.run({ of: 'search', args: ['has:attachment', '-n', '1000', ...at] });
  await done.run({ of: 'search', args: ['is:unread', '-n', '1000', ...at] });
  await done.run({ of: 'search', args: ['lighthouse', '--sort', 'relevance', ...at] });
  await done.run({ of: 'search', args: ['filename:table.csv', ...at] });
  await done.run({ of: 'search', as: '--count', args: ['lighthouse', ...at] });
  await done.run({ of: 'stats', args: at });
  for (const by of ['year', 'mailbox', 'type', 'from'])
    await done.run({ of: 'stats', as: `--by ${by}`, args: at });
  await done.run({ of: 'stats', as: '--largest', args: at });
  await done.run({ of: 'stats', as: '--duplicates', args: at });
  const query = ['(from:anna OR subject:lighthouse) -in:INBOX after:2001 "blue light"', ...at];
  await done.run({ of: 'search', as: '--explain', args: query });
  await done.run({ of: 'search', as: '--save', args: ['light', 'lighthouse', ...at] });
  await done.run({ of: 'search', as: '--saved', args: at });
  await done.run({ of: 'search', as: '--forget', args: ['light', ...at] });
  const generated = listed.map((line) => withId.parse(line).id).slice(0, 8);
  for (const id of new Set(generated)) await done.run({ of: 'show', args: [id, ...at] });
  const letters = await done.run({ of: 'search', args: ['mailbox:imported', '-n', '100', ...at] });
  for (const line of letters) {
    const { id } = withId.parse(line);
    await done.run({ of: 'show', args: [id, ...at] });
    await done.run({ of: 'attachments', args: [id, ...at] });
    await done.run({ of: 'show', as: '--headers', args: [id, ...at] });
    await done.run({ of: 'show', as: '--html', args: [id, ...at] });
    await done.run({ of: 'show', as: '--thread', args: [id, ...at] });
    await done.run({ of: 'history', args: [id, ...at] });
    const to = path.join(folder, 'saved', id);
    await done.run({ of: 'attachments', as: '--save', args: [to, id, ...at] });
  }
}
/** Tokens of the API over the archive. */
export async function opened(done: Exercised, { data }: Place): Promise<void> {
  const at = ['--data', data];
  const named = ['--name', 'laptop', '--expires', '90d'];
  await done.run({ of: 'token create', args: [...named, ...at] });
  await done.run({ of: 'token list', args: at });
  await done.run({ of: 'token revoke', args: ['laptop', ...at] });
}

export async function verified(done: Exercised, { folder, config, data }: Place): Promise<void> {
  const at = ['--data', data];
  const inFolder = (name: string) => path.join(folder, name);
  await done.run({ of: 'verify', args: at });
  await done.run({ of: 'verify', as: '--quick', args: at });
  await done.run({ of: 'verify', as: '--sample', args: ['5', ...at] });
  await done.run({ of: 'verify', as: '--drill', args: ['3', ...at] });
  await done.run({ of: 'verify', as: '--origin', args: ['--config', config] });
  await done.run({ of: 'checkpoint', args: ['--to', inFolder('checkpoint.json'), ...at] });
  const checkpoint = [inFolder('checkpoint.json'), ...at];
  await done.run({ of: 'verify', as: '--checkpoint', args: checkpoint });
  await done.run({ of: 'copy', args: ['--to', inFolder('copy'), ...at] });
  await done.run({ of: 'copy drop', args: ['--to', inFolder('copy'), ...at] });
  await done.run({ of: 'copy', as: '--rebuild', args: ['--to', inFolder('copy'), ...at] });
  const sealed = ['--to', inFolder('sealed')];
  const recovery = ['--recovery-key-file', inFolder('recovery-key.txt')];
  await done.run({ of: 'copy init', args: [...sealed, ...recovery, ...at] });
  await done.run({ of: 'copy', args: [...sealed, ...at] });
  await done.run({ of: 'verify', as: '--copy', args: [inFolder('sealed'), ...at] });
  await done.run({ of: 'verify', as: '--copy', args: [inFolder('copy'), '--sample', '1', ...at] });
  await done.run({ of: 'status', args: at });
  const from = [inFolder('sealed'), '--to', inFolder('back'), ...recovery];
  await done.run({ of: 'copy', as: '--from', args: from });
  const phrase = ['--passphrase-file', inFolder('phrase.txt')];
  writeFileSync(inFolder('phrase.txt'), 'correct horse\n');
  const key = [...sealed, ...at];
  await done.run({
    of: 'copy key add',
    args: [...key, ...phrase, '--label', 'Anna', '--age', RECIPIENT],
  });
  await done.run({ of: 'copy key list', args: key });
  const keys = path.join(inFolder('sealed'), 'keys');
  const [id = ''] = readdirSync(keys).filter((name) =>
    readFileSync(path.join(keys, name), 'utf8').includes('"type":"passphrase"'),
  );
  await done.run({ of: 'copy key remove', args: [id, ...key] });
  const rotated = ['--recovery-key-file', inFolder('rotated-key.txt'), '--reencrypt'];
  await done.run({ of: 'copy key rotate', args: [...key, ...rotated] });
  const back = ['--data', inFolder('back')];
  const newest = rotated.slice(0, 2);
  await done.run({ of: 'copy adopt', args: [...sealed, ...newest, ...back] });
  const eml = ['--to', inFolder('eml'), '--format', 'eml', '--sidecar', ...at];
  await done.run({ of: 'export', args: eml });
  await done.run({ of: 'export', args: [...eml, '--incremental'] });
  const zip = ['--to', inFolder('mail.zip'), '--format', 'zip', ...at];
  await done.run({ of: 'export', args: zip });
  await done.run({ of: 'verify', as: '--export', args: [inFolder('eml')] });
  await done.run({ of: 'import', args: [inFolder('mail.zip'), '--mailbox', 'again', ...at] });
  const [changed = ''] = readdirSync(inFolder('eml'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.eml'),
  );
  writeFileSync(path.join(inFolder('eml'), changed), 'changed');
  await done.run({ of: 'verify', as: '--export', args: [inFolder('eml')], code: 3 });
  await done.run({ of: 'rebuild', args: at });
  await done.run({ of: 'compact', as: '--dry-run', args: at });
  await done.run({ of: 'compact', args: at });
}

/** An archive with a damaged message and a damaged fact, found and mended from a copy. */
export async function damaged(done: Exercised, { folder, config }: Place): Promise<void> {
  const sound = path.join(folder, 'sound');
  const sick = path.join(folder, 'sick');
  mkdirSync(sound, { mode: 0o700 });
  await writePrunable(sound);
  cpSync(sound, sick, { recursive: true });
  const [name = ''] = readdirSync(path.join(sick, 'log'));
  const file = path.join(sick, 'log', name);
  const bytes = readFileSync(file);
  const ofKind = (kind: number) => recordsIn(bytes).filter((at) => bytes[at + 4] === kind);
  for (const at of [ofKind(RECORD_KIND.message)[1], ofKind(RECORD_KIND.fact)[3]]) {
    if (at === undefined) throw new Error('the log has too few records');
    bytes.fill(0, at + RECORD_HEADER_BYTES, at + RECORD_HEADER_BYTES + 8);
  }
  writeFileSync(file, bytes);
  const at = ['--data', sick];
  await done.run({ of: 'verify', args: at, code: 3 });
  await done.run({ of: 'status', args: at, code: 3 });
  await done.run({ of: 'doctor', args: [...at, '--config', config], code: 3 });
  await done.run({ of: 'verify', as: '--repair', args: ['--from', sound, ...at] });
}

/** Offsets of the records of a segment, by the mark that their headers begin with. */
function recordsIn(segment: Buffer): number[] {
  const mark = Buffer.from('894d4b52', 'hex');
  const found: number[] = [];
  for (let at = segment.indexOf(mark); at >= 0; at = segment.indexOf(mark, at + 1)) found.push(at);
  return found;
}
