import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { validRequest } from '../sandbox/conformance/cases.ts';
import { TABLE } from '../sandbox/conformance/table.ts';
import { callRow, type World, world } from '../sandbox/conformance/world.ts';
import { jsonLines, mailkeep } from './child.ts';
import { bothSurfaces } from './platform-config.ts';
import { ran } from './surface.ts';

const ADA = 'ada@example.org';
const AC1 = ['-p', 'mailbox=AC1'];
const INBOX = [...AC1, '-p', 'folder=INBOX'];
const NEW = ['createFolder', ...AC1, '--body'];
const SEND = ['sendEmail', ...AC1, '--body'];
/** More than pipes and memory limits hold: it goes through a file, and to a reader that must be waited for. */
const LARGE = 20 * 1024 * 1024;

describe('every operation answers', () => {
  let here: World;
  beforeEach(async () => {
    here = await world();
    return () => here.close();
  });

  test.each(TABLE.map((row) => [`${row.surface} ${row.name}`, row] as const))(
    '%s',
    async (_, row) => {
      const { sandbox } = here.served;
      const { config, folder } = bothSurfaces(sandbox, { orderId: String(here.values.orderId) });
      const { values = {}, body } = validRequest(row);
      const change = { ...(body === undefined ? {} : { body }), values };
      // What a plain HTTP client receives, where the request changes nothing.
      const plain =
        row.method === 'GET' && row.name !== 'getMessageText' && row.name !== 'listMailboxes'
          ? await callRow(here, row, change)
          : null;
      const names = [...row.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '');
      const params = names
        .filter((name) => name !== 'orderId')
        .map((name) =>
          name.startsWith('mailbox')
            ? `mailbox=${ADA}`
            : `${name}=${values[name] ?? here.values[name]}`,
        );
      const file = path.join(folder, 'body.json');
      if (body !== undefined) writeFileSync(file, JSON.stringify(body));
      const before = sandbox.requests().total;
      const { code, stdout, bytes, stderr } = await mailkeep([
        'api',
        row.surface === 'platform' ? `platform.${row.name}` : row.name,
        ...params.flatMap((param) => ['--param', param]),
        ...(body === undefined ? [] : ['--body', file]),
        '--config',
        config,
        '--json',
        '--yes',
      ]);
      expect([code, stderr]).toEqual([0, '']);
      // One for the operation, one for the address.
      expect(sandbox.requests().total - before).toBe(
        params.some((each) => each.includes('@')) ? 2 : 1,
      );
      if (row.success.includes(204)) expect(JSON.parse(stdout)).toEqual({ status: 204 });
      else if (plain?.json !== undefined) expect(JSON.parse(stdout)).toEqual(plain.json);
      else if (plain !== null) expect(bytes.equals(plain.bytes)).toBe(true);
      else if (row.surface === 'mailbox') expect(JSON.parse(stdout)).toHaveProperty('data');
      else expect(Object.keys(JSON.parse(stdout)).length).toBeGreaterThan(0);
      if (stdout.startsWith('{')) expect(jsonLines(stdout)).toHaveLength(1);
    },
  );
});

