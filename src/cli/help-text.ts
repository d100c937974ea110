import type { Command } from 'commander';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { wrapLine } from './output.ts';

/** Meanings for commands that do not define more specific ones. */
const MEANINGS: Readonly<Record<ExitCode, string>> = {
  [EXIT.done]: 'done',
  [EXIT.failures]: 'failed; the reason is printed',
  [EXIT.usage]: 'wrong usage or configuration',
  [EXIT.damage]: 'damage found in the archive',
  [EXIT.held]: 'pending deletions: messages disappeared at the service',
  [EXIT.inUse]: 'the archive is in use by another process',
  [EXIT.refused]: 'the token, password or sign-in was refused',
  [EXIT.interrupted]: 'interrupted',
};

type Meanings = Partial<Readonly<Record<ExitCode, string>>>;

const DECLINED = 'interrupted, or you answered no';

const ANY: Meanings = { 0: MEANINGS[0], 1: MEANINGS[1], 2: MEANINGS[2], 130: MEANINGS[130] };
const READS: Meanings = {
  ...ANY,
  1: 'the archive cannot be read, or the result cannot be written',
  2: 'wrong usage, or no archive',
  3: 'the archive or its catalog is damaged',
};
const WRITES: Meanings = { ...ANY, 3: MEANINGS[3], 5: MEANINGS[5] };
const ASKS: Meanings = { ...ANY, 6: MEANINGS[6] };
const MAY_HOLD: Meanings = { ...WRITES, ...ASKS, 4: MEANINGS[4] };

/** Exit codes of commands that run until stopped. The first signal stops them gracefully, the second immediately. */
const STOPPED: Meanings = {
  0: 'stopped by SIGTERM or SIGINT',
  130: 'ended at once by a second SIGTERM or SIGINT',
};

const OF_COMMAND: Readonly<Record<string, Meanings>> = {
  init: {
    ...ASKS,
    1: 'the service or server cannot be reached, or a file cannot be written',
    130: DECLINED,
  },
  account: { ...ASKS, 1: 'the provider or the server cannot be reached', 130: DECLINED },
  sync: { ...MAY_HOLD, 1: 'partly failed; what failed is named' },
  daemon: { ...WRITES, ...STOPPED },
  status: {
    ...READS,
    1: 'a mailbox is older than --max-age, or the archive cannot be read',
    3: 'a verification found damage, or the catalog is damaged',
  },
  search: { ...READS, 0: 'done, even if nothing is found' },
  list: { ...READS, 0: 'done, even if nothing is listed' },
  show: {
    ...READS,
    1: 'the message cannot be parsed within the limits, or the result cannot be written',
    2: 'wrong usage, or no such message',
    3: 'the message or the catalog is damaged',
  },
  attachments: {
    ...READS,
    1: 'an attachment cannot be read or saved',
    2: 'wrong usage, or no such message',
    3: 'the message or the catalog is damaged',
  },
  history: { ...READS, 2: 'wrong usage, or no such message' },
  stats: { ...READS, 0: 'done, even if nothing is found' },
  web: {
    ...READS,
    ...STOPPED,
    0: 'stopped by SIGTERM or SIGINT, or the link was printed',
    1: 'no server runs (--link), or the archive cannot be read',
  },
  mcp: { ...READS, ...STOPPED, 0: 'the input ended, or stopped by SIGTERM or SIGINT' },
  verify: {
    ...WRITES,
    ...ASKS,
    1: 'something cannot be read, or the service differs (--origin)',
    3: 'damage found, and not all of it repaired',
    5: 'the archive is in use, with --repair and --origin',
    6: 'the token, password or sign-in was refused, with --repair and --origin',
  },
  checkpoint: READS,
  copy: { ...WRITES, 5: 'the archive or its copy is in use by another process' },
  export: {
    ...READS,
    1: 'quarantined or purged messages are left out, or it cannot be written',
    3: 'damaged messages are left out, or the catalog is damaged',
    130: 'interrupted; the same command continues',
  },
  restore: {
    ...READS,
    1: 'messages were refused, or the server cannot be reached',
    3: 'damaged messages are left out, or the catalog is damaged',
    5: 'another process carries out the same restore',
    6: 'the server refused the login',
    130: 'interrupted; the same command continues',
  },
  import: {
    ...WRITES,
    1: 'something was not imported and is listed',
    130: DECLINED,
    4: 'held: nothing was undone, and the hold is named (--undo)',
  },
  quarantine: WRITES,
  rebuild: { ...WRITES, 3: 'damage found; the catalog contains everything else' },
  compact: WRITES,
  prune: { ...WRITES, 4: 'held: nothing was removed, and the reason is printed', 130: DECLINED },
  forget: {
    ...WRITES,
    4: 'held: nothing was removed, and the hold is named (--mailbox)',
    130: DECLINED,
  },
  webhooks: { ...ASKS, 130: DECLINED },
  token: { ...READS, 1: 'no such token, or the archive cannot be written' },
  doctor: { ...MAY_HOLD, 0: 'nothing failed; there may be warnings' },
  config: ANY,
  notify: { ...ANY, 1: 'a notification was not sent' },
  fleet: {
    ...ANY,
    1: 'failed, or something needs attention (status); it is printed',
    3: 'damage found in the registry or the bucket',
    5: 'in use: by a living node, or by another transaction',
    6: 'PostgreSQL or S3 refused the user',
  },
  api: { ...ASKS, 1: 'failed, or done in part; the reason is printed', 130: DECLINED },
  sandbox: { ...ANY, ...STOPPED },
  completion: ANY,
};

