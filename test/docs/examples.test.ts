import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, program, type Workplace, workplace } from '../cli/child.ts';
import { bothSurfaces } from '../cli/platform-config.ts';
import { Postgres, withoutPostgres } from '../fleet/servers/postgres.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import { s3Environment } from '../offsite/copy-program.ts';
import { everyMessage } from '../peers/imap-client.ts';
import { writePrunable } from '../retention/prunable-archive.ts';

/**
 * Runs every example of the pages below: each `$ command` of a block, in the order of the page, and compares what it
 * prints with the block. MAILKEEP_DOCS=write puts what was printed into the pages instead, for review. A block that does
 * not run is listed with the reason.
 */

/** Where and with what the examples of a page run. */
interface Scene {
  /** Seed of the sandbox's mail, if not the one that it has without an option. */
  readonly seed?: number;
  /** True if the examples change mail at the service: then no other scene has the sandbox. */
  readonly changesMail?: boolean;
  readonly workplace?: (sandbox: Sandbox) => Workplace;
  /** What the reader of the page has already done. */
  readonly prepare: (stage: Stage) => Promise<void>;
  /** What happens before an example, by its command. */
  readonly before?: Readonly<Record<string, (stage: Stage) => Promise<void> | void>>;
  /** Paths as the page writes them, and where they are here, below the folder of the stage. */
  readonly paths?: Readonly<Record<string, string>>;
  /** Blocks without an example, by their first line, and why they do not run. */
  readonly notRun?: Readonly<Record<string, string>>;
  /** True if a program that the examples need is not installed. */
  readonly isSkipped?: () => boolean;
}

interface Stage extends Workplace {
  readonly sandbox: Sandbox;
  /** Further variables of the shell. */
  readonly env: Record<string, string>;
  /** Texts as the page writes them, and what they are here. */
  readonly texts: Map<string, string>;
  /** Stops what the scene started. */
  readonly stops: (() => Promise<void>)[];
  /** Runs a command that must succeed. */
  readonly run: (...args: string[]) => Promise<string>;
}

/** The sandboxes of the scenes that change no mail at the service, by seed. */
const sandboxes = new Map<number | undefined, Sandbox>();
/** An archive that has the mail of a sandbox, which the stages copy: a sync takes seconds. */
const archives = new Map<Sandbox, string>();

async function synced({ sandbox, data, run }: Stage): Promise<void> {
  const archive = archives.get(sandbox);
  if (archive !== undefined) return cpSync(archive, data, { recursive: true });
  await run('sync', '--quiet');
  const kept = mkdtempSync(path.join(tmpdir(), 'mailkeep-synced-'));
  cpSync(data, kept, { recursive: true });
  archives.set(sandbox, kept);
}

/** An mbox as another program would leave it: without a manifest. */
async function makeMbox({ folder, run }: Stage): Promise<void> {
  await run('export', '--to', 'mboxes', '--format', 'mbox', '--mailbox', 'ada@example.org');
  copyFileSync(
    path.join(folder, 'mboxes/ada@example.org/INBOX.mbox'),
    path.join(folder, 'INBOX.mbox'),
  );
}

/** Flips a bit in the middle of the log: within the bytes of a large attachment, where most of the log is. */
function damage({ data }: Stage): void {
  const segments = readdirSync(path.join(data, 'log')).filter((name) => name.endsWith('.seg'));
  const [file = ''] = segments
    .map((name) => path.join(data, 'log', name))
    .sort((one, other) => statSync(other).size - statSync(one).size);
  const bytes = readFileSync(file);
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(file, bytes);
}

/** Any free port for the web interface. */
const atFreePort = (sandbox: Sandbox) =>
  workplace(sandbox, (config) => ({ ...config, web: { listen: '127.0.0.1:0' } }));

/** An archive that has mail, at the place that pages about its servers name, with any free port for them. */
const served: Scene = {
  seed: 7,
  workplace: atFreePort,
  prepare: synced,
  paths: { '.demo/data': 'data' },
};

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The clone that a reader of the README has, as far as the examples use it. */
async function makeClone(stage: Stage): Promise<void> {
  for (const part of ['src/bootstrap', 'package.json'])
    cpSync(path.join(root, part), path.join(stage.folder, part), {
      recursive: true,
      preserveTimestamps: true,
    });
  for (const part of ['dist', 'node_modules'])
    symlinkSync(path.join(root, part), path.join(stage.folder, part));
  await synced(stage);
  // With a configuration, "npm start" would run the daemon.
  renameSync(stage.config, `${stage.config}.later`);
}

