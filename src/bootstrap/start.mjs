/**
 * `npm start`: installs and builds what is missing. With a configuration it runs the daemon;
 * without one it demonstrates mailkeep on generated mail: it starts a sandbox on this machine, and runs the real
 * commands as a user would type them. The archive stays in .demo/.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { needBuild, needDependencies, program, root } from './needs.mjs';

/** The program as it is typed in a clone; installed, it is `mailkeep`. */
const PROGRAM = 'node dist/mailkeep.cjs';
/** Queries that match the generated mail. */
const SEARCHES = [
  ['photograph', 'from:ruth'],
  ['invoice', 'has:attachment'],
];

needDependencies();
needBuild();

const asked = process.argv.indexOf('--config');
const { locateConfig } = await import('../../dist/config-places.js');
const config = locateConfig(asked < 0 ? undefined : process.argv[asked + 1], {
  cwd: process.cwd(),
  env: process.env,
});
/** What was started and runs still. */
const children = new Set();
// Ctrl-C reaches the children as well; they end, and then so do we.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.once(signal, () => endEarly(1));
// `npm start | head`: nobody reads any more.
process.stdout.on('error', (error) => {
  if (error.code !== 'EPIPE') throw error;
  void endEarly(0);
});
process.exitCode = config === undefined ? await demonstrate() : await mirror(config);

async function mirror(file) {
  print(`Configuration: ${file}`);
  print('The daemon runs in the foreground; press Ctrl-C to stop it.');
  return command(['daemon', '--config', file]);
}

async function demonstrate() {
  // It would be filled with generated mail.
  delete process.env.MAILKEEP_DATA;
  const demo = path.join(root, '.demo');
  print('No configuration found. Starting the sandbox, a local mail service with generated mail.');
  if (existsSync(demo))
    print('Deleting .demo/ of an earlier start: this one begins with an empty archive.');
  rmSync(demo, { recursive: true, force: true });
  mkdirSync(demo, { recursive: true });
  const sandbox = await startSandbox(['sandbox', '--port', '0', '--seed', '1']);
  try {
    const { mailboxUrl, tokens, mailboxes } = sandbox.facts;
    writeFileSync(path.join(demo, 'token'), `${tokens.mailbox}\n`, { mode: 0o600 });
    writeFileSync(
      path.join(demo, 'config.json'),
      `${JSON.stringify(
        {
          dataDir: './data',
          accounts: [{ name: 'demo', baseUrl: mailboxUrl, token: { file: './token' } }],
          rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
        },
        null,
        2,
      )}\n`,
      { mode: 0o600 },
    );
    print(
      `The sandbox serves ${mailboxes.map(({ address }) => address).join(', ')} at ${mailboxUrl}.`,
    );
    const config = path.join('.demo', 'config.json');
    for (const args of [
      ['sync', '--config', config],
      ['search', '--config', config, '--limit', '3', ...SEARCHES[0]],
      ['search', '--config', config, '--limit', '3', ...SEARCHES[1]],
      ['status', '--config', config],
    ]) {
      const code = await command(args);
      if (code !== 0) return code;
    }
  } finally {
    await sandbox.stop();
  }
  print('');
  print('The sandbox is stopped. The archive stays, and can be read offline:');
  print(`  ${PROGRAM} search --data .demo/data ${SEARCHES[0].join(' ')}`);
  print(`  ${PROGRAM} list --data .demo/data --folder INBOX`);
  print(`  ${PROGRAM} status --data .demo/data`);
  print('Or in a browser, with a link that signs it in:');
  print(`  ${PROGRAM} web --data .demo/data`);
  print('For your own mailboxes, with your own token:');
  print(`  ${PROGRAM} init`);
  return 0;
}

/** Runs one command in the foreground, as a user would, and returns its exit code. */
async function command(args) {
  print(`\n$ mailkeep ${args.join(' ')}`);
  const { ended } = start(args, 'inherit');
  const [code, signal] = await ended;
  return signal === null ? code : 130;
}

/** Starts the sandbox; `facts` is the line it prints once it listens. */
async function startSandbox(args) {
  print(`\n$ mailkeep ${args.join(' ')} &`);
  const { child, ended } = start(args, ['ignore', 'pipe', 'inherit']);
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([once(lines, 'line'), ended.then(() => undefined)]);
  if (first === undefined) {
    print('The sandbox ended before it listened.');
    process.exit(1);
  }
  return {
    facts: JSON.parse(first[0]),
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Starts mailkeep; `ended` is its exit code and signal. */
function start(args, stdio) {
  const child = spawn(process.execPath, [program, ...args], { cwd: root, stdio });
  children.add(child);
  const ended = once(child, 'exit').finally(() => children.delete(child));
  return { child, ended };
}

/** Ends what was started, and then this process. */
async function endEarly(code) {
  const running = [...children];
  await Promise.all(
    running.map((child) => {
      child.kill('SIGTERM');
      return once(child, 'exit');
    }),
  );
  process.exit(code);
}

function print(text) {
  process.stdout.write(`${text}\n`);
}
