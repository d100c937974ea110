import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, json, raw, startOrigin } from '../api/local-origin.ts';
import { fill, mail, type Served, serveEmpty } from '../sandbox/client.ts';
import { workplace } from './child.ts';
import { onTerminal, ran } from './surface.ts';

const TOKEN = 'mbx_0123456789abcdef';
const EVIL = '\u001b]0;owned\u0007\u009b2J\u202egnp.exe';

/** A configuration for a server whose answers a test decides. */
async function served(answer: Answer) {
  const origin = await startOrigin(answer);
  const config = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-api-')), 'config.json');
  const platform = { url: origin.url, token: TOKEN, orderId: 'OR1' };
  const accounts = [{ name: 'main', baseUrl: origin.url, token: TOKEN, platform }];
  writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
  const api = (...args: string[]) => ran(['api', ...args, '--config', config]);
  return { ...origin, config, api };
}

describe('what a service says', () => {
  test.each(['', '--json'])(
    'cannot steer a terminal, and gives no token away (%s)',
    async (...flag) => {
      const { api } = await served((request, response) =>
        json(422, {
          error: `No.${EVIL} You sent ${request.headers.authorization}`,
          code: 'ERR_VALIDATION_FAILED',
          params: { fields: { [`name${EVIL}`]: [EVIL, TOKEN] } },
        })(request, response),
      );
      const args = ['createFolder', '-p', 'mailbox=AC1', '--body', '{"name":"x"}'];
      const { code, stdout, stderr } = await api(...args, ...flag.filter((each) => each !== ''));
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toContain('ERR_VALIDATION_FAILED');
      expect(stderr).toContain('You sent Bearer ***');
      expect(stderr).not.toContain(TOKEN);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
      if (flag[0] === '') expect(stderr).not.toContain('\u202e');
    },
  );

  test('cannot steer a terminal in a success either, and JSON keeps all of it', async () => {
    const { api } = await served(json(200, { data: { orderResourceId: EVIL, mailboxes: [] } }));
    const { code, stdout } = await api('getCurrentAccount');
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/[^\n -~]/);
    expect(JSON.parse(stdout)).toEqual({ data: { orderResourceId: EVIL, mailboxes: [] } });
  });

  test('401 is exit 6, with its envelope', async () => {
    const { api } = await served(json(401, { error: 'Revoked.', code: 'ERR_X', params: {} }));
    const { code, stderr } = await api('getCurrentAccount');
    expect(code).toBe(6);
    expect(stderr).toMatch(/refused the token.*\nThe service says: Revoked\.\nCreate a new token/);
  });

  test('422 of the platform surface is reported by field', async () => {
    const { api } = await served(
      json(422, {
        message: 'The url field is bad.',
        correlation_id: 'c-1',
        errors: { url: ['The url field is bad.'] },
      }),
    );
    const args = ['platform.updateWebhook', '-p', 'webhookId=w', '--body', '{"status":"paused"}'];
    expect((await api(...args)).stderr).toContain(
      'The service says: The url field is bad.\n  url: ["The url field is bad."]\n  correlation_id: "c-1"\n',
    );
    const { error } = JSON.parse((await api(...args, '--json')).stderr);
    expect(error.answer).toEqual({
      status: 422,
      message: 'The url field is bad.',
      errors: { url: ['The url field is bad.'] },
      correlation_id: 'c-1',
    });
  });

  test('202 is said, and the request goes out once', async () => {
    const { api, seen } = await served(json(202, { message: 'Later.' }));
    const args = ['platform.deleteWebhook', '-p', 'webhookId=w', '--yes'];
    const text = await api(...args);
    expect(text).toEqual({
      code: 0,
      stdout: '{\n  "message": "Later."\n}\n',
      stderr:
        'Accepted (202): the service finishes it later. Check the result; do not send it again.\n',
    });
    expect(JSON.parse((await api(...args, '--json')).stdout)).toEqual({
      status: 202,
      accepted: true,
      answer: { message: 'Later.' },
    });
    expect(seen.map(({ method, path: route }) => `${method} ${route}`)).toEqual([
      'DELETE /api/mail/v1/webhooks/w',
      'DELETE /api/mail/v1/webhooks/w',
    ]);
  });

  test('a write that got 500 is sent once, and may have taken effect', async () => {
    const { api, seen } = await served(json(500, { error: 'Oh.', code: 'ERR_INTERNAL' }));
    const { code, stderr } = await api('createFolder', '-p', 'mailbox=A', '--body', '{"name":"x"}');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /not known whether createFolder took effect.*\nThe service says: Oh\.\n/,
    );
    expect(seen).toHaveLength(1);
  });

  test('a web page instead of an answer is exit 1 and shown nowhere', async () => {
    const { api } = await served(raw(403, '<html>Log in</html>', { 'content-type': 'text/html' }));
    const { code, stderr } = await api('getCurrentAccount');
    expect(code).toBe(1);
    expect(stderr).toContain('a web page instead of JSON');
    expect(stderr).not.toContain('Log in');
  });
});

describe('on a terminal', () => {
  let service: Served;
  let config: string;
  beforeAll(async () => {
    service = await serveEmpty();
    fill(service, [mail('one'), mail('two')]);
    ({ config } = workplace(service.sandbox));
  });
  afterAll(() => service.close());

  const messages = () =>
    service.sandbox.service.store.folderFor(
      [...service.sandbox.service.store.mailboxes.values()][0] ?? missing(),
      'INBOX',
    ).count;

  test.each([
    ['\r', 130, 2],
    ['n\r', 130, 2],
    ['y\r', 130, 2],
    ['yes\r', 0, 1],
  ])('what cannot be undone wants a typed yes: %j', async (typed, code, left) => {
    const uid = 1;
    const args = ['deleteMessage', '-p', 'mailbox=ada@example.org', '-p', 'folder=INBOX'];
    const ended = await onTerminal(['api', ...args, '-p', `uid=${uid}`, '--config', config], typed);
    expect(ended.code).toBe(code);
    expect(ended.stderr).toContain('Delete one message for good');
    expect(ended.stderr).toContain(`uid: ${uid}`);
    expect(messages()).toBe(left);
  });

  test('bytes are not put on it unless they are wanted there', async () => {
    fill(service, [mail('three')]);
    const args = ['getMessageSource', '-p', 'mailbox=ada@example.org', '-p', 'folder=INBOX'];
    const line = ['api', ...args, '-p', 'uid=3', '--config', config];
    const refused = await onTerminal(line, '');
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toContain('--output FILE');
    const wanted = await onTerminal([...line, '--output', '-'], '');
    expect([wanted.code, wanted.stdout]).toEqual([0, mail('three')]);
  });
});

function missing(): never {
  throw new Error('no mailbox');
}