/** The folder that gets lost. */
const LOST = 'INBOX.Lists.gardening';

/** A mailbox that both Dovecot and the sandbox serve, in which a mail program then deletes a folder. */
function restoreScene(): Scene {
  const address = 'ada@example.org';
  let serveRestored = async (): Promise<void> => {};

  async function prepare(stage: Stage): Promise<void> {
    await synced(stage);
    const server = await startDovecot({
      users: [address],
      separator: '.',
      prefix: 'INBOX.',
      specialFolders: false,
    });
    stage.stops.push(() => server.stop());
    const passwordFile = path.join(stage.folder, 'password');
    writeFileSync(passwordFile, `${server.password}\n`, { mode: 0o600 });
    const to = `imap://${encodeURIComponent(address)}@127.0.0.1:${server.port}`;
    // From a copy, since an archive remembers how fast a restore was.
    const data = `${stage.data}.filling`;
    cpSync(stage.data, data, { recursive: true });
    const filling = ['--data', data, '--to', to, '--in-place', '--password-file', passwordFile];
    await stage.run('restore', '--quiet', ...filling);

    stage.env.NODE_EXTRA_CA_CERTS = server.certificate.file;
    for (const shown of ['mail.example.org:993', 'mail.example.org'])
      stage.texts.set(shown, `localhost:${server.tlsPort}`);
    stage.texts.set('2026-11-28T20:53:59Z', new Date().toISOString());

    const { store } = stage.sandbox.service;
    const mailbox = store.mailboxByAddress(address);
    if (mailbox === null) throw new Error(`no mailbox ${address}`);
    await server.doveadm('mailbox', 'delete', '-u', address, LOST);
    store.deleteFolder(mailbox, LOST);
    serveRestored = async () => {
      for await (const { folder, source, date, flags } of everyMessage(server))
        if (folder === LOST)
          store.add(store.folderFor(mailbox, LOST), source, Date.parse(date), flags);
    };
  }

  return {
    workplace: (sandbox) =>
      workplace(sandbox, (config) => ({
        ...config,
        accounts: config.accounts.map((account) => ({
          ...account,
          mailboxes: { include: [address] },
        })),
      })),
    prepare,
    changesMail: true,
    // The first one finds nothing restored.
    before: { 'mailkeep sync': () => serveRestored() },
    isSkipped: withoutDovecot,
  };
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = address !== null && typeof address === 'object' ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** The server of the page's try-out, with the page's configuration. Dovecot refuses to run as root. */
const imapScene: Scene = {
  prepare: async ({ folder, config, texts, stops }) => {
    rmSync(config);
    const [user, group] =
      process.getuid?.() === 0
        ? ['nobody', 'nogroup']
        : [userInfo().username, execFileSync('id', ['-gn'], { encoding: 'utf8' }).trim()];
    const page = readFileSync(path.join(root, 'docs/imap.md'), 'utf8');
    const [, conf = ''] = /^```conf\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const port = String(await freePort());
    texts.set('10143', port);
    // The server keeps its output open, which the shell of a test waits for.
    texts.set('/usr/sbin/dovecot -c dovecot.conf', '/usr/sbin/dovecot -c dovecot.conf >&- 2>&-');
    const written = conf
      .replaceAll('/tmp/try-imap', path.join(folder, 'try-imap'))
      .replaceAll('10143', port)
      .replaceAll(/(internal_group = |gid=)you/g, `$1${group}`)
      .replaceAll(/(user = |uid=)you/g, `$1${user}`);
    const file = path.join(folder, 'dovecot.conf');
    writeFileSync(file, written);
    chmodSync(folder, 0o755);
    stops.push(async () => void execFileSync('doveadm', ['-c', file, 'stop']));
  },
  before: {
    "printf 'From: grace@example.org\\nSubject: The picture\\n\\nIt is done.\\n' | doveadm -c dovecot.conf save -u ada@example.org":
      ({ folder }) => chmodSync(path.join(folder, 'try-imap'), 0o777),
  },
  paths: { '/tmp/try-imap': 'try-imap' },
  notRun: {
    'mailkeep restore --to-account ada --folder Trips --as-of 2026-11-28T12:00 --in-place':
      'needs a deleted folder; test/restore/account.test.ts restores to accounts',
    'mailkeep account move ada --host imap.example.net --password-file ada.new-password':
      'needs two servers; test/imap/account-move.test.ts moves accounts',
  },
  isSkipped: withoutDovecot,
};

/** An S3 server and its credentials, a recipient of age and a passphrase. */
async function prepareCopies(stage: Stage): Promise<void> {
  await synced(stage);
  for (const name of ['invoice', 'photograph']) await stage.run('search', name, '--save', name);
  mkdirSync(path.join(stage.folder, 'usb'));
  const server = await startRadosgw();
  stage.stops.push(() => server.stop());
  Object.assign(stage.env, s3Environment(server));
  stage.texts.set('age1qdtjc2cg…', await identityToRecipient(await generateIdentity()));
  writeFileSync(path.join(stage.folder, 'passphrase.txt'), 'correct horse battery staple\n');
}

/** A node with the page's configuration, and a registry and bucket without a fleet. */
async function prepareNode(stage: Stage): Promise<void> {
  const { config, env, folder, sandbox, texts, stops } = stage;
  const [postgres, server] = await Promise.all([Postgres.start(), startRadosgw()]);
  stops.push(
    () => postgres.stop(),
    () => server.stop(),
  );
  const { AWS_ENDPOINT_URL: endpoint, ...keys } = s3Environment(server);
  Object.assign(env, keys);
  const page = readFileSync(path.join(root, 'docs/fleet.md'), 'utf8');
  const [, written = ''] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const { fleet, web } = JSON.parse(written);
  const database = await postgres.create();
  const address = `127.0.0.1:${await freePort()}`;
  const here = {
    ...{ registry: `postgresql:///${database}?host=${postgres.socketFolder}&user=fleet`, address },
    ...{ store: { ...fleet.store, endpoint }, keyFile: 'fleet.keys', cache: 'cache' },
  };
  const settings = {
    fleet: { ...fleet, ...here },
    web: { ...web, listen: `127.0.0.1:${await freePort()}` },
    rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
  };
  writeFileSync(config, JSON.stringify(settings), { mode: 0o600 });
  texts.set('postgresql://mailkeep@db.example.org:5432/fleet', postgres.target(database).label);
  texts.set('node-1.example.org:8443', address);
  texts.set('https://mail-api.example.org', sandbox.mailboxUrl);
  const ben = {
    ...{ name: 'ben', tenant: 'acme' },
    ...{ baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox },
    mailboxes: { include: ['office@example.org'] },
  };
  writeFileSync(path.join(folder, 'accounts.jsonl'), `${JSON.stringify(ben)}\n`);
}

/** Starts the worker, and returns once both accounts were mirrored and shipped. */
async function startWorker({ folder, env, stops, run }: Stage): Promise<void> {
  const worker = spawn(process.execPath, [program, 'fleet', 'worker'], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(worker, 'close');
  // First: it uses the servers.
  stops.unshift(async () => {
    worker.kill();
    await ended;
  });
  const mirrored = new Set<string>();
  for await (const line of createInterface({ input: worker.stdout })) {
    const { msg, account } = JSON.parse(line);
    if (msg === 'run finished' && typeof account === 'string') mirrored.add(account);
    if (mirrored.size === 2) break;
  }
  worker.stdout.resume();
  for (;;) {
    const accounts = jsonLines(await run('fleet', 'account', 'list', '--json'));
    if (accounts.every((one) => Object(one).shippedMs !== null)) return;
  }
}

const SCENES: Readonly<Record<string, Scene>> = {
  'README.md': {
    workplace: atFreePort,
    prepare: makeClone,
    before: {
      'node dist/mailkeep.cjs web --data .demo/data': ({ config }) =>
        renameSync(`${config}.later`, config),
    },
    notRun: {
      'npm ci --ignore-scripts && npm pack':
        'installs for the whole machine; test/nodes packs and installs the package',
    },
  },
  'api.md': { changesMail: true, workplace: bothSurfaces, prepare: async () => {} },
  'api-over-the-mirror.md': served,
  'export.md': {
    seed: 7,
    prepare: async (stage) => {
      await synced(stage);
      await makeMbox(stage);
      mkdirSync(path.join(stage.folder, 'usb'));
    },
    paths: { '/media/usb': 'usb' },
  },
  'fleet.md': {
    prepare: prepareNode,
    before: { 'mailkeep fleet account list': startWorker },
    paths: { '/etc/mailkeep': '.' },
    isSkipped: () => withoutPostgres() || withoutRadosgw(),
    notRun: {
      'D=/opt/mailkeep/systemd  # of the package or the clone':
        'changes the whole machine; test/systemd judges the unit',
    },
  },
  'imap.md': imapScene,
  'mcp.md': served,
  'offsite.md': {
    prepare: prepareCopies,
    before: {
      'mailkeep verify --repair --from s3://my-bucket/mail': damage,
      'mailkeep copy key add --to media --age age1qdtjc2cg… --label Anna': async ({ run }) => {
        await run('copy', 'init', '--to', 'media', '--recovery-key-file', 'usb/media.txt');
        await run('copy', '--to', 'media');
      },
      'mailkeep copy key remove 2daf --to media': async ({ run, texts }) => {
        const keys = await run('copy', 'key', 'list', '--to', 'media');
        const [id = ''] = /^\S+(?= {2}passphrase)/m.exec(keys) ?? [];
        texts.set('remove 2daf', `remove ${id.slice(0, 12)}`);
      },
    },
    paths: { '/home/you/mail': '.' },
    isSkipped: withoutRadosgw,
    notRun: { '4M8E-8THJ': 'is no command: it shows what a recovery key looks like' },
  },
  'reading.md': {
    seed: 7,
    prepare: async (stage) => {
      await synced(stage);
      await stage.run('rebuild', '--quiet');
    },
    paths: { '~/saved': 'saved' },
    notRun: {
      'source <(mailkeep completion bash)                                     # in ~/.bashrc':
        'changes interactive shells; test/cli/completion.test.ts completes words in them',
    },
  },
  'restore.md': restoreScene(),
  'retention.md': {
    prepare: async ({ config, data, run }) => {
      mkdirSync(data, { mode: 0o700 });
      await writePrunable(data);
      const accounts = [{ name: 'main', baseUrl: 'https://mail.example.org', token: 'secret' }];
      const retention = { endedAfterDays: 30, hold: [{ query: 'subject:legalsubject' }] };
      writeFileSync(config, JSON.stringify({ accounts, dataDir: './data', retention }));
      await run('rebuild', '--quiet');
    },
  },
  'search.md': { seed: 7, prepare: synced, paths: { '~/rent': 'rent' } },
  'operations.md': {
    seed: 7,
    prepare: async ({ config, folder }) => {
      const baseUrl = 'https://mail-api.example.com';
      const account = { name: 'main', baseUrl, token: { file: './token' } };
      writeFileSync(config, JSON.stringify({ dataDir: './data', accounts: [account] }));
      writeFileSync(path.join(folder, 'token'), 'expired\n');
    },
    before: {
      'mailkeep doctor': ({ config, sandbox }) => {
        const text = readFileSync(config, 'utf8');
        writeFileSync(config, text.replace('https://mail-api.example.com', sandbox.mailboxUrl));
      },
      'mailkeep compact --dry-run': async (stage) => {
        const { accounts } = JSON.parse(readFileSync(stage.config, 'utf8'));
        const rateLimit = { requestsPerMinute: 1_000_000, concurrency: 8 };
        const earlier = { accounts, rateLimit, archive: { codec: 'zlib' } };
        writeFileSync(stage.config, JSON.stringify(earlier));
        writeFileSync(path.join(stage.folder, 'token'), `${stage.sandbox.tokens.mailbox}\n`);
        await stage.run('sync', '--quiet');
        writeFileSync(stage.config, JSON.stringify({ accounts }));
      },
    },
    paths: { '/home/you/mail': '.' },
    notRun: {
      'mailkeep init --base-url https://… --data /var/lib/mailkeep':
        'needs a service; test/cli/init.test.ts runs init',
      'npm ci --ignore-scripts && npm pack           # in a clone of the repository':
        'changes the whole machine; .ci/run installs the package, test/systemd runs the units',
      'mkdir mailkeep && cp config.json mailkeep/ && cp compose.example.yaml compose.yaml':
        'needs Docker',
      '*/15 * * * *  mailkeep sync --quiet --config /etc/mailkeep/config.json':
        'is a line of a crontab, not of a shell',
      'mailkeep notify test --config /etc/mailkeep/config.json':
        'needs a receiver; test/cli/notify.test.ts has one',
      "rsync -a --exclude 'catalog.sqlite*' --exclude 'state.sqlite*' --exclude tmp --exclude 'lock*' --exclude 'control.*' \\":
        'needs another machine',
    },
  },
  'verification.md': {
    seed: 7,
    prepare: async (stage) => {
      await synced(stage);
      mkdirSync(path.join(stage.folder, 'usb'));
    },
    paths: { '/home/you/mail': '.', '/media/usb': 'usb' },
    notRun: {
      'mailkeep checkpoint --to /media/stick/mailkeep-checkpoint.json':
        'writes to a disk of its own; test/cli/known-damage.test.ts runs it with a file',
    },
    before: {
      'mailkeep verify': (stage) => {
        cpSync(stage.data, `${stage.data}.intact`, { recursive: true });
        damage(stage);
      },
      'mailkeep verify --drill 100 --seed 7': (stage) => {
        rmSync(stage.data, { recursive: true });
        cpSync(`${stage.data}.intact`, stage.data, { recursive: true });
      },
      'mailkeep verify --repair': damage,
    },
  },
  'web.md': served,
};

const writing = process.env.MAILKEEP_DOCS === 'write';
interface Example {
  readonly command: string;
  readonly output: string;
}

/** The blocks of a page that have no language or that of a shell, without their fences. */
function blocksOf(text: string): string[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)]
    .filter(([, language = '']) => ['', 'console', 'sh'].includes(language))
    .map(([, , block = '']) => block);
}

