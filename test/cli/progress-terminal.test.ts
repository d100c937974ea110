import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { absent } from '../peers/programs.ts';
import { start } from './child.ts';

const ON_TERMINAL =
  'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';

let sandbox: Sandbox;
let folder: string;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 3, mail: { messages: 20 } });
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-terminal-'));
});
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true, force: true });
});

test.skipIf(absent('python3'))(
  'the built program shows the progress of a sync on a terminal',
  async () => {
    const config = path.join(folder, 'config.json');
    const account = { name: 'main', baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox };
    const rateLimit = { requestsPerMinute: 100_000 };
    writeFileSync(config, JSON.stringify({ accounts: [account], rateLimit }), { mode: 0o600 });
    const { ended } = start(['sync', '--config', config], {
      under: ['python3', '-c', ON_TERMINAL],
      env: { TERM: 'xterm' },
    });
    const { code, stdout } = await ended;
    expect(stdout).toContain('Total: 20 messages');
    expect(code).toBe(0);
  },
);
