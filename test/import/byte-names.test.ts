import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jsonLines, mailkeep } from '../cli/child.ts';

/** Names as old disks hold them: "Büro" and "é" in Latin-1. */
const BUREAU = Buffer.from('B\xfcro', 'latin1');
const ACUTE = Buffer.from('\xe9', 'latin1');

let work: string;
const bytes = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((it) => Buffer.from(it)));

beforeAll(() => {
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-bytes-'));
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

// macOS and Windows refuse such names.
test.runIf(process.platform === 'linux')(
  'files and folders whose names are not UTF-8 are imported, and shown escaped',
  async () => {
    const from = path.join(work, 'old');
    const bureau = bytes(from, '/', BUREAU);
    mkdirSync(bureau, { recursive: true });
    writeFileSync(bytes(bureau, '/', ACUTE, '.eml'), 'Subject: letter\n\n');
    writeFileSync(
      bytes(bureau, '/', ACUTE, '.mbox'),
      'From a@b Sun Mar  1 09:41:07 2015\nSubject: in mbox\n\n',
    );
    writeFileSync(bytes(bureau, '/none-', ACUTE, '.mbox'), 'no mail\n');
    const maildir = bytes(from, '/m', ACUTE);
    for (const part of ['cur', 'new']) mkdirSync(bytes(maildir, '/', part), { recursive: true });
    writeFileSync(bytes(maildir, '/cur/1600000000.', ACUTE, ':2,S'), 'Subject: in maildir\n\n');
    writeFileSync(
      bytes(bureau, '/large-', ACUTE, '.eml'),
      `Subject: large\n\n${'x'.repeat(9 * 1024 * 1024)}`,
    );
    const data = path.join(work, 'data');
    const { code, stdout } = await mailkeep(['import', from, '--data', data, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      added: 4,
      failures: [{ path: path.join(from, 'B\\xFCro/none-\\xE9.mbox'), reason: 'no-from-line' }],
    });
    const list = await mailkeep(['list', '--data', data, '--json']);
    const places = jsonLines(list.stdout);
    expect(places).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ subject: 'letter', folder: 'B\\xFCro' }),
        expect.objectContaining({ subject: 'large', folder: 'B\\xFCro' }),
        expect.objectContaining({ subject: 'in mbox', folder: 'B\\xFCro/\\xE9' }),
        expect.objectContaining({ subject: 'in maildir', folder: 'm\\xE9', flags: ['\\Seen'] }),
      ]),
    );
  },
);

test.runIf(process.platform === 'linux')(
  'a name on the command line that is not UTF-8 is found, though Node.js reads it as another',
  async () => {
    const from = path.join(work, 'named');
    mkdirSync(from);
    writeFileSync(bytes(from, '/', ACUTE, '.eml'), 'Subject: named\n\n');
    writeFileSync(bytes(from, '/\u00e8.eml'), 'Subject: another\n\n');
    const data = path.join(work, 'data-named');
    const given = ['import', '--data', data, '--json'];
    // The shell makes the byte, which a text cannot hold.
    const shell = ['/bin/sh', '-c', 'exec "$@" "$(printf "%s/\\351.eml" "$FROM")"', 'sh'];
    const { code, stdout } = await mailkeep(given, { env: { FROM: from }, under: shell });
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { added: 1, failures: [] }]);
    const gone = ['/bin/sh', '-c', 'exec "$@" "$(printf "%s/\\352\\352.eml" "$FROM")"', 'sh'];
    expect((await mailkeep(given, { env: { FROM: from }, under: gone })).code).toBe(2);
  },
);