/** The examples of a page: blocks whose first line begins with "$ ". */
function examplesOf(text: string): Example[] {
  return blocksOf(text)
    .filter((block) => block.startsWith('$ '))
    .flatMap((block) =>
      // It prints the commands that it runs.
      block.startsWith('$ npm start\n') ? [block.slice(2)] : block.split(/^\$ /m).slice(1),
    )
    .map((example) => {
      const [, command = '', output = ''] = /^((?:.*\\\n)*.*\n)([\s\S]*)$/.exec(example) ?? [];
      return { command: command.trimEnd(), output };
    });
}

/** What differs from run to run: times, durations, speeds, ports, commits, keys, hosts. */
const VARYING: readonly [RegExp, string][] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, 'TIME'],
  [/\b[\d,.]+ (?:ms|s|MB\/s)(?=[\s.,;)]|$)/gm, 'DURATION'],
  [/\b[\d,]+ messages or [\d.]+ [kM]?B a second/g, 'SPEED'],
  [/\b\d{4}-\d\d-\d\d \d\d:\d\d(?= {2}(?:appeared|held|ended|reopened)| does if)/g, 'MINUTE'],
  // Only slow machines show progress.
  [
    /^(?:made|read|exported|copied|compared|verified) [\d,]+ (?:searchable,|messages,|places,|of) .*\n/gm,
    '',
  ],
  [/^.* requests?, [\d,]+ a minute\b.*\n/gm, ''],
  [/127\.0\.0\.1:\d+/g, 'ADDRESS'],
  // How much of a sync is one batch depends on its speed; each batch has records of its own, and damage hits some of them.
  [/\bcommit \d+|\b\d+ commits\b/g, 'COMMIT'],
  [/(?:\b[\d,]+|…) (?:records|findings)\b/g, 'RECORDS'],
  [/[A-Za-z0-9+/]{43}=/g, 'KEY'],
  [/\b[0-9a-f]{32}\b/g, 'RECIPIENT'],
  [/#[0-9A-Z]{4}(?:-[0-9A-Z]{4}){2}\b/g, 'CODE'],
  [/\b[\d.]+ [GT]B are free/g, 'FREE'],
  // Times are compressed in the log.
  [/\b[\d.]+ kB freed/g, 'FREED'],
  [/((?:segments?|uploaded|again|objects?), )[\d.]+ [kM]B/g, '$1SIZE'],
  [/[\d.]+ [kM]B of disk/g, 'SIZE of disk'],
  [/is on \S+ \(\S+\)\.$/gm, 'FILE SYSTEM'],
];