export function commandExitCodes(command: string): Meanings {
  return OF_COMMAND[command] ?? MEANINGS;
}

export function exitStatusHelp(command: string): string {
  const lines = Object.entries(commandExitCodes(command)).map(
    ([code, meaning]) => `  ${code.padEnd(3)}  ${meaning}`,
  );
  return ['', 'EXIT STATUS', ...lines].join('\n');
}

/** Returns the EXAMPLES section of a subcommand: the parent's examples that call it. */
export function subcommandExamples(help: string, words: string): string {
  const [, section = ''] = /\nEXAMPLES\n((?: {2}.*\n)+)/.exec(help) ?? [];
  const calls = (line: string): boolean => line !== '' && ` ${line} `.includes(words);
  const lines = section.split('\n').filter(calls);
  return lines.length === 0 ? '' : ['', 'EXAMPLES', ...lines, ''].join('\n');
}

/** Wraps help text. Reflows paragraphs, and breaks long table rows between words. */
export function wrappedHelp(text: string, columns: number): string {
  const lines: string[] = [];
  let paragraph: string[] = [];
  const close = (): void => {
    if (paragraph.length > 0) lines.push(...wrapLine(paragraph.join(' '), columns));
    paragraph = [];
  };
  for (const line of text.split('\n')) {
    const isProse = /^\S/.test(line) && !/^[A-Z][A-Z ]+$/.test(line);
    if (isProse) paragraph.push(line);
    else {
      close();
      lines.push(...wrappedRow(line, columns));
    }
  }
  close();
  return lines.join('\n');
}

/** Wraps the last column of a table row. Keeps commands on one line for copying. */
function wrappedRow(row: string, columns: number): string[] {
  if (row.length <= columns || row.startsWith('  mailkeep ')) return [row];
  const gap = /\S {2,}/.exec(row);
  const start = gap === null ? row.search(/\S/) : gap.index + gap[0].length;
  if (start > columns / 2) return wrapLine(row, columns);
  const [first = '', ...others] = wrapLine(row.slice(start), columns - start);
  return [`${row.slice(0, start)}${first}`, ...others.map((line) => `${' '.repeat(start)}${line}`)];
}

