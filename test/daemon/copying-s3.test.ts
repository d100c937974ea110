import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace } from '../cli/child.ts';
import { startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import type { S3Server } from '../objects/servers/s3-server.ts';
import { daemonWorkplace, RunningDaemon } from './running-daemon.ts';

const skipped = withoutRadosgw();
const TO = 's3://mailkeep-tests/mail';

let server: S3Server | undefined;
let sandbox: Sandbox;
let place: Workplace;
let running: RunningDaemon | undefined;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 11, mail: { messages: 12 } });
  place = daemonWorkplace(sandbox, (config) => ({
    ...config,
    copies: [{ to: TO, every: '1h', limitRate: '5M', verify: { sample: '50%' } }],
  }));
  if (!skipped) server = await startRadosgw();
});
afterEach(async () => {
  running?.child.kill('SIGKILL');
  await running?.ended;
});
afterAll(async () => {
  await server?.stop();
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

test.skipIf(skipped)(
  'the daemon copies to S3 with the keys of a profile, and reads it back',
  async () => {
    const { port = 0, accessKeyId = '', secretAccessKey = '' } = server ?? {};
    mkdirSync(path.join(place.folder, '.aws'));
    writeFileSync(
      path.join(place.folder, '.aws', 'credentials'),
      [
        '[default]',
        `aws_access_key_id = ${accessKeyId}`,
        `aws_secret_access_key = ${secretAccessKey}`,
        `endpoint_url = http://127.0.0.1:${port}`,
        '',
      ].join('\n'),
      { mode: 0o600 },
    );
    const env = { HOME: place.folder };
    const at = ['--data', place.data];
    expect((await mailkeep(['sync', '--quiet', '--config', place.config])).code).toBe(0);
    const key = ['--recovery-key-file', path.join(place.folder, 'key.txt')];
    const init = await mailkeep(['copy', 'init', '--to', TO, '--create-bucket', ...key, ...at], {
      env,
    });
    expect([init.code, init.stderr]).toEqual([0, '']);
    running = new RunningDaemon(place);
    expect(await running.message('copy finished')).toMatchObject({ to: TO });
    expect(await running.message('copy verified')).toMatchObject({ to: TO, checked: 1, found: 0 });
    expect(await running.end()).toBe(0);
    expect(JSON.stringify(running.lines)).not.toContain(secretAccessKey);
    const { stdout } = await mailkeep(['status', '--json', ...at]);
    expect(JSON.parse(stdout).copies).toMatchObject([
      { to: TO, encrypted: true, stale: false, failure: null, verified: { unit: 'segment' } },
    ]);
  },
);