const settled = (text: string) =>
  VARYING.reduce((before, [pattern, name]) => before.replace(pattern, name), text);

/** `…` is any text within a line; a line of its own, any lines. */
function pattern(output: string): RegExp {
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const lines = output
    .split('\n')
    .map((line) => (line === '…' ? '[\\s\\S]*?' : line.split('…').map(literal).join('.*')));
  return new RegExp(`^${lines.join('\n')}$`);
}

afterAll(async () => {
  for (const sandbox of sandboxes.values()) await sandbox.close();
});

describe.each(Object.entries(SCENES))('%s', (page, scene) => {
  const file = path.join(root, page === 'README.md' ? '' : 'docs', page);
  const text = readFileSync(file, 'utf8');
  const examples = examplesOf(text);
  const isSkipped = scene.isSkipped?.() ?? false;
  let sandbox: Sandbox;
  let stage: Stage;
  /** A server that an example started: it stays for those that follow. */
  let server: ChildProcess | undefined;

  beforeAll(async () => {
    if (isSkipped) return;
    const { seed, changesMail = false } = scene;
    const shared = changesMail ? undefined : sandboxes.get(seed);
    sandbox = shared ?? (await startSandbox(seed === undefined ? {} : { seed }));
    if (!changesMail) sandboxes.set(seed, sandbox);
    const place = (scene.workplace ?? workplace)(sandbox);
    const bin = path.join(place.folder, 'bin');
    mkdirSync(bin);
    writeFileSync(
      path.join(bin, 'mailkeep'),
      `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`,
    );
    chmodSync(path.join(bin, 'mailkeep'), 0o755);
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await mailkeep(args, { cwd: place.folder });
      expect(code, stderr).toBe(0);
      return stdout;
    };
    stage = { ...place, sandbox, run, env: {}, texts: new Map(), stops: [] };
    await scene.prepare(stage);
  }, 120_000);
  afterAll(async () => {
    server?.kill();
    for (const stop of stage?.stops ?? []) await stop();
    if (scene.changesMail === true) await sandbox?.close();
  });

  /** A text of the page with the paths of this stage, or the other way round. */
  function translate(text: string, way: 'here' | 'page'): string {
    // The folder of the stage is the beginning of the others, so it comes last.
    const paths = Object.entries(scene.paths ?? {}).sort(
      ([, one], [, other]) => other.length - one.length,
    );
    const texts = [...stage.texts].reduce(
      (before, [shown, real]) =>
        way === 'here' ? before.replaceAll(shown, real) : before.replaceAll(real, shown),
      text,
    );
    return paths.reduce((before, [shown, real]) => {
      const here = path.join(stage.folder, real);
      return way === 'here' ? before.replaceAll(shown, here) : before.replaceAll(here, shown);
    }, texts);
  }

  function remember(printed: string): void {
    const [token] = /mk_[\w-]{20,}/.exec(printed) ?? [];
    if (token !== undefined) stage.texts.set('mk_…', token);
    const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? [];
    if (address !== undefined) stage.texts.set('http://127.0.0.1:8027', address);
  }

  /** @param lines the lines after which a server is ready */
  function shell(command: string, lines: number): Promise<string> {
    const isServer = /^(?:mailkeep|node \S+) web /.test(command);
    const script = isServer ? `exec ${command} 2>&1` : `{ ${command}\n} 2>&1`;
    const child = spawn('/bin/sh', ['-c', script], {
      cwd: stage.folder,
      env: {
        PATH: `${path.join(stage.folder, 'bin')}:${process.env.PATH}`,
        HOME: stage.folder,
        TZ: 'UTC',
        ...stage.env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (isServer) server = child;
    let printed = '';
    return new Promise((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        printed += chunk;
        if (isServer && printed.split('\n').length > lines) resolve(printed);
      });
      child.on('close', () => resolve(printed));
    });
  }

  test('there are examples', () => {
    expect(examples.length).toBeGreaterThan(0);
  });

  test('every block runs, or is listed with the reason', () => {
    const others = blocksOf(text).filter((block) => !block.startsWith('$ '));
    expect(others.map((block) => block.split('\n')[0])).toEqual(Object.keys(scene.notRun ?? {}));
  });

  // In order: later ones need what earlier ones made.
  test.skipIf(isSkipped).each(examples)('$command', async ({ command, output }) => {
    await scene.before?.[command]?.(stage);
    const written = await shell(translate(command, 'here'), output.split('\n').length - 1);
    remember(written);
    const printed = translate(written, 'page').replace(/(?<=[^\n])$/, '\n');
    const right = pattern(output).test(printed) || pattern(settled(output)).test(settled(printed));
    if (writing && !right) {
      const text = readFileSync(file, 'utf8');
      writeFileSync(
        file,
        text.replace(`$ ${command}\n${output}`, () => `$ ${command}\n${printed}`),
      );
    } else if (!right) {
      expect(settled(printed)).toMatch(pattern(settled(output)));
    }
  });
});