/** Words that other programs use, with our equivalent commands. */
const COMMANDS: Readonly<Record<string, string>> = {
  backup: 'sync mirrors mailboxes, and copy updates a second copy of the archive.',
  browse: 'web shows the archive in a browser.',
  cat: 'show prints a message.',
  check: 'verify checks the archive, doctor what a sync needs, config check the configuration.',
  delete: 'forget removes messages from the archive permanently.',
  dir: 'list prints messages, status folders.',
  download: 'sync downloads new mail, and attachments --save saves attachments.',
  dump: 'export writes messages as files.',
  fetch: 'sync downloads new mail.',
  find: 'search finds messages.',
  folders: 'status lists mailboxes and folders.',
  grep: 'search finds messages.',
  info: 'status describes the archive.',
  log: 'history shows what happened to a message, and webhooks log the deliveries of a webhook.',
  logs: 'history shows what happened to a message, and webhooks log the deliveries of a webhook.',
  ls: 'list prints messages, status folders.',
  mirror: 'sync mirrors mailboxes once, and daemon keeps them mirrored.',
  open: 'show prints a message, and web shows the archive in a browser.',
  pull: 'sync downloads new mail.',
  read: 'show prints a message.',
  remove: 'forget removes messages from the archive permanently.',
  rm: 'forget removes messages from the archive permanently.',
  run: 'sync mirrors mailboxes once, and daemon keeps them mirrored.',
  serve: 'web shows the archive in a browser, and daemon keeps it up to date.',
  service: 'daemon install writes units for systemd.',
  setup: 'init writes a configuration.',
  start: 'daemon keeps the archive up to date, and web shows it in a browser.',
  stop: 'Ctrl-C or SIGTERM stops the daemon and the web server.',
  test: 'doctor checks what a sync needs, and verify checks the archive.',
  undelete: 'list --deleted lists deleted messages, and restore puts them back.',
  update: 'sync downloads new mail.',
  version: '--version prints the version.',
  view: 'show prints a message.',
  watch: 'daemon keeps the archive up to date.',
};

const RATE =
  'The limit is rateLimit.requestsPerMinute of the configuration; "init --rate" writes it.';
const OPTIONS: Readonly<Record<string, string>> = {
  '--rate': RATE,
  '--rpm': RATE,
  '--requests-per-minute': RATE,
  '--limit-rate': RATE,
  '--password': 'Passwords are in a file or the environment: init --password-file, --password-env.',
  '--token': 'Tokens are in the configuration or in a file: init --token-file, init --token-env.',
  '--archive': 'Did you mean --data?',
  '--dir': 'Did you mean --data?',
  '--output-dir': 'Did you mean --to?',
  '--out': 'Did you mean --to?',
  '--csv': 'Did you mean --format csv?',
  '--silent': 'Did you mean --quiet?',
  '--debug': 'Did you mean --verbose? MAILKEEP_DEBUG=1 prints stack traces.',
};

const EXAMPLES: Readonly<Record<string, string>> = {
  ...{ folder: 'in:INBOX', mailbox: 'mailbox:anna@example.org', has: 'has:attachment' },
  ...{ before: 'before:2026-03-01', after: 'after:2026-03-01', since: 'after:2026-03-01' },
  ...{ until: 'before:2026-03-01', subject: 'subject:rent', is: 'is:unread', unread: 'is:unread' },
  ...{ deleted: 'is:deleted', attachment: 'has:attachment', attachments: 'has:attachment' },
};

/** Suggests a replacement for an unknown command or option. */
export async function unknownWordHint(
  typed: string,
  command: Command,
  program: Command,
): Promise<string | null> {
  if (!typed.startsWith('-')) {
    if (command !== program || !Object.hasOwn(COMMANDS, typed.toLowerCase())) return null;
    return COMMANDS[typed.toLowerCase()] ?? null;
  }
  const takesQuery = command.options.some(({ long }) => long === '--query');
  const isSearch = command.name() === 'search';
  const name = typed.replace(/^--/, '').replaceAll('-', '_').toLowerCase();
  if ((isSearch || takesQuery || command.name() === 'list') && typed.startsWith('--')) {
    const { OPERATORS } = await import('../catalog/query-ast.ts');
    const example = Object.hasOwn(EXAMPLES, name) ? EXAMPLES[name] : undefined;
    const filter = example ?? (OPERATORS.has(name) ? `${name}:anna` : undefined);
    if (filter !== undefined && isSearch)
      return `A filter is part of the query: mailkeep search ${filter}`;
    if (filter !== undefined && takesQuery) return `Filter with a query: --query ${filter}`;
    if (filter !== undefined) return `Filter with a search: mailkeep search ${filter}`;
  }
  const isKnown = [command, program].some(({ options }) =>
    options.some(({ long }) => long === OPTIONS[typed]?.match(/--[a-z-]+/)?.[0]),
  );
  const hint = Object.hasOwn(OPTIONS, typed) ? OPTIONS[typed] : undefined;
  return hint === undefined || (hint.startsWith('Did you mean') && !isKnown) ? null : hint;
}