describe('on one service', () => {
  let here: World;
  let config: string;
  let mailbox: string;
  let large: string;

  beforeAll(async () => {
    here = await world();
    const { service, mailboxes } = here.served.sandbox;
    ({ config } = bothSurfaces(here.served.sandbox));
    mailbox = mailboxes[0]?.resourceId ?? '';
    const first = service.store.mailboxes.get(mailbox);
    if (first === undefined) throw new Error('no mailbox');
    large = `Subject: large\r\n\r\n${'0123456789abcde\n'.repeat(LARGE / 16)}`;
    service.store.add(service.store.folderFor(first, 'INBOX.Large'), Buffer.from(large), 0, []);
  });
  afterAll(() => here.close());

  const api = (args: readonly string[], input?: string) =>
    mailkeep(['api', ...args, '--config', config], input === undefined ? {} : { input });
  const inFolder = (folder: string) => ['-p', `mailbox=${ADA}`, '-p', `folder=${folder}`];

  test('JSON for people is the same object, indented, and says where the page stands', async () => {
    const args = ['listMessages', ...inFolder('INBOX'), '-p', 'perPage=2'];
    const plain = await api(args);
    expect(plain.code).toBe(0);
    expect(plain.stdout).toMatch(/^\{\n {2}"data": \[/);
    expect(JSON.parse(plain.stdout)).toEqual(JSON.parse((await api([...args, '--json'])).stdout));
    expect(plain.stderr).toBe('Page 1 of 2, 3 in all. The next: --param page=2\n');
  });

  test('a resource id needs no look-up, and a body may be typed or piped', async () => {
    const before = here.served.sandbox.requests().byOperation.getCurrentAccount ?? 0;
    const args = ['searchMessages', '-p', `mailboxResourceId=${mailbox}`, '-p', 'folder=INBOX'];
    for (const found of [
      await api([...args, '--body', ' {"subject":"three"}', '--json']),
      await api([...args, '--body', '-', '--json'], '\uFEFF{"subject":"three"}'),
    ]) {
      expect([found.code, found.stderr]).toEqual([0, '']);
      expect(JSON.parse(found.stdout)).toMatchObject({ data: [{ subject: 'three' }] });
    }
    expect(here.served.sandbox.requests().byOperation.getCurrentAccount ?? 0).toBe(before);
  });

  test('a large source comes byte for byte, to standard output and to a file', async () => {
    const args = ['getMessageSource', ...inFolder('INBOX.Large'), '-p', 'uid=1'];
    const piped = await api(args);
    expect(piped.code).toBe(0);
    expect(piped.bytes.equals(Buffer.from(large))).toBe(true);
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-out-')), 'message.eml');
    writeFileSync(file, 'what was there before', { mode: 0o644 });
    const saved = await api([...args, '--output', file, '--json']);
    expect(JSON.parse(saved.stdout)).toEqual({
      operation: 'getMessageSource',
      status: 200,
      savedAs: file,
      bytes: large.length,
    });
    expect(readFileSync(file).equals(Buffer.from(large))).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const nowhere = await api([...args, '--output', '/nowhere/at/all']);
    expect([nowhere.code, nowhere.stdout]).toEqual([1, '']);
    expect(nowhere.stderr).toContain('/nowhere/at/all cannot be written: no such file or folder');
  });

  test('207 is said, shown and exit 1', async () => {
    const args = ['updateMessageFlags', ...inFolder('INBOX'), '--body'];
    const body = '{"uids":[1,99],"addFlags":["\\\\Flagged"]}';
    const asJson = await api([...args, body, '--json']);
    expect([asJson.code, asJson.stderr]).toEqual([1, '']);
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      status: 207,
      data: { successful: [1], failed: [{ uid: 99 }] },
    });
    expect((await api([...args, body])).stderr).toContain('only partly done (207)');
  });

  test('reading the text warns that it marks as read, and an empty answer says so', async () => {
    const read = await api(['getMessageText', ...inFolder('INBOX'), '-p', 'uid=1']);
    expect(read.code).toBe(0);
    expect(read.stderr).toBe('warning: getMessageText marks the message as read at the service.\n');
    const moved = await api([
      ...['moveMessage', ...inFolder('INBOX.Work'), '-p', 'uid=1'],
      ...['--body', '{"targetFolder":"INBOX.Trash"}'],
    ]);
    expect([moved.code, moved.stdout]).toEqual([0, 'moveMessage: done (204)\n']);
  });

  test.each<[what: string, args: string[], words: RegExp, input?: string]>([
    ['unknown', ['listMesages'], /no operation "listMesages".*\nDid you mean listMessages\?/],
    ['a part of a name', ['webhook'], /Did you mean listWebhooks, createWebhook,/],
    ['no operation', [], /operation is missing; "mailkeep api --list"/],
    ['an unknown parameter', ['getQuota', '-p', 'mailbx=1'], /no parameter "mailbx"; it takes m/],
    ['a missing one', ['getQuota'], /getQuota needs the parameter "mailboxResourceId"/],
    ['a missing order', ['platform.listWebhooks'], /parameter "orderId".*\n.*platform\.orderId/],
    ['one twice', ['getQuota', ...AC1, '-p', 'mailboxResourceId=AC1'], /more than once/],
    ['no pair', ['getQuota', '-p', 'mailbox'], /--param: expected name=value, found "mailbox"/],
    ['too high', ['listMessages', ...INBOX, '-p', 'perPage=101'], /integer 1\.\.100, found "101"/],
    ['no number', ['getMessage', ...INBOX, '-p', 'uid=1e3'], /integer 1\.\., found "1e3"/],
    ['not of the values', ['listMessages', ...INBOX, '-p', 'sort=to'], /one of uid, -uid/],
    ['a field as parameter', ['createFolder', '-p', 'name=x'], /"name" in its body.*\n.*--body/],
    ['no body', ['createFolder', ...AC1], /needs a body with name/],
    ['a body too many', ['getQuota', ...AC1, '--body', '{}'], /takes no body/],
    ['a misspelt field', [...NEW, '{"nmae":"x"}'], /no field "nmae".*\nDid you mean "name"/],
    ['a field out of bounds', [...NEW, '{"name":" "}'], /"name": expected at least 1/],
    ['a broken rule', [...SEND, '{"text":"x"}'], /"to": needs at least one of to, cc and bcc/],
    ['broken JSON', [...NEW, '{"name":'], /not valid JSON at line 1, column 9/],
    ['no object', [...NEW, '-'], /from standard input is not a JSON object/, '[]'],
    ['no UTF-8', [...NEW, '-'], /it is not UTF-8/, '\u00ff'],
    ['no such file', [...NEW, 'gone.json'], /from gone\.json: no such file/],
    ['an unknown account', ['getCurrentAccount', '--account', 'x'], /no account "x"/],
    ['destructive', ['deleteFolder', ...INBOX], /"deleteFolder" cannot be undone.*\n.*--yes/],
    ['destructive, piped', ['deleteMessages', ...INBOX, '--body', '-'], /undone/, '{"uids":[1]}'],
  ])('%s is exit 2, and nothing is sent', async (_, args, words, input = '') => {
    const before = here.served.sandbox.requests().total;
    const stdin = () => Readable.from([Buffer.from(input, 'latin1')]);
    const { code, stdout, stderr } = await ran(['api', ...args, '--config', config], { stdin });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(words);
    expect(here.served.sandbox.requests().total).toBe(before);
  });

  test('an address that the token does not reach is exit 2, and names those it does', async () => {
    const { code, stderr } = await api(['getQuota', '-p', 'mailbox=ben@example.org']);
    expect(code).toBe(2);
    expect(stderr).toContain(`; it reaches ${ADA}, office@example.org.`);
  });

  test('the platform surface needs its token', async () => {
    const { sandbox } = here.served;
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-api-'));
    const only = path.join(folder, 'config.json');
    const accounts = ['one', 'two'].map((name) => ({
      name,
      baseUrl: sandbox.mailboxUrl,
      token: sandbox.tokens.mailbox,
    }));
    writeFileSync(only, JSON.stringify({ accounts }), { mode: 0o600 });
    const several = await mailkeep(['api', 'getCurrentAccount', '--config', only]);
    expect([several.code, several.stderr]).toEqual([
      2,
      'mailkeep: The configuration has several accounts.\nChoose one with --account NAME: one, two.\n',
    ]);
    const named = await mailkeep(['api', 'getCurrentAccount', '--account=two', '--config', only]);
    expect(named.code).toBe(0);
    const args = ['api', 'listMailboxes', '--account', 'one', '-p', 'orderId=OR1'];
    const lacking = await mailkeep([...args, '--config', only]);
    expect(lacking.code).toBe(2);
    expect(lacking.stderr).toContain('account "one" has no token for it');
  });

  test('a refusal shows the envelope of its surface', async () => {
    const args = ['getMessage', ...inFolder('INBOX'), '-p', 'uid=99'];
    const text = await api(args);
    expect([text.code, text.stdout]).toEqual([1, '']);
    expect(text.stderr).toMatch(
      /answered getMessage with status 404 \(ERR_MESSAGE_NOT_FOUND\)\.\nThe service says: \S.*\n {2}uid: 99\n/,
    );
    const asJson = await api([...args, '--json']);
    expect(JSON.parse(asJson.stderr)).toMatchObject({
      error: {
        code: 'origin.status',
        answer: { status: 404, code: 'ERR_MESSAGE_NOT_FOUND', params: { uid: 99 } },
      },
    });
    const platform = await api(['platform.getWebhook', '-p', 'webhookId=none', '--json']);
    expect(platform.code).toBe(1);
    expect(JSON.parse(platform.stderr)).toMatchObject({
      error: { answer: { message: expect.any(String), correlation_id: expect.any(String) } },
    });
  });

  test('a limit of the operation itself is reported, not waited for', async () => {
    const args = [
      'submitFeedback',
      '-p',
      `mailbox=${mailbox}`,
      '--body',
      '{"score":7,"message":"Fine."}',
    ];
    expect((await api(args)).code).toBe(0);
    const { code, stderr } = await api(args);
    expect(code).toBe(1);
    expect(stderr).toContain('The service says: ');
    expect(here.served.sandbox.requests().byOperation.submitFeedback).toBe(2);
  });

  test('--list and --describe need no configuration, and cover all 37', async () => {
    const { code, stdout } = await mailkeep(['api', '--list', '--json']);
    expect(code).toBe(0);
    expect(jsonLines(stdout)).toMatchObject(
      TABLE.map(({ surface, name, method, path: route }) => ({
        operation: surface === 'platform' ? `platform.${name}` : name,
        method,
        path: route,
      })),
    );
    const text = (await mailkeep(['api', '--list'])).stdout;
    expect(text).toContain('deleteFolder  destructive: asks, or needs --yes');
    expect(text).toContain('--param mailboxResourceId folder [page] [perPage] [sort]');
    const described = await mailkeep(['api', 'updateMessageFlags', '--describe']);
    expect(described.stdout).toMatch(/uids +required +list 1\.\.100 of integer 1\.\./);
    expect(existsSync(path.join(path.dirname(config), 'data'))).toBe(false);
  });
});
