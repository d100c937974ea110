import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { run } from '../../src/cli/run.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, screen } from './child.ts';

let sandbox: Sandbox;
let large: Sandbox;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 3, mail: { messages: 20 } });
  large = await startSandbox({ seed: 3, mail: { messages: 1_200 } });
});
afterAll(async () => {
  await sandbox.close();
  await large.close();
});

/**
 * Runs init on a terminal where somebody gives these answers, one at each question: a question ends in ": ",
 * `[Y/n] ` included.
 */
async function asked(answers: readonly string[], args: readonly string[] = []) {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-init-'));
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const waiting = [...answers];
  let shown = '';
  const stderr = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const text = chunk.toString('utf8');
      shown += text;
      // The prompt comes in one piece, whatever the terminal makes of the rest.
      if (/: $|\[Y\/n\] $/.test(stripVTControlCharacters(text))) {
        const answer = waiting.shift();
        setImmediate(() => (answer === undefined ? stdin.end() : stdin.write(`${answer}\n`)));
      }
      done();
    },
  });
  const stdout = screen();
  const code = await run(['init', ...args], COMMANDS, {
    stdin: () => stdin,
    stdout: stdout.stream,
    stderr: Object.assign(stderr, { isTTY: true, columns: 200 }),
    env: { TERM: 'dumb' },
    cwd: folder,
    signal: new AbortController().signal,
    now: Date.now,
  });
  const config = path.join(folder, 'config.json');
  const written: unknown = existsSync(config) ? JSON.parse(readFileSync(config, 'utf8')) : null;
  return { code, folder, shown, stdout: stdout.text(), written, left: waiting };
}

const occurrences = (text: string, part: string) => text.split(part).length - 1;

test('asks again after a mistake in the address or the token, and tries the token before it asks for more', async () => {
  const host = new URL(sandbox.mailboxUrl).host;
  const { code, shown, written, left, folder } = await asked([
    host,
    'ftp://somewhere',
    'http://127.0.0.1:1',
    'wrong-token',
    sandbox.mailboxUrl,
    '',
    sandbox.tokens.mailbox,
    '',
    'y',
  ]);
  expect([code, left]).toEqual([0, []]);
  expect(shown).toContain('For a mailbox on an IMAP server: mailkeep init --imap ADDRESS\n');
  expect(shown).toContain(`"${host}" is not a valid URL.`);
  // The address that was meant is offered.
  expect(shown).toContain(`Address of the mail service [http://${host}]: `);
  expect(shown).toContain('begins with neither https:// nor http://');
  expect(shown).toContain('cannot be reached: connection refused');
  expect(shown).toContain('refused the token');
  expect(occurrences(shown, 'Token (not shown)')).toBe(3);
  expect(shown.indexOf('The token is valid.')).toBeLessThan(shown.indexOf('Folder of the archive'));
  expect(occurrences(shown, 'The token is valid.')).toBe(1);
  expect(written).toEqual({
    dataDir: './data',
    accounts: [{ name: 'main', baseUrl: sandbox.mailboxUrl, token: { file: './token' } }],
  });
  expect(readFileSync(path.join(folder, 'token'), 'utf8').trim()).toBe(sandbox.tokens.mailbox);
});

test('asks again for a folder that cannot be one', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-place-'));
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  mkdirSync(path.join(folder, 'mail'));
  const { code, shown, written, left } = await asked(
    [sandbox.tokens.mailbox, file, path.join(folder, 'mail'), 'y'],
    ['--base-url', sandbox.mailboxUrl],
  );
  expect([code, left]).toEqual([0, []]);
  expect(occurrences(shown, 'Folder of the archive')).toBe(2);
  expect(shown).toContain(`${file}`);
  expect(written).toMatchObject({ dataDir: path.join(folder, 'mail') });
});

test('proposes a rate where the first sync is long, with what others come to', async () => {
  const answers = [large.mailboxUrl, large.tokens.mailbox, '', 'many', '0', '300', 'y'];
  const { code, shown, written, left } = await asked(answers);
  expect([code, left]).toEqual([0, []]);
  expect(shown).toMatch(/about 20 min( \d+ s)? at 60 a minute/);
  expect(shown).toMatch(/60: 20 min( \d+ s)?; 120: 10 min( \d+ s)?; 300: 4 min( \d+ s)?/);
  expect(shown).toMatch(/begin\s+with\s+60/);
  expect(occurrences(shown, 'Requests a minute [60]: ')).toBe(3);
  expect(shown).toContain('"many" is not a whole number from 1 to 10000000.');
  expect(shown).toMatch(/about 4 min( \d+ s)? at 300 a minute/);
  expect(written).toMatchObject({ rateLimit: { requestsPerMinute: 300 } });
});

test('does not ask for a rate where the first sync is short, and --rate sets it', async () => {
  const short = await asked([sandbox.mailboxUrl, sandbox.tokens.mailbox, '', 'n']);
  expect(short).toMatchObject({ code: 130, left: [], written: null });
  expect(short.shown).not.toContain('Requests a minute');
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-init-'));
  const given = ['init', '--base-url', large.mailboxUrl, '--rate', '600', '--yes', '--json'];
  const init = await mailkeep(given, { cwd: folder, input: large.tokens.mailbox });
  expect(init).toMatchObject({ code: 0, stderr: '' });
  const result: unknown = JSON.parse(init.stdout);
  expect(result).toMatchObject({ requestsPerMinute: 600, firstSync: { messages: 1_200 } });
  expect(JSON.parse(readFileSync(path.join(folder, 'config.json'), 'utf8'))).toMatchObject({
    rateLimit: { requestsPerMinute: 600 },
  });
  expect((await mailkeep(['init', '--rate', '0'])).code).toBe(2);
});

test('a mistake in an option is an error, and no question: nothing is written', async () => {
  const refused = await asked(['wrong-token', sandbox.tokens.mailbox], ['--base-url', 'nonsense']);
  expect(refused).toMatchObject({ code: 2, written: null });
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-token-')), 'token');
  writeFileSync(file, 'wrong-token', { mode: 0o600 });
  const kept = await asked([sandbox.mailboxUrl], ['--token-file', file]);
  expect(kept).toMatchObject({ code: 6, written: null });
});

test('Ctrl-D ends the questions, and nothing is written', async () => {
  expect(await asked([sandbox.mailboxUrl])).toMatchObject({ code: 130, written: null });
});
