import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, program, type Workplace, workplace } from '../cli/child.ts';
import { bothSurfaces } from '../cli/platform-config.ts';
import { writePrunable } from '../retention/prunable-archive.ts';

/**
 * Runs every example of the pages below: each `$ command` of a block, in the order of the page, and compares what it
 * prints with the block. MAILKEEP_DOCS=write puts what was printed into the pages instead, for review.
 */

/** Where and with what the examples of a page run. */
interface Scene {
  /** Seed of the sandbox's mail, if not the one that it has without an option. */
  readonly seed?: number;
  readonly workplace?: (sandbox: Sandbox) => Workplace;
  /** What the reader of the page has already done. */
  readonly prepare: (stage: Stage) => Promise<void>;
  /** What happens before an example, by its command. */
  readonly before?: Readonly<Record<string, (stage: Stage) => Promise<void> | void>>;
  /** Paths as the page writes them, and where they are here, below the folder of the stage. */
  readonly paths?: Readonly<Record<string, string>>;
}

interface Stage extends Workplace {
  readonly sandbox: Sandbox;
  /** Runs a command that must succeed. */
  readonly run: (...args: string[]) => Promise<string>;
}

const synced = async ({ run }: Stage) => void (await run('sync', '--quiet'));

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

/** An archive that has mail, at the place that pages about its servers name, with any free port for them. */
const served: Scene = {
  seed: 7,
  workplace: (sandbox) =>
    workplace(sandbox, (config) => ({ ...config, web: { listen: '127.0.0.1:0' } })),
  prepare: synced,
  paths: { '.demo/data': 'data' },
};

const SCENES: Readonly<Record<string, Scene>> = {
  'api.md': { workplace: bothSurfaces, prepare: async () => {} },
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
  'mcp.md': served,
  'reading.md': {
    seed: 7,
    prepare: async (stage) => {
      await synced(stage);
      await stage.run('rebuild', '--quiet');
    },
    paths: { '~/saved': 'saved' },
  },
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
        await synced(stage);
        writeFileSync(stage.config, JSON.stringify({ accounts }));
      },
    },
    paths: { '/home/you/mail': '.' },
  },
  'verification.md': {
    seed: 7,
    prepare: async (stage) => {
      await synced(stage);
      mkdirSync(path.join(stage.folder, 'usb'));
    },
    paths: { '/home/you/mail': '.', '/media/usb': 'usb' },
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
const docs = fileURLToPath(new URL('../../docs/', import.meta.url));

interface Example {
  readonly command: string;
  readonly output: string;
}

/** The examples of a page: blocks of three backquotes whose first line begins with "$ ". */
function examplesOf(text: string): Example[] {
  return [...text.matchAll(/^```(?:console)?\n(\$ [\s\S]*?)^```$/gm)]
    .flatMap(([, block = '']) => block.split(/^\$ /m).slice(1))
    .map((example) => {
      const [, command = '', output = ''] = /^((?:.*\\\n)*.*\n)([\s\S]*)$/.exec(example) ?? [];
      return { command: command.trimEnd(), output };
    });
}

/** What differs from run to run: times, durations, speeds, ports, commits, keys, hosts. */
const VARYING: readonly [RegExp, string][] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, 'TIME'],
  [/\b[\d,.]+ (?:ms|s|MB\/s)(?=[\s.,;)]|$)/gm, 'DURATION'],
  // Only slow machines show progress.
  [
    /^(?:made|read|exported|copied|compared|verified) [\d,]+ (?:searchable,|messages,|places,|of) .*\n/gm,
    '',
  ],
  [/127\.0\.0\.1:\d+/g, 'ADDRESS'],
  [/\bcommit \d+|\b\d+ commits\b/g, 'COMMIT'],
  [/[A-Za-z0-9+/]{43}=/g, 'KEY'],
  [/#[0-9A-Z]{4}(?:-[0-9A-Z]{4}){2}\b/g, 'CODE'],
  [/\b[\d.]+ [GT]B are free/g, 'FREE'],
  // Times are compressed in the log.
  [/\b[\d.]+ kB freed/g, 'FREED'],
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

describe.each(Object.entries(SCENES))('docs/%s', (page, scene) => {
  const file = path.join(docs, page);
  const examples = examplesOf(readFileSync(file, 'utf8'));
  let sandbox: Sandbox;
  let stage: Stage;
  /** A server that an example started: it stays for those that follow. */
  let server: ChildProcess | undefined;
  /** What later examples use, as pages write it, and as it was printed. */
  const printedBefore = new Map<string, string>();

  beforeAll(async () => {
    sandbox = await startSandbox(scene.seed === undefined ? {} : { seed: scene.seed });
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
    stage = { ...place, sandbox, run };
    await scene.prepare(stage);
  });
  afterAll(async () => {
    server?.kill();
    await sandbox.close();
  });

  /** A text of the page with the paths of this stage, or the other way round. */
  function translate(text: string, way: 'here' | 'page'): string {
    // The folder of the stage is the beginning of the others, so it comes last.
    const paths = Object.entries(scene.paths ?? {}).sort(
      ([, one], [, other]) => other.length - one.length,
    );
    const texts = [...printedBefore].reduce(
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
    if (token !== undefined) printedBefore.set('mk_…', token);
    const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? [];
    if (address !== undefined) printedBefore.set('http://127.0.0.1:8027', address);
  }

  /** @param lines the lines after which a server is ready */
  function shell(command: string, lines: number): Promise<string> {
    const isServer = command.startsWith('mailkeep web ');
    const script = isServer ? `exec ${command} 2>&1` : `{ ${command}\n} 2>&1`;
    const child = spawn('/bin/sh', ['-c', script], {
      cwd: stage.folder,
      env: {
        PATH: `${path.join(stage.folder, 'bin')}:${process.env.PATH}`,
        HOME: stage.folder,
        TZ: 'UTC',
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

  // In order: later ones need what earlier ones made.
  test.each(examples)('$command', async ({ command, output }) => {
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
